"""The sum of squares that a fit's loss is about its best point, followed away from it.

Each row keeps the say that the robust loss gives it at the best point, w = ψ(e)/e: the sum of w e²
has its minimum where the loss has, and none elsewhere that a few wild rows make. Rows of one cell
are then one row with their weighted mean, which changes nothing and costs little. Priors are rows
behind the others.
"""

from dataclasses import dataclass

import numpy as np

from scaleopt.fitting.loss import Loss
from scaleopt.fitting.parameters import Point
from scaleopt.fitting.place import look
from scaleopt.fitting.search import Problem
from scaleopt.fitting.seconds import RowSeconds

_STEPS, _SETTLED = 20, 1e-4
_FIRST_DAMPING, _LEAST_DAMPING = 1e-3, 1e-12
_NUMBERS_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class Squares:
    """The sum of squares that a fit's loss is about its best point, a row for each cell."""

    seconds: RowSeconds
    """Of the cells."""
    loss: Loss
    prior: np.ndarray
    """Places of the parameters that a prior is about."""
    best: Point
    measured: np.ndarray
    """(cells + priors,): the mean of each."""
    root_precision: np.ndarray
    """(cells + priors,): the inverse deviation of each."""
    told: np.ndarray
    """(parameters, parameters): half of its curvature there."""

    @classmethod
    def of(cls, problem: Problem, best: Point) -> "Squares":
        """The squares of a problem about its best point."""
        held = best._replace(frozen=np.ones_like(best.u, bool))
        held = Point(*(np.asarray(each)[None] for each in held))
        there = problem.solved(held)
        row_scale, influence, predicted = (
            each[0] for each in (there.row_scale, there.influence, there.predicted)
        )
        measured = problem.tables.measured[0]
        miss = (measured - predicted) / row_scale
        say = np.where(miss == 0, 1.0, influence / np.where(miss == 0, 1.0, miss)) / row_scale**2
        cell = problem.nests.cell
        first = np.unique(cell, return_index=True)[1]
        precision = np.bincount(cell, say)
        heard = precision > 0
        mean = np.bincount(cell, say * measured) / np.where(heard, precision, 1.0)
        prior_log, prior_precision = problem.rows.prior
        prior = np.flatnonzero(prior_precision)
        slope = there.jacobian[0][first] * np.sqrt(precision)[:, None]
        return cls(
            problem.seconds.of(first),
            problem.loss,
            prior,
            best,
            # A cell of outliers alone has no say, and its mean no meaning.
            np.concatenate([np.where(heard, mean, predicted[first]), prior_log[prior]]),
            np.concatenate([np.sqrt(precision), prior_precision[prior]]),
            slope.T @ slope + np.diag(there.prior_slope[0] ** 2),
        )

    def excess(self, pair: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By how much the least sum grows when the pair steps away, and its square about 0."""
        rest = np.setdiff1d(np.arange(len(self.told)), pair)
        best = np.asarray(self.best.u)
        # To first order the rest follows the pair along the valley: a near start for its solve.
        across = np.linalg.pinv(self.told[np.ix_(rest, rest)]) @ self.told[np.ix_(rest, pair)]
        steps = np.concatenate([np.zeros((1, 2)), steps])
        u = np.empty((len(steps), len(best)))
        u[:, pair], u[:, rest] = best[pair] + steps, best[rest] - steps @ across.T
        # The far end of the valley may lie where a time is below 0; its rest then starts at home.
        lost = ~np.isfinite(self._residual(u)[0]).all(axis=-1)
        u[np.ix_(lost, rest)] = best[rest]
        at_once = max(1, _NUMBERS_AT_ONCE // (len(self.root_precision) * len(best)))
        sums = np.concatenate(
            [self._least(u[at : at + at_once], rest) for at in range(0, len(u), at_once)]
        )
        square = self.told[np.ix_(pair, pair)] - self.told[np.ix_(pair, rest)] @ across
        return np.maximum(sums[1:] - sums[0], 0.0), squared(steps[1:], square)

    def _least(self, u: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """(places,): the least sum of squares from each u, moving the rest alone.

        Levenberg–Marquardt of all places in step; infinite where no time was above 0.
        """
        residual, slope = self._residual(u)
        sums, damping = _sums(residual), np.full(len(u), _FIRST_DAMPING)
        for _ in range(_STEPS if len(rest) else 0):
            moving = np.where(np.isfinite(sums)[:, None, None], slope[..., rest], 0.0)
            length = np.sqrt(np.maximum(np.sum(moving**2, axis=1), 1e-30))
            unit = moving / length[:, None]
            square = unit.mT @ unit + damping[:, None, None] * np.eye(len(rest))
            pull = unit.mT @ np.nan_to_num(residual)[..., None]
            tried = u.copy()
            tried[:, rest] += np.linalg.solve(square, pull)[..., 0] / length
            new_residual, new_slope = self._residual(tried)
            new = _sums(new_residual)
            better = new < sums
            gain = np.subtract(sums, new, out=np.zeros_like(sums), where=better)
            u, sums = np.where(better[:, None], tried, u), np.where(better, new, sums)
            residual = np.where(better[:, None], new_residual, residual)
            slope = np.where(better[:, None, None], new_slope, slope)
            damping = np.maximum(np.where(better, damping / 10, 4 * damping), _LEAST_DAMPING)
            if not np.any(gain > _SETTLED):
                break
        return sums

    def _residual(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(places, cells + priors): what is missed at each u, in deviations, and its slope."""
        points = Point(u, *(np.broadcast_to(each, u.shape) for each in self.best[1:]))
        with np.errstate(all="ignore"):
            there = look(self.seconds, self.loss, self.prior, points)
        heard = self.root_precision > 0
        miss = self.root_precision * (self.measured - there.predicted)
        slope = there.slope * self.root_precision
        return np.where(heard, miss, 0.0), np.where(heard, slope, 0.0).mT


def _sums(residual: np.ndarray) -> np.ndarray:
    sums = np.sum(residual**2, axis=-1)
    return np.where(np.isfinite(sums), sums, np.inf)


def squared(steps: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """sᵀ P s of each step."""
    return np.einsum("...i,ij,...j->...", steps, precision, steps)
