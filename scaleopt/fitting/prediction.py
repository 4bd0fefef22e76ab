"""What a fit foresees: the seconds of rows still to be measured, and the range they fall in.

The uncertainty of the parameters is joined with the scatter of the rows fitted. Where a row hangs
on a direction that the rows fitted do not see, nothing is known of its time.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from scaleopt.fitting.columns import check_columns
from scaleopt.fitting.groups import GroupedModel
from scaleopt.fitting.ranges import check_level
from scaleopt.fitting.seconds import log_time_and_slope
from scaleopt.fitting.uncertainty import BLIND, Covariance

if TYPE_CHECKING:
    from scaleopt.fitting.result import Fit

_OPTIONAL = {"op": "step", "operations": 1.0, "injected": 0.0}
"""What a row is taken to be that does not say."""


class Prediction(NamedTuple):
    """Seconds of a measurement to come, and the range that a share `level` of them falls in."""

    time: np.ndarray
    low: np.ndarray
    high: np.ndarray


def predict_rows(
    fit: "Fit[Any]", table: pd.DataFrame | None, level: float, columns: dict[str, Any]
) -> Prediction:
    """Seconds of rows still to be measured, as `Fit.predict` tells."""
    check_level(level)
    if table is not None:
        if columns:
            raise ValueError(f"predict takes a table or {', '.join(columns)}, not both")
        columns = fit.columns_from(table)
    unknown_names = set(columns) - set(fit.columns)
    lacking = set(fit.columns) - set(columns) - set(_OPTIONAL)
    if unknown_names or lacking:
        raise ValueError(
            f"predict takes {', '.join(fit.columns)}; unknown: {sorted(unknown_names)}, "
            f"lacking: {sorted(lacking)}"
        )
    check_columns(columns)
    if fit.failure:
        unknown = np.broadcast(*map(np.asarray, columns.values())).shape
        zero = np.zeros(unknown)
        return Prediction(zero + np.nan, zero, zero + np.inf)
    kind = columns.get("op")
    if isinstance(fit.observe, GroupedModel):
        columns = fit.observe.coded(columns)
    columns = {name: each for name, each in _OPTIONAL.items() if name in fit.columns} | columns
    log_predicted, jacobian = log_time_and_slope(
        fit.observe, fit.parameters, fit.constrained, columns
    )
    log_predicted = np.atleast_1d(log_predicted)
    slope = jacobian.reshape(*log_predicted.shape, -1)
    variance = np.einsum("...i,ij,...j->...", slope, fit.covariance.matrix, slope)
    blind = depends_on_blind(slope, fit.covariance)
    deviation = np.sqrt(np.where(blind, np.inf, variance))
    spread = _spread(fit, kind, level, log_predicted.shape)
    reach = fit.covariance.quantile(level) * deviation
    shape = jacobian.shape[:-1]
    with np.errstate(over="ignore"):
        time = np.exp(log_predicted)
        if fit.problem is None or fit.problem.loss.relative:
            reach = np.hypot(reach, spread)
            low, high = time * np.exp(-reach), time * np.exp(reach)
        else:
            reach = np.hypot(time * reach, spread)
            low, high = np.maximum(time - reach, 0.0), time + reach
    return Prediction(time.reshape(shape), low.reshape(shape), high.reshape(shape))


def _spread(fit: "Fit[Any]", kind: Any, level: float, shape: tuple[int, ...]) -> np.ndarray:
    """The scatter of each predicted row's kind; the widest where the kind is unknown."""
    spreads = {noise.name: noise.spread(level) for noise in fit.noise}
    if kind is None:
        kind = "step" if "step" in spreads else next(iter(spreads))
    widest = max(spreads.values())
    return np.broadcast_to(np.vectorize(lambda name: spreads.get(name, widest))(kind), shape)


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
