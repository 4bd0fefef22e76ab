"""How far estimates move when runs, not rows, are drawn anew."""

from typing import TypeVar

import numpy as np

from scaleopt.fitting.fit import labels_of
from scaleopt.fitting.many import FitMany, problem_of, refit
from scaleopt.fitting.result import Fit
from scaleopt.fitting.rows import Tables

Model = TypeVar("Model")


def bootstrap(fit: Fit[Model], by: str, *, draws: int = 1000, seed: int = 0) -> FitMany[Model]:
    """Fit again with the runs of the table drawn with replacement.

    Args:
        fit: what is drawn from is the rows that it was fitted to.
        by: the column that says which run a row is of, such as "round".
        draws: how many tables are drawn.
        seed: of the draws.

    Returns:
        The fits; `quantiles` gives the percentile interval of each parameter.

    Raises:
        ValueError: no such column, fewer than two runs, or fewer than one draw.

    >>> import pandas as pd
    >>> from jax.tree_util import Partial
    >>> from scaleopt.fitting.fit import fit
    >>> def amdahl(devices, *, serial, work):
    ...     return serial + work / devices
    >>> time = [9.0, 5.0, 3.0, 2.0, 9.4, 5.2, 3.2, 2.1, 8.9, 4.9, 2.9, 1.9]
    >>> table = pd.DataFrame({"op": "step", "devices": [1, 2, 4, 8] * 3, "time_s": time})
    >>> table["run"] = [1] * 4 + [2] * 4 + [3] * 4
    >>> one = fit(Partial(amdahl, serial=2.0, work=5.0), table)
    >>> low, high = bootstrap(one, "run", draws=50).quantiles(0.9)
    >>> bool(all(low < one.estimate) and all(one.estimate < high))
    True

    Source: A. C. Davison and D. V. Hinkley, "Bootstrap Methods and their Application", 1997,
    section 3.8, strategy 1.
    """
    codes, labels = labels_of(fit.rows, by)
    if len(labels) < 2 or draws < 1:
        raise ValueError(
            f"{len(labels)} values of {by!r} and draws={draws}; two runs and one draw are the least"
        )
    drawn = np.random.default_rng(seed).multinomial(
        len(labels), np.full(len(labels), 1 / len(labels)), draws
    )
    copies = drawn[:, codes].astype(float)
    measured = np.broadcast_to(problem_of(fit).tables.measured, copies.shape)
    return refit(fit, Tables(measured, copies))
