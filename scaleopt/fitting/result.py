"""What a fit found: a model, how far to trust each number, and what the rows cannot tell."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

import jax
import numpy as np
import pandas as pd

from scaleopt.fitting.columns import columns_of
from scaleopt.fitting.groups import GroupedModel
from scaleopt.fitting.parameters import Parameters, Point
from scaleopt.fitting.prediction import Prediction, predict_rows
from scaleopt.fitting.prior import Prior
from scaleopt.fitting.provenance import Provenance, provenance
from scaleopt.fitting.ranges import ranges_of
from scaleopt.fitting.rows import Observe
from scaleopt.fitting.scatter import KindNoise
from scaleopt.fitting.search import Problem
from scaleopt.fitting.summary import described_parameters, summary_of
from scaleopt.fitting.uncertainty import Covariance

Model = TypeVar("Model")

_ONE_DEVIATION = 0.6826894921370859
"""The share of a normal within one standard deviation of its mean."""


@dataclass(frozen=True, repr=False)
class Fit(Generic[Model]):
    """A fitted model with its uncertainty; made by `fit` and `calibrate`."""

    model: Model
    """The best model whose parameters are all possible: none below 0."""
    estimate: np.ndarray
    """The parameters of `model`, in the order of `names`."""
    parameters: Parameters
    point: Point
    """The unconstrained best point, in which a parameter that may be 0 can be negative."""
    constrained: Point
    """The point of `model`."""
    covariance: Covariance
    noise: tuple[KindNoise, ...]
    observe: Observe
    columns: dict[str, Any]
    """What `observe` was given for each row."""
    table: pd.DataFrame
    """The rows that were fitted."""
    predicted: np.ndarray
    """(rows,): what `model` says of each, in the unit that was measured in."""
    unidentified: tuple[str, ...]
    """A sentence for each parameter or direction that the rows cannot tell."""
    notes: tuple[str, ...]
    """What was assumed or left out."""
    failure: str | None
    """None, or why the numbers must not be used and what to do."""
    problem: Problem | None = field(default=None, kw_only=True)
    """What the solver was given, to be solved again."""

    def __repr__(self) -> str:
        return f"Fit(model={self.model!r}, failure={self.failure!r}); print(fit.summary()) for more"

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The rows that were fitted, with `predicted_s` beside `time_s`."""
        return self.table.assign(predicted_s=self.predicted)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fitted parameters, in the order of every vector here."""
        return self.parameters.names

    @property
    def provenance(self) -> dict[str, Provenance]:
        """Where each number of `model` is from, by name: "fitted", "not told" or "assumed".

        A parameter that was given a prior is fitted to rows and prior, and a note says so.
        """
        return provenance(self)

    def interval(self, level: float = 0.95) -> tuple[Model, Model]:
        """The range of each parameter, as two models of the same shape.

        Args:
            level: the share of such intervals that contain the truth.

        Returns:
            (low, high). A parameter consistent with 0 starts at 0; one that the rows do not
            identify runs from 0 to infinity.
        """
        low, high = self.ranges(level)
        return self._model(low), self._model(high)

    def ranges(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """The range of each parameter as two vectors in the order of `names`."""
        failed = np.asarray(self.failure is not None)
        return ranges_of(self.point, self.covariance, self.estimate, failed, level)

    @property
    def standard_error(self) -> np.ndarray:
        """One standard deviation of each parameter in its unit, in the order of `names`.

        To first order; an interval from `ranges` also knows that a time is not below 0.
        """
        slope = np.abs(self.point.slopes())
        return np.where(self.failure is not None, np.inf, slope * self.covariance.deviation)

    def priors(self) -> dict[str, Prior]:
        """What this fit knows, as priors for a fit of other rows.

        Returns:
            Value and one standard deviation of each parameter that the rows tell to be above 0,
            without the correlations between them.

        >>> from jax.tree_util import Partial
        >>> from scaleopt.fitting.fit import fit
        >>> table = pd.DataFrame({"op": "step", "devices": [1, 1, 2, 2], "time_s": [9, 9.2, 5, 5]})
        >>> def amdahl(devices, *, serial, work):
        ...     return serial + work / devices
        >>> law = Partial(amdahl, serial=2.0, work=5.0)
        >>> known = fit(law, table).priors()
        >>> few = pd.DataFrame({"op": "step", "devices": [4, 8], "time_s": [3, 2]})
        >>> fit(law, few, priors=known).unidentified
        ()
        """
        low, high = self.ranges(_ONE_DEVIATION)
        told = (low > 0) & np.isfinite(high) & (high > low)
        return {
            name: Prior(float(value), float(np.sqrt(above / below)))
            for name, value, below, above, known in zip(
                self.names, self.estimate, low, high, told, strict=True
            )
            if known
        }

    def columns_from(self, table: pd.DataFrame) -> dict[str, Any]:
        """What the model takes, from the rows of a table."""
        by = {self.observe.by} if isinstance(self.observe, GroupedModel) else set()
        columns = columns_of(table, [name for name in self.columns if name not in by])
        return columns | {name: table[name] for name in by}

    def predict(
        self, table: pd.DataFrame | None = None, *, level: float = 0.9, **columns: Any
    ) -> Prediction:
        """Seconds of rows still to be measured.

        Args:
            table: rows with the columns of a table of measurements, instead of `columns`.
            level: the share of measurements within the range.
            columns: what the model takes, such as devices, flops [FLOP] and size [B]; a
                calibrated fit also takes op ("step" unless said), operations and injected [s].

        Returns:
            The time and its range: the parameters' uncertainty joined with the scatter of the
            rows fitted. Where it hangs on a direction that the rows do not see, 0 to infinity.

        Raises:
            ValueError: a column that the model does not take, one that it lacks, or a number that
                none can be, such as 0 devices.
        """
        return predict_rows(self, table, level, columns)

    def summary(self, level: float = 0.95) -> str:
        """The parameters with their intervals, and what could not be told, as plain text."""
        return summary_of(self, level)

    def described(self, level: float = 0.95) -> list[tuple[str, str, str]]:
        """Name, value and interval of each parameter, in words."""
        return described_parameters(self, level)

    def _model(self, values: np.ndarray) -> Any:
        return plain(self.parameters.model(values))


def plain(model: Any) -> Any:
    """The model with Python floats where it held arrays without axes."""
    return jax.tree.map(
        lambda leaf: float(leaf) if getattr(leaf, "ndim", None) == 0 else leaf, model
    )
