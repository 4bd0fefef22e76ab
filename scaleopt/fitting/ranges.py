"""The range of each parameter at a level of confidence, for one table or for many."""

import numpy as np

from scaleopt.fitting.parameters import Coordinate, Point
from scaleopt.fitting.uncertainty import Covariance, Covariances


def check_level(level: float) -> None:
    """Refuse a level that is no share."""
    if not 0 < level < 1:
        raise ValueError(f"level={level}; a level is a share between 0 and 1, such as 0.95")


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
