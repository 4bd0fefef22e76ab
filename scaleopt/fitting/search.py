"""The one road that every fit takes: solve, straighten what is loose, hold what is impossible.

A first search runs in log space. A parameter that the rows see only faintly is then solved again in
the coordinate in which time is linear, where it may turn negative: that point and its covariance
give honest intervals. The best model is the best of those whose parameters are all possible.

Everything here is about many tables of one design at once; a single fit is one table.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from scaleopt.fitting.loss import Loss
from scaleopt.fitting.parameters import Coordinate, Point
from scaleopt.fitting.rows import Rows, Solution, Tables
from scaleopt.fitting.scatter import Independence, Nests
from scaleopt.fitting.seconds import RowSeconds
from scaleopt.fitting.solve import NEAR, Descent
from scaleopt.fitting.uncertainty import Covariances, covariance

_LOOSE = 0.25
"""The relative deviation from which a parameter leaves log space for where time is linear."""
_SETTLED = 0.05


@dataclass(frozen=True)
class Problem:
    """What is fitted to what; the tables differ in what was measured alone."""

    seconds: RowSeconds
    loss: Loss
    rows: Rows
    tables: Tables
    kinds: dict[str, np.ndarray]
    """(rows,) for each kind: which are of it."""
    nests: Nests
    cluster: np.ndarray | None = None
    """(rows,): whole numbers from 0, the same for rows that hang together."""

    def solved(self, point: Point, stage: int = 0) -> Solution:
        """The solution of every table from its point, from a stage of the search on."""
        return Descent(self.seconds, self.loss, self.rows).solutions(self.tables, point, stage)

    def solved_again(
        self, found: Solution, point: Point, which: np.ndarray, stage: int = 0
    ) -> Solution:
        """The same solutions, those of some tables found anew from their points."""
        part = replace(self, tables=Tables(*(each[which] for each in self.tables)))
        new = part.solved(Point(*(np.asarray(each)[which] for each in point)), stage)
        merged = [each.copy() for each in found]
        for old, each in zip(merged, new, strict=True):
            old[which] = each
        return Solution(*merged)

    def spread(self, found: Solution) -> tuple[Covariances, dict[str, Independence]]:
        """How far each table's solution can be trusted."""
        return covariance(found, self.kinds, self.nests, self.cluster)


class Found(NamedTuple):
    """What a search found, for each table."""

    point: Point
    """The unconstrained best point, in which a parameter that may be 0 can be negative."""
    constrained: Point
    """The best of the possible points."""
    theta: np.ndarray
    """(tables, parameters): θ of the possible one."""
    best: Solution
    """The solution there."""
    spread: Covariances
    independence: dict[str, Independence]
    restless: np.ndarray
    """(tables,): the parameter that still moves where the search ended, or −1."""


def search(problem: Problem, point: Point) -> Found:
    """Find the best point of every table.

    Args:
        problem: what is fitted to what.
        point: where to start, (tables, parameters) each.
    """
    found = problem.solved(point)
    spread, independence = problem.spread(found)
    # A parameter with a prior stays in the log space in which the prior is told.
    without_prior = np.asarray(problem.rows.prior[1]) == 0
    while (loose := _loose(point, spread) & without_prior).any():
        point = _straighten(point._replace(u=found.u), found, loose)
        found = problem.solved_again(found, point, loose.any(axis=-1), NEAR)
        spread, independence = problem.spread(found)
    point = point._replace(u=found.u)
    best, constrained = _constrain(problem, point, found, spread)
    if best is not found:
        spread, independence = problem.spread(best)
    values = constrained.values()
    return Found(
        point,
        constrained,
        values,
        best,
        spread,
        independence,
        _restless(found, best, constrained),
    )


def _loose(point: Point, spread: Covariances) -> np.ndarray:
    """Parameters in logs or odds that the rows see, but only faintly."""
    deviation, coordinate = spread.deviation, np.asarray(point.coordinate)
    curved = (coordinate == Coordinate.LOG) | (coordinate == Coordinate.ODDS)
    return curved & np.isfinite(deviation) & (deviation > _LOOSE)


def _straighten(point: Point, found: Solution, loose: np.ndarray) -> Point:
    """The same points with loose parameters in the coordinate in which time is linear."""
    values, jacobian = point.values(), np.asarray(found.jacobian)
    costs = jacobian.mean(axis=-2) > 0
    # One unit of u then changes the rows about as one unit of a log does.
    length = np.linalg.norm(jacobian, axis=-2) / np.sqrt(jacobian.shape[-2])
    fraction = np.asarray(point.coordinate) == Coordinate.ODDS
    u = np.where(loose, np.where(fraction, values, length), np.asarray(point.u))
    linear = costs | fraction
    straight = np.where(linear, Coordinate.LINEAR, Coordinate.RECIPROCAL)
    return Point(
        u,
        np.where(loose, straight, point.coordinate),
        np.where(loose, np.where(linear, values / u, values * u), point.scale),
        np.asarray(point.frozen),
        np.where(loose & fraction, 1.0, point.highest),
    )


def _constrain(
    problem: Problem, point: Point, found: Solution, spread: Covariances
) -> tuple[Solution, Point]:
    """The best points among those that are possible: what came out below 0 is held at 0."""
    reciprocal = np.asarray(point.coordinate) == Coordinate.RECIPROCAL
    signed = reciprocal | (np.asarray(point.coordinate) == Coordinate.LINEAR)
    if not signed.any():
        return found, point
    # A rate without a limit is infinite, whose slope is not a number; it is held where it cannot
    # be told from one.
    floor = np.where(reciprocal, 1e-3 * spread.deviation, 0.0)
    ceiling = np.asarray(point.highest)
    for _ in range(point.u.shape[-1]):
        u = np.asarray(point.u)
        outside = signed & ((u < floor) | (u > ceiling))
        if not outside.any():
            break
        frozen = np.asarray(point.frozen) | outside
        point = point._replace(u=np.where(signed, np.clip(u, floor, ceiling), u), frozen=frozen)
        found = problem.solved_again(found, point, outside.any(axis=-1))
        point = point._replace(u=found.u)
    return found, point


def _restless(found: Solution, best: Solution, constrained: Point) -> np.ndarray:
    """Which parameter of each table has not come to rest; −1 where all have."""
    pull = np.abs(best.gradient) * ~np.asarray(constrained.frozen)
    moving = (pull.max(axis=-1) > _SETTLED) | ~np.isfinite(found.u).all(axis=-1)
    return np.where(moving, pull.argmax(axis=-1), -1)
