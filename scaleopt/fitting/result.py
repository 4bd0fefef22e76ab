"""What a fit found: a model, how far to trust each number, and what the rows cannot tell."""

from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import numpy as np
import pandas as pd

from scaleopt.fitting.columns import check_columns, columns_of
from scaleopt.fitting.groups import GroupedModel
from scaleopt.fitting.parameters import Coordinate, Parameters, Point
from scaleopt.fitting.prior import Prior
from scaleopt.fitting.provenance import Provenance, provenance
from scaleopt.fitting.rows import Observe
from scaleopt.fitting.scatter import KindNoise
from scaleopt.fitting.search import Problem
from scaleopt.fitting.seconds import log_time_and_slope
from scaleopt.fitting.uncertainty import BLIND, Covariance, Covariances
from scaleopt.units import format_si

Model = TypeVar("Model")


_OPTIONAL = {"op": "step", "operations": 1.0, "injected": 0.0}
"""What a row is taken to be that does not say."""
_ONE_DEVIATION = 0.6826894921370859
"""The share of a normal within one standard deviation of its mean."""


class Prediction(NamedTuple):
    """Seconds of a measurement to come, and the range that a share `level` of them falls in."""

    time: np.ndarray
    low: np.ndarray
    high: np.ndarray


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
    rows: pd.DataFrame
    """The rows that were fitted, with `predicted_s` beside `time_s`."""
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
        check_level(level)
        if table is not None:
            if columns:
                raise ValueError(f"predict takes a table or {', '.join(columns)}, not both")
            columns = self.columns_from(table)
        unknown_names = set(columns) - set(self.columns)
        lacking = set(self.columns) - set(columns) - set(_OPTIONAL)
        if unknown_names or lacking:
            raise ValueError(
                f"predict takes {', '.join(self.columns)}; unknown: {sorted(unknown_names)}, "
                f"lacking: {sorted(lacking)}"
            )
        check_columns(columns)
        if self.failure:
            unknown = np.broadcast(*map(np.asarray, columns.values())).shape
            zero = np.zeros(unknown)
            return Prediction(zero + np.nan, zero, zero + np.inf)
        kind = columns.get("op")
        if isinstance(self.observe, GroupedModel):
            columns = self.observe.coded(columns)
        columns = {name: each for name, each in _OPTIONAL.items() if name in self.columns} | columns
        log_predicted, jacobian = log_time_and_slope(
            self.observe, self.parameters, self.constrained, columns
        )
        log_predicted = np.atleast_1d(log_predicted)
        slope = jacobian.reshape(*log_predicted.shape, -1)
        variance = np.einsum("...i,ij,...j->...", slope, self.covariance.matrix, slope)
        blind = depends_on_blind(slope, self.covariance)
        deviation = np.sqrt(np.where(blind, np.inf, variance))
        spread = self._spread(kind, level, log_predicted.shape)
        reach = self.covariance.quantile(level) * deviation
        shape = jacobian.shape[:-1]
        with np.errstate(over="ignore"):
            time = np.exp(log_predicted)
            if self.problem is None or self.problem.loss.relative:
                reach = np.hypot(reach, spread)
                low, high = time * np.exp(-reach), time * np.exp(reach)
            else:
                reach = np.hypot(time * reach, spread)
                low, high = np.maximum(time - reach, 0.0), time + reach
        return Prediction(time.reshape(shape), low.reshape(shape), high.reshape(shape))

    def summary(self, level: float = 0.95) -> str:
        """The parameters with their intervals, and what could not be told, as plain text."""
        if self.failure:
            return f"the fit failed: {self.failure}"
        lines = [f"{'parameter':<20}{'value':>14}   {100 * level:g} % interval"]
        for name, value, bounds in self.described(level):
            lines.append(f"{name:<20}{value:>14}   {bounds}")
        for kind in self.noise:
            text = f"{kind.name}: {kind.rows} row{'' if kind.rows == 1 else 's'}"
            text += f", {kind.scattered}" if kind.scattered else ""
            if kind.round_shift > 0:
                text += f", rounds shift by {100 * kind.round_shift:.2g} %"
            if kind.run_shift > 0:
                text += f", runs by {100 * kind.run_shift:.2g} %"
            if kind.misfit > 0:
                text += f", the model misses cell means by {100 * kind.misfit:.2g} % more"
            if kind.outliers:
                text += f", {kind.outliers} outliers have no say"
            lines.append(text)
        return "\n".join([*lines, *self.unidentified, *self.notes])

    def described(self, level: float = 0.95) -> list[tuple[str, str, str]]:
        """Name, value and interval of each parameter, in words."""
        low, high = self.ranges(level)
        found = []
        for place, (name, unit) in enumerate(zip(self.names, self.parameters.units, strict=True)):
            if self.covariance.unseen[place]:
                found.append((name, "not told", "any"))
                continue
            bounds = f"{format_si(low[place], unit)} … {format_si(high[place], unit)}"
            found.append((name, format_si(self.estimate[place], unit), bounds))
        return found

    def _model(self, values: np.ndarray) -> Any:
        return plain(self.parameters.model(values))

    def _spread(self, kind: Any, level: float, shape: tuple[int, ...]) -> np.ndarray:
        """The scatter of each predicted row's kind; the widest where the kind is unknown."""
        spreads = {noise.name: noise.spread(level) for noise in self.noise}
        if kind is None:
            kind = "step" if "step" in spreads else next(iter(spreads))
        widest = max(spreads.values())
        return np.broadcast_to(np.vectorize(lambda name: spreads.get(name, widest))(kind), shape)


def plain(model: Any) -> Any:
    """The model with Python floats where it held arrays without axes."""
    return jax.tree.map(
        lambda leaf: float(leaf) if getattr(leaf, "ndim", None) == 0 else leaf, model
    )


def check_level(level: float) -> None:
    """Refuse a level that is no share."""
    if not 0 < level < 1:
        raise ValueError(f"level={level}; a level is a share between 0 and 1, such as 0.95")


def depends_on_blind(slope: np.ndarray, covariance: Covariance) -> np.ndarray:
    """Whether something with these slopes in u changes along a direction that no row sees.

    Args:
        slope: (..., parameters).
        covariance: of the fit.
    """
    blind = np.where(np.abs(covariance.blind) > BLIND, covariance.blind, 0.0)
    terms = slope[..., None, :] * blind / covariance.norm
    # A change that is only rounding, beside the terms that cancel in it, is no change.
    return np.any(np.abs(terms.sum(-1)) > 1e-4 * np.abs(terms).sum(-1), axis=-1)


def ranges_of(
    point: Point,
    covariance: Covariance | Covariances,
    estimate: np.ndarray,
    failed: np.ndarray,
    level: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The range of each parameter, of one table or of many; (..., parameters) each."""
    check_level(level)
    open_ = covariance.unseen | failed[..., None]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        reach = covariance.quantile(level) * covariance.deviation
        one, other = _values(point, -reach), _values(point, reach)
    low = np.where(open_, 0.0, np.minimum(one, other))
    high = np.where(open_, np.inf, np.maximum(one, other))
    return np.minimum(low, estimate), np.maximum(high, estimate)


def _values(point: Point, shift: np.ndarray) -> np.ndarray:
    """θ at a shift from the best u, held between 0 and the limit."""
    u, kind = np.asarray(point.u), np.asarray(point.coordinate)
    signed = np.isin(kind, (Coordinate.LINEAR, Coordinate.RECIPROCAL))
    # From an estimate below 0 the upper end is counted from 0, and from one above its limit the
    # lower end from the limit, so that no interval is empty.
    base = np.where(shift > 0, np.maximum(u, 0), np.minimum(u, point.highest))
    moved = np.where(signed, np.clip(base + shift, 0, point.highest), u + shift)
    return point._replace(u=moved).values()
