"""Robust least squares: the best point of one table, or of thousands, by a way down of its own.

A row's residual is e = log measured − log predicted (or measured − predicted), in units of its
kind's noise; what it is charged is told in `scaleopt.fitting.loss`. What is known of a parameter
before is one more row, of log θ, whose noise is known and which squares charge.

The way down is of Levenberg–Marquardt steps with the slope and curvature of the loss itself. The
noise and the point are found in turns, ever more sharply: a stage ends where the slope is small
enough for it, the noise is then estimated anew, and the next stage begins. All tables take their
steps together, each where it stands; one that has come to rest leaves the others to go on.

Source: P. J. Huber and E. M. Ronchetti, "Robust Statistics", 2nd ed., 2009, chapters 6 and 7; D. W.
Marquardt, "An algorithm for least-squares estimation of nonlinear parameters", SIAM J. 11, 1963, in
the form whose damping is relative to each parameter's own curvature.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np

from scaleopt.fitting.loss import Charge, Loss, charge, noise_scale
from scaleopt.fitting.parameters import Point
from scaleopt.fitting.place import Place, look
from scaleopt.fitting.rows import Rows, Solution, Tables
from scaleopt.fitting.seconds import RowSeconds

_CONVEX = np.array([True, True, False, False, False, False])
"""Whether a stage's loss is convex; the last entry is of searches that have ended."""
_NEARLY = 1e-4
_LEVELS = np.array([1e-1, 1e-1, 1e-2, 1e-3, 1e-8, 0.0])
"""How small the slope of the loss must be at its end, in units of each parameter's noise."""
_RESTED = np.stack([np.maximum(_LEVELS, _NEARLY), _LEVELS])
"""The same after a step that no longer helped, when only rounding may be left, and after others."""
_STAGES = 5
NEAR = 2
"""The stage that begins at a point which the final loss has led to."""
_STEPS = 1000
_FIRST_DAMPING, _LEAST_DAMPING, _STUCK = 1e-3, 1e-12, 1e8
_FARTHEST = 5.0
_SQUARES = Loss(robust=False)


@dataclass
class Search:
    """Each table's best place so far, under which noise and loss, and where to look next."""

    table: np.ndarray
    """Its number."""
    measured: np.ndarray
    copies: np.ndarray
    point: Point
    """How u is meant; where it is says `best`."""
    best: Place
    stage: np.ndarray
    damping: np.ndarray
    scale: np.ndarray
    """(tables, kinds): the noise."""
    sharpness: np.ndarray
    """The inverse noise of each row."""
    charge: Charge
    """Of the best place, for each row."""
    twice: np.ndarray
    """All that its rows are charged."""
    tried: np.ndarray
    """The u to look at next."""
    once: bool
    """Whether each row of each table is there once."""
    steps: int = 1

    def of(self, which: np.ndarray) -> "Search":
        """The searches of some tables."""
        if which.all():
            return self
        common = {"once", "steps"}
        arrays = {name: each for name, each in vars(self).items() if name not in common}
        here = jax.tree.map(lambda each: each[which], arrays)
        return Search(**here, once=self.once, steps=self.steps)


class Aim(NamedTuple):
    """Which way is down from a place, each u in units of what moves the rows by their noise."""

    unit: np.ndarray
    """(tables, parameters): how much u that is; 0 of what stays."""
    slope: np.ndarray
    """(tables, parameters, rows): of the rows in units of their noise."""
    gradient: np.ndarray
    """(tables, parameters): how the loss falls."""

    @classmethod
    def of(cls, now: Search) -> "Aim":
        """From where searches are."""
        slope = now.best.slope * now.sharpness[:, None]
        seen = (slope**2 @ now.copies[..., None])[..., 0]
        # Not longer than a u itself: the log of what is best absent moves the rows the less the
        # lower it is, and steps in units of its own effect would never end.
        unit = ~now.point.frozen / np.sqrt(np.maximum(seen, 1.0))
        slope = slope * unit[..., None]
        return cls(unit, slope, (slope @ now.charge.influence[..., None])[..., 0])

    def change(self, curvature: np.ndarray, damping: np.ndarray) -> np.ndarray:
        """The damped Newton step, not too far for a log."""
        square = (self.slope * curvature[:, None]) @ self.slope.mT
        np.einsum("tpp->tp", square)[...] += damping[:, None]
        change = self.unit * np.linalg.solve(square, self.gradient[..., None])[..., 0]
        farthest = np.abs(change).max(axis=-1, keepdims=True)
        return change * (_FARTHEST / np.maximum(farthest, _FARTHEST))


@dataclass(frozen=True)
class Descent:
    """How rows lead tables down; what is known before of a parameter is one more row."""

    seconds: RowSeconds
    loss: Loss
    rows: Rows

    def solutions(self, tables: Tables, point: Point, stage: int = 0) -> Solution:
        """Where the search of each table ends that starts from its point, in this stage."""
        # A place without a time is not a number, and no better than any other.
        with np.errstate(all="ignore"):
            search, ended, some = self._begun(tables, point, stage), [], True
            while some:
                self._step(search)
                going = search.stage < (_STAGES if search.steps < _STEPS else 0)
                if not going.all():
                    ended.append((search.table[~going], self._ended(search.of(~going))))
                    some = going.any()
                    search = search.of(going) if some else search
        if len(ended) == 1:
            return ended[0][1]
        order = np.argsort(np.concatenate([table for table, _ in ended]))
        parts = zip(*(found for _, found in ended), strict=True)
        return Solution(*(np.concatenate(each)[order] for each in parts))

    @cached_property
    def _known(self) -> np.ndarray:
        """Which parameters a prior is about."""
        return np.flatnonzero(self.rows.prior[1])

    def _begun(self, tables: Tables, point: Point, stage: int) -> Search:
        """A look at the start, whose noise begins the first stage."""
        point = Point(*map(np.asarray, point))
        count = len(point.u)
        known = np.broadcast_to(self.rows.prior[0][self._known], (count, len(self._known)))
        measured = np.concatenate([tables.measured, known], axis=-1)
        nothing = np.zeros(count)
        now = Search(
            table=np.arange(count),
            measured=measured,
            copies=np.concatenate([tables.copies, np.ones_like(known)], axis=-1),
            point=point,
            best=look(self.seconds, self.loss, self._known, point),
            stage=np.full(count, stage),
            damping=np.full(count, _FIRST_DAMPING),
            scale=np.zeros((count, len(self.rows.kind))),
            sharpness=measured,
            charge=Charge(measured, measured, measured),
            twice=nothing,
            tried=point.u,
            once=bool((tables.copies == 1).all()),
        )
        self._turn(now, np.ones(count, bool))
        self._aim(now, Aim.of(now))
        return now

    def _step(self, now: Search) -> None:
        """Look at the place to try, keep it if it is better, and aim at the next."""
        tried = look(self.seconds, self.loss, self._known, now.point._replace(u=now.tried))
        there, twice = self._charged(now, tried)
        better = twice < now.twice
        now.best, now.charge, now.twice = _where(
            better, (tried, there, twice), (now.best, now.charge, now.twice)
        )
        now.damping = now.damping * np.where(better, 0.1, 10.0)
        now.steps += 1
        aim = Aim.of(now)
        rested = np.abs(aim.gradient).max(axis=-1) < _RESTED[1 * better, now.stage]
        rested |= now.damping > _STUCK
        if rested.any():
            now.stage = now.stage + rested
            turned = rested & (now.stage < _STAGES)
            if turned.any():
                self._turn(now, turned)
                aim = Aim.of(now)
        self._aim(now, aim)

    def _turn(self, now: Search, turned: np.ndarray) -> None:
        """Estimate the noise of the stage that begins for some tables, and charge their rows so."""
        now.scale = np.where(turned[:, None], self._noise(now), now.scale)
        now.sharpness = self._sharpness(now.scale)
        now.charge, now.twice = _where(
            turned, self._charged(now, now.best), (now.charge, now.twice)
        )
        now.damping = np.where(turned, np.minimum(now.damping, _FIRST_DAMPING), now.damping)

    def _aim(self, now: Search, aim: Aim) -> None:
        """Choose the next place to try."""
        now.damping = np.maximum(now.damping, _LEAST_DAMPING)
        now.tried = now.best.u + aim.change(now.charge.curvature, now.damping)

    def _ended(self, found: Search) -> Solution:
        """What is kept of searches that are over."""
        best, rows = found.best, self.rows.weight.size
        prior_slope, known = np.zeros_like(best.u), np.arange(len(self._known))
        prior_slope[:, self._known] = (
            best.slope[:, self._known, rows + known] * found.sharpness[:, rows + known]
        )
        return Solution(
            u=best.u,
            predicted=best.predicted[:, :rows],
            jacobian=best.slope[..., :rows].mT,
            prior_slope=prior_slope,
            row_scale=1 / found.sharpness[:, :rows],
            scale=found.scale,
            influence=found.charge.influence[:, :rows],
            slope=found.charge.curvature[:, :rows],
            gradient=Aim.of(found).gradient,
        )

    def _sharpness(self, scale: np.ndarray) -> np.ndarray:
        """The inverse noise of each row."""
        of_rows = np.sqrt(self.rows.weight) / (scale @ self.rows.kind)
        if not len(self._known):
            return of_rows
        of_priors = np.broadcast_to(self.rows.prior[1][self._known], (len(scale), len(self._known)))
        return np.concatenate([of_rows, of_priors], axis=-1)

    def _charged(self, now: Search, place: Place) -> tuple[Charge, np.ndarray]:
        """What each row is charged at a place, and all of them; priors are charged squares."""
        miss = (now.measured - place.predicted) * now.sharpness
        charged, rows = charge(self.loss, miss, _CONVEX[now.stage, None]), self.rows.weight.size
        if len(self._known):
            for each, square in zip(charged, charge(_SQUARES, miss[:, rows:]), strict=True):
                each[:, rows:] = square
        if not now.once:
            charged = Charge(*(each * now.copies for each in charged))
        return charged, charged.twice.sum(axis=-1)

    def _noise(self, now: Search) -> np.ndarray:
        """The noise of each kind."""
        if self.rows.scale is not None:
            return self.rows.scale
        rows = self.rows.weight.size
        miss = (now.measured - now.best.predicted)[:, :rows] * np.sqrt(self.rows.weight)
        free = now.tried.shape[-1]
        return noise_scale(self.loss, miss, self.rows.kind, now.copies[:, :rows], free)


def _where(condition: np.ndarray, one: Any, other: Any) -> Any:
    """One or the other of each table; one table's is not copied."""
    ones = np.count_nonzero(condition)
    if ones in (0, len(condition)):
        return one if ones else other

    def chosen(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where(condition.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(chosen, one, other)
