"""The critical batch of a model, from how many steps it took at several batches."""

from typing import NamedTuple

import equinox as eqx
import numpy as np
import pandas as pd
from jax import Array

from scaleopt.fitting.estimate import estimate
from scaleopt.fitting.parameters import free_parameters
from scaleopt.fitting.propagate import Estimate, propagate
from scaleopt.fitting.result import Fit
from scaleopt.units import Count, Ratio, Scalar, real


class StepsToTarget(eqx.Module):
    """S = S_min + E_min/B.

    Args:
        fewest: S_min, steps however large the batch.
        samples: E_min, sequences however small it is.
    """

    fewest: Ratio
    samples: Ratio

    def __call__(self, batch: Count) -> Array:
        """The steps."""
        batch, fewest, samples = real(batch, self.fewest, self.samples)
        return fewest + samples / batch


class CriticalBatch(NamedTuple):
    """Where a larger batch stops saving steps."""

    critical_batch: Estimate
    """B_c, sequences."""
    samples: Estimate
    """E_min, sequences that a run takes at small batches."""
    fit: Fit[StepsToTarget]
    """Of S(B), whose `predict` gives steps at another batch."""


def fit_critical_batch(batch: Scalar, steps: Scalar, *, level: float = 0.9) -> CriticalBatch:
    """The critical batch, from runs to the same loss.

    S = S_min + E_min/B,  B_c = E_min/S_min

    Args:
        batch: B of each run, sequences of a step.
        steps: S that each took to reach the loss.
        level: of the intervals.

    Returns:
        B_c and E_min with their intervals, open where the runs do not tell.

    Raises:
        ValueError: fewer than three runs, or a number that is not above 0.

    >>> batch = np.array([64, 128, 256, 512, 1024, 2048])
    >>> found = fit_critical_batch(batch, 1000 * (1 + 500 / batch) * [1.01, 0.99, 1, 1, 0.98, 1.01])
    >>> found.critical_batch.low < 500 < found.critical_batch.high
    True

    Source: S. McCandlish et al., "An empirical model of large-batch training", arXiv 1812.06162,
    2018, section 2.3.
    """
    batches, counts = (np.atleast_1d(np.asarray(value, float)) for value in (batch, steps))
    if batches.shape != counts.shape:
        raise ValueError(
            f"{batches.size} batches and {counts.size} numbers of steps; give one of each a run"
        )
    if len(np.unique(batches)) < 3:
        raise ValueError(
            f"{len(np.unique(batches))} different batches do not tell where a larger one stops "
            "saving steps; give three or more"
        )
    for name, value in (("batch", batches), ("steps", counts)):
        if not np.all((value > 0) & (value < np.inf)):
            wrong = value[~((value > 0) & (value < np.inf))][0]
            raise ValueError(f"{name} holds {wrong}; each must be above 0")
    # An estimate is of positive numbers, whatever they count: here steps instead of seconds.
    rows = pd.DataFrame({"op": "step", "time_s": counts})
    start = StepsToTarget(counts.min() / 2, float(np.median(counts * batches)) / 2)
    found = estimate(_at_batch, free_parameters(start), rows, {"batch": batches})
    return CriticalBatch(
        propagate(lambda law: law.samples / law.fewest, found, level),
        propagate(lambda law: law.samples, found, level),
        found,
    )


def _at_batch(law: StepsToTarget, columns: dict[str, Array]) -> Array:
    return law(columns["batch"])
