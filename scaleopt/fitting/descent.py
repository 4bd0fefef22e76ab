"""One table's way down: Levenberg–Marquardt steps with the slope and curvature of the loss itself.

The noise and the point are found in turns, ever more sharply: a stage ends where the slope is small
enough for it, the noise is then estimated anew, and the next stage begins. Everything is written so
that thousands of tables are lanes of one `vmap`, in which each step costs all of them the same.

Source: D. W. Marquardt, "An algorithm for least-squares estimation of nonlinear parameters", SIAM
J. 11, 1963, in the form whose damping is relative to each parameter's own curvature.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from scaleopt.fitting.loss import Charge, Loss, charge, noise_scale
from scaleopt.fitting.parameters import Parameters, Point
from scaleopt.fitting.rows import Observe, Rows

_CONVEX = (True, True, False, False, False)
"""Whether a round's loss is convex."""
_LEVELS = (1e-1, 1e-1, 1e-2, 1e-3, 1e-8)
"""How small the slope of the loss must be at its end, in units of each parameter's noise."""
_STEPS = 1000
_FIRST_DAMPING, _LEAST_DAMPING, _STUCK = 1e-3, 1e-12, 1e8
_NEARLY, _FARTHEST = 1e-4, 5.0
_SQUARES = Loss(robust=False)


class Place(NamedTuple):
    """A point, and what the rows say there; priors stand as rows behind the others."""

    u: Array
    predicted: Array
    jacobian: Array


class Search(NamedTuple):
    """The best place so far, under which noise and loss it is that, and where to look next."""

    best: Place
    charge: Charge
    """Of the best place, for each row."""
    scale: Array
    stage: Array
    tried: Array
    damping: Array
    steps: Array


class TableSearch(eqx.Module):
    """One table's search, step by step; the priors are rows behind the measured ones."""

    observe: Observe
    parameters: Parameters
    loss: Loss = eqx.field(static=True)
    rows: Rows
    point: Point
    measured: Array
    copies: Array

    @property
    def free(self) -> int:
        """How many parameters, and as many rows for their priors, there are."""
        return len(self.rows.prior[0])

    def begun(self) -> Search:
        """Nothing is known yet, so that whatever is found at the start is better."""
        start, nowhere = jnp.asarray(self.point.u), jnp.full_like(self.measured, jnp.nan)
        return Search(
            best=Place(start, nowhere, jnp.zeros((len(nowhere), self.free))),
            charge=Charge(jnp.full_like(nowhere, jnp.inf), nowhere, nowhere),
            scale=jnp.ones(len(self.rows.kind)),
            stage=jnp.asarray(0),
            tried=start,
            damping=jnp.asarray(_FIRST_DAMPING),
            steps=jnp.asarray(0),
        )

    def going(self, search: Search) -> Array:
        """Whether there is a stage left."""
        return (search.stage < len(_LEVELS)) & (search.steps < _STEPS)

    def step(self, search: Search) -> Search:
        """Look at the place to try, keep it if it is better, and aim at the next."""
        predicted, by_u = jax.linearize(self.look, search.tried)
        tried = Place(search.tried, predicted, jax.vmap(by_u, out_axes=1)(jnp.eye(self.free)))
        there = self.charged(predicted, search.scale, search.stage)
        better = jnp.sum(there.twice) < jnp.sum(search.charge.twice)
        best, here = _where(better, (tried, there), (search.best, search.charge))
        damping = jnp.where(better, search.damping / 10, search.damping * 4)
        sharp, length = self.sharp(best, search.scale)
        steepest = jnp.max(jnp.abs(here.influence @ sharp / length))
        rested = steepest < jnp.asarray(_LEVELS)[search.stage]
        # Where a step no longer helps though the slope is small, only rounding is left of it.
        rested |= ((steepest < _NEARLY) & ~better) | (damping > _STUCK)
        # The noise at the start begins the first stage, and does not end it.
        first = search.steps == 0
        stage = search.stage + (rested & ~first)
        turned, over = rested | first, stage == len(_LEVELS)
        scale = jnp.where(turned & ~over, self.scale_at(best), search.scale)
        here = _where(over, here, self.charged(best.predicted, scale, stage))
        damping = jnp.clip(damping, _LEAST_DAMPING, jnp.where(turned, _FIRST_DAMPING, jnp.inf))
        next_ = best.u + self.change(best, here, scale, damping)
        return Search(best, here, scale, stage, next_, damping, search.steps + 1)

    def ended(self, search: Search) -> dict[str, Array]:
        """The fields of a `Solution`."""
        best, free = search.best, self.free
        sharpness = self.sharpness(search.scale)
        sharp = best.jacobian * sharpness[:, None]
        return {
            "u": best.u,
            "predicted": best.predicted[:-free],
            "jacobian": best.jacobian[:-free],
            "prior_slope": jnp.diag(sharp[-free:]),
            "row_scale": 1 / sharpness[:-free],
            "scale": search.scale,
            "influence": search.charge.influence[:-free],
            "slope": search.charge.curvature[:-free],
            "gradient": search.charge.influence @ sharp / _length(sharp, self.copies),
            "steps": search.steps,
        }

    def look(self, u: Array) -> Array:
        """What the model says of each row, and of each parameter that a prior is about."""
        values = self.point._replace(u=u).values()
        seconds = self.observe(self.parameters.model(values), self.rows.columns)
        if self.loss.relative:
            # A step in a linear coordinate may reach a time below 0. NaN makes the search reject
            # that step; any finite residual would count as one more outlier and be forgotten.
            positive = seconds > 0
            seconds = jnp.where(positive, jnp.log(jnp.where(positive, seconds, 1.0)), jnp.nan)
        # A parameter without a prior may be below 0, where the log is not a number.
        known = jnp.log(jnp.where(self.rows.prior[1] > 0, values, 1.0))
        return jnp.concatenate([seconds, known])

    def sharpness(self, scale: Array) -> Array:
        """The inverse noise of each row."""
        of_rows = jnp.sqrt(self.rows.weight) / (scale @ self.rows.kind)
        return jnp.concatenate([of_rows, self.rows.prior[1]])

    def sharp(self, place: Place, scale: Array) -> tuple[Array, Array]:
        """How a unit of each u moves each row in units of its noise, and all of them together."""
        sharp = place.jacobian * self.sharpness(scale)[:, None] * ~self.point.frozen
        return sharp, _length(sharp, self.copies)

    def charged(self, predicted: Array, scale: Array, stage: Array) -> Charge:
        """What each row is charged; priors are charged squares."""
        miss = (self.measured - predicted) * self.sharpness(scale)
        of_rows = charge(self.loss, miss[: -self.free], jnp.asarray(_CONVEX)[stage])
        of_priors = charge(_SQUARES, miss[-self.free :], False)
        both = zip(of_rows, of_priors, strict=True)
        return Charge(*(jnp.concatenate(each) * self.copies for each in both))

    def scale_at(self, place: Place) -> Array:
        """The noise of each kind."""
        if self.rows.scale is not None:
            return self.rows.scale
        miss = (self.measured - place.predicted)[: -self.free] * jnp.sqrt(self.rows.weight)
        return noise_scale(self.loss, miss, self.rows.kind, self.copies[: -self.free], self.free)

    def change(self, place: Place, here: Charge, scale: Array, damping: Array) -> Array:
        """The damped Newton step from a place, not too far for a log."""
        sharp, length = self.sharp(place, scale)
        square = sharp.T @ (sharp * here.curvature[:, None]) / jnp.outer(length, length)
        damped = square + damping * jnp.eye(self.free)
        change = _solved(damped, here.influence @ sharp / length) / length
        return change * jnp.minimum(1.0, _FARTHEST / jnp.max(jnp.abs(change)))


def _length(sharp: Array, count: Array) -> Array:
    """(parameters,): how much a unit of each u moves the rows, in units of their noise.

    At least 1: the log of what is best absent moves the rows the less the lower it is, and steps in
    units of its own effect would never end.
    """
    return jnp.sqrt(jnp.maximum(count @ sharp**2, 1.0))


def _solved(matrix: Array, right: Array) -> Array:
    """The solution of a few equations by elimination; NaN where the matrix is singular.

    The matrix is symmetric, scaled and damped, so that no pivoting is needed, and this keeps a
    `vmap` of thousands within one loop, as LAPACK's solver does not.
    """

    def eliminate(place: int, joined: Array) -> Array:
        row = joined[place] / joined[place, place]
        return (joined - joined[:, place, None] * row).at[place].set(row)

    joined = jnp.concatenate([matrix, right[:, None]], axis=1)
    return jax.lax.fori_loop(0, len(right), eliminate, joined)[:, -1]


def _where(condition: Array, one: Any, other: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)
