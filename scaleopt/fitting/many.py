"""The same fit of thousands of other tables at once: simulated, resampled, or measured alike."""

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import jax
import numpy as np

from scaleopt.fitting.estimate import failure_of
from scaleopt.fitting.parameters import Coordinate, Parameters, Point
from scaleopt.fitting.ranges import check_level, ranges_of
from scaleopt.fitting.result import Fit, plain
from scaleopt.fitting.rows import Tables
from scaleopt.fitting.search import Found, Problem, search
from scaleopt.fitting.uncertainty import Covariances

Model = TypeVar("Model")

_MOST_NUMBERS = 1 << 16
"""Tables are taken in parts of so many numbers of their Jacobians, which bounds the memory."""


@dataclass(frozen=True, repr=False)
class FitMany(Generic[Model]):
    """Fits of many tables of one design; made by `fit_many` and `bootstrap`."""

    estimate: np.ndarray
    """(tables, parameters), in the order of `names`."""
    failure: tuple[str | None, ...]
    """For each table None, or why its numbers must not be used."""
    parameters: Parameters
    point: Point
    covariance: Covariances
    predicted: np.ndarray
    """(tables, rows): what each table's fit says of every row; a log where misses are of logs."""
    row_scale: np.ndarray
    """(tables, rows): the noise of each row under it."""

    def __repr__(self) -> str:
        lost = sum(failure is not None for failure in self.failure)
        return f"FitMany({len(self.failure)} tables of {', '.join(self.names)}; {lost} failed)"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fitted parameters."""
        return self.parameters.names

    def model(self, table: int) -> Model:
        """The fitted model of one table."""
        return plain(self.parameters.model(self.estimate[table]))

    def ranges(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """The range of each parameter for each table, (tables, parameters), as `Fit.ranges`."""
        failed = np.array([failure is not None for failure in self.failure])
        return ranges_of(self.point, self.covariance, self.estimate, failed, level)

    def quantiles(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """The range of each parameter over the tables that did not fail, (parameters,) each."""
        check_level(level)
        well = self.estimate[[failure is None for failure in self.failure]]
        tail = (1 - level) / 2
        low, high = np.quantile(well, [tail, 1 - tail], axis=0)
        return low, high


def fit_many(fit: Fit[Model], times: np.ndarray) -> FitMany[Model]:
    """Fit many tables that differ from a fit's own in what was measured alone.

    Args:
        fit: one fit of the design; its model, options and estimate are taken, the last as start.
        times: (tables, rows), what was measured in each table [s, or the unit of the fit].

    Returns:
        The estimates and their intervals, table by table.

    Raises:
        ValueError: a shape that is not (tables, rows), or a time that is not positive.

    >>> import pandas as pd
    >>> from jax.tree_util import Partial
    >>> from scaleopt.fitting.fit import fit
    >>> def amdahl(devices, *, serial, work):
    ...     return serial + work / devices
    >>> table = pd.DataFrame({"op": "step", "devices": [1, 2, 4, 8], "time_s": [9.0, 5, 3, 2]})
    >>> one = fit(Partial(amdahl, serial=2.0, work=5.0), table)
    >>> fit_many(one, [table["time_s"], 2 * table["time_s"]]).estimate.round(1)
    array([[ 1.,  8.],
           [ 2., 16.]])

    Source: the estimator of `scaleopt.fitting.solve`.
    """
    problem, times = problem_of(fit), np.asarray(times, float)
    if times.ndim != 2 or times.shape[1] != len(fit.rows) or not len(times):
        raise ValueError(
            f"times has the shape {times.shape}; give (tables, {len(fit.rows)}), a row a table"
        )
    if not np.all(np.isfinite(times) & (times > 0)):
        table, row = np.argwhere(~(np.isfinite(times) & (times > 0)))[0]
        raise ValueError(f"times[{table}, {row}] is {times[table, row]}; it must be above 0")
    measured = np.log(times) if problem.loss.relative else times
    return refit(fit, Tables(measured, np.ones_like(measured)))


def refit(fit: Fit[Model], tables: Tables) -> FitMany[Model]:
    """Fit tables of the design of a fit, in parts that bound the memory."""
    whole = len(tables.measured)
    most = max(1, _MOST_NUMBERS // (tables.measured.shape[1] * len(fit.names)))
    found = [
        _searched(fit, Tables(*(each[start : start + most] for each in tables)))
        for start in range(0, whole, most)
    ]

    def joined(parts: list[Any]) -> Any:
        return jax.tree.map(lambda *each: np.concatenate(each), *parts)

    return FitMany(
        joined([each.theta for each in found]),
        tuple(failure for each in found for failure in failure_of(each, fit.names)),
        fit.parameters,
        joined([each.point for each in found]),
        Covariances(**joined([vars(each.spread) for each in found])),
        joined([each.best.predicted for each in found]),
        joined([each.best.row_scale for each in found]),
    )


def _searched(fit: Fit[Any], tables: Tables) -> Found:
    """Search from the fit's estimate, and from the model's own start where that is 0."""
    begun = fit.parameters.start()
    with np.errstate(divide="ignore"):
        u = np.log(fit.estimate)
    known = np.isfinite(u) & (np.asarray(begun.coordinate) == Coordinate.LOG)
    begun = begun._replace(u=np.where(known, u, begun.u))
    count = len(tables.measured)
    points = Point(*(np.repeat(np.asarray(each)[None], count, axis=0) for each in begun))
    return search(replace(problem_of(fit), tables=tables), points)


def problem_of(fit: Fit[Any]) -> Problem:
    """What a fit was given to solve."""
    if not isinstance(fit, Fit):
        raise TypeError(
            f"a fit is needed, not {type(fit).__name__}; give what so.fit or so.calibrate returned"
        )
    if fit.problem is None:
        raise ValueError(
            "this kind of fit cannot be solved again from another table; use so.fit or so.calibrate"
        )
    return fit.problem
