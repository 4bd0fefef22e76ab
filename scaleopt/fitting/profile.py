"""The interval of one parameter from the loss itself, where the log-quadratic picture fails.

The parameter is held at a ladder of values and the others are fitted anew: how much the loss then
rises says how far the parameter can go. The rise is measured in units in which it is quadratic with
the fit's own deviation near the best value, so that what widens the one (runs that hang together,
cells that the model misses) widens the other.

Source: D. M. Bates and D. G. Watts, "Nonlinear Regression Analysis and Its Applications", 1988,
section 6.1; the adjustment is that of A. Rotnitzky and N. P. Jewell, Biometrika 77, 1990.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from scaleopt.fitting.loss import charge
from scaleopt.fitting.many import problem_of
from scaleopt.fitting.parameters import Coordinate, Point
from scaleopt.fitting.propagate import Estimate
from scaleopt.fitting.ranges import check_level
from scaleopt.fitting.result import Fit
from scaleopt.fitting.rows import Solution, Tables
from scaleopt.fitting.search import Problem

_RUNGS = np.array([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 9.0, 14.0, 20.0])
"""Where the parameter is held, in deviations from its best value."""


def profile(fit: Fit[Any], name: str, level: float = 0.95) -> Estimate:
    """The range of a parameter within which no fit of the others makes the rows unlikely.

    Args:
        fit: where the parameter comes from.
        name: of the parameter.
        level: the share of such intervals that contain the truth.

    Returns:
        The value and its range; from 0, or to infinity, where the loss never rises enough.

    Raises:
        ValueError: a name that the fit does not have, a level that is no share, a fit that failed.

    >>> import pandas as pd
    >>> from jax.tree_util import Partial
    >>> from scaleopt.fitting.fit import fit
    >>> def amdahl(devices, *, serial, work):
    ...     return serial + work / devices
    >>> table = pd.DataFrame({"op": "step", "devices": [1, 2, 4, 8], "time_s": [9.1, 5, 2.9, 2]})
    >>> value, low, high, _ = profile(fit(Partial(amdahl, serial=2.0, work=5.0), table), "serial")
    >>> low < value < high
    True

    Source: the module's.
    """
    check_level(level)
    if fit.failure:
        raise ValueError(f"there is nothing to profile: the fit failed: {fit.failure}")
    if name not in fit.names:
        raise ValueError(f"name={name!r}: the fit has {', '.join(fit.names)}")
    place = fit.names.index(name)
    value, deviation = float(fit.estimate[place]), float(fit.covariance.deviation[place])
    if not np.isfinite(deviation):
        return Estimate(value, 0.0, np.inf, level)
    u, rise = _ladder(fit, place, deviation)
    # At the edge of what is possible the loss also rises in proportion; that part cancels here.
    bends = np.array([(side[2] - 2 * side[1]) / 0.125 for side in rise])
    unit = float(np.mean(bends[np.isfinite(bends)]))
    reach = float(fit.covariance.quantile(level))
    ends = [_crossing(u[side], np.sqrt(rise[side] / unit), reach) for side in (0, 1)]
    point = fit.constrained
    moved = [np.array(point.u) for _ in ends]
    for each, end in zip(moved, ends, strict=True):
        each[place] = np.clip(end, -700, 700)
    found = [float(point._replace(u=each).values()[place]) for each in moved]
    coordinate = np.asarray(point.coordinate)[place]
    open_low, open_high = (not np.isfinite(end) for end in ends)
    if coordinate == Coordinate.RECIPROCAL:
        found, open_low, open_high = found[::-1], open_high, open_low
    most = 1.0 if coordinate == Coordinate.ODDS else np.inf
    low, high = 0.0 if open_low else found[0], most if open_high else found[1]
    return Estimate(value, min(low, value), max(high, value), level)


def _ladder(
    fit: Fit[Any], place: int, deviation: float
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The u and the rise of the loss at each rung, below and above the best value."""
    best, whole = fit.constrained, problem_of(fit)
    rungs = np.concatenate([-_RUNGS, _RUNGS]) * deviation + np.asarray(best.u)[place]
    signed = np.asarray(best.coordinate)[place] in (Coordinate.LINEAR, Coordinate.RECIPROCAL)
    inside = (rungs > 0) & (rungs <= np.asarray(best.highest)[place])
    possible = inside | (not signed) | (rungs == np.asarray(best.u)[place])
    rungs = np.where(possible, rungs, np.asarray(best.u)[place])
    count = len(rungs)
    points = Point(*(np.repeat(np.asarray(each)[None], count, axis=0) for each in best))
    points.u[:, place] = rungs
    points.frozen[:, place] = True
    tables = Tables(*(np.repeat(each, count, axis=0) for each in whole.tables))
    scale = whole.solved(Point(*(each[:1] for each in points))).scale[0]
    problem = replace(whole, rows=whole.rows._replace(scale=scale), tables=tables)
    lost = _loss(problem, best, problem.solved(points))
    at_best = lost[0]
    rise = np.where(possible, np.maximum(lost - at_best, 0.0), np.nan)
    half = len(_RUNGS)
    return (rungs[:half], rungs[half:]), (rise[:half], rise[half:])


def _loss(problem: Problem, best: Point, found: Solution) -> np.ndarray:
    """Twice the loss of each lane, priors among it."""
    miss = (problem.tables.measured - found.predicted) / found.row_scale
    rows = charge(problem.loss, miss).twice
    prior_log, precision = problem.rows.prior
    values = best._replace(u=found.u).values()
    known = np.where(precision > 0, np.log(np.where(precision > 0, values, 1.0)) - prior_log, 0.0)
    return np.sum(problem.tables.copies * rows, axis=-1) + np.sum((known * precision) ** 2, axis=-1)


def _crossing(u: np.ndarray, root: np.ndarray, reach: float) -> float:
    """Where the root of the rise passes the reach; infinite where it does not."""
    good = np.isfinite(root)
    u, root = u[good], np.maximum.accumulate(root[good])
    if root[-1] < reach:
        return np.inf
    return float(np.interp(reach, root, u))
