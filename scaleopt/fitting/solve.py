"""Robust least squares of log residuals: a model and rows in, the best point out.

A row's residual is e = log measured − log predicted, in units of its kind's noise. A few rows are
always wild, so the loss must not grow with them: Huber's, which is convex, leads from a far start;
Tukey's biweight, which forgets a residual beyond c = 4.685 scales and keeps 95 % efficiency on
clean data, finishes. The scale of the noise is the median absolute residual, estimated for each
kind of row and anew after each solve.

A robust loss ρ(e) becomes plain least squares in e' = sign(e) √(2 ρ(e)), so that
Levenberg–Marquardt, which is made for squares, minimises it directly. What is known of a parameter
before is one more residual: (log θ − log prior) in units of the prior's own deviation.

Source: P. J. Huber and E. M. Ronchetti, "Robust Statistics", 2nd ed., 2009, chapters 6 and 7.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jax import Array

from scaleopt.fitting.parameters import Parameters, Point

HUBER = 1.345
TUKEY = 4.685
_HUBER_ROUNDS, _TUKEY_ROUNDS = 2, 4
_POOLED_ROWS = 5.0
_SMALLEST_SCALE = 1e-9
NORMAL_MAD = 0.6744897501960817
"""The median absolute deviation of a standard normal."""


class Rows(NamedTuple):
    """What was measured, in the form in which the solver wants it."""

    columns: dict[str, Array]
    log_time: Array
    kind: Array
    """(kinds, rows): 1 where a row is of a kind."""
    weight: Array
    """(rows,): a row of weight w scatters as the mean of w rows does."""
    prior_log: Array
    """(parameters,): log θ as known before."""
    prior_precision: Array
    """(parameters,): the inverse standard deviation of that log; 0 where nothing is known."""


Observe = Callable[[Any, dict[str, Array]], Array]
"""A model and columns in, the seconds that each row should have taken out."""


class Solution(NamedTuple):
    """Where the search ended, and what the rows say there."""

    u: Array
    log_predicted: Array
    jacobian: Array
    """(rows, parameters): ∂ log predicted / ∂u."""
    row_scale: Array
    """(rows,): the noise of each row, by its kind and weight."""
    prior_slope: Array
    """(parameters, parameters): of the standardised miss of each prior in each u."""
    scale: Array
    """(kinds,): the noise of each kind, as a standard deviation of the log."""
    influence: Array
    """(rows,): ψ of each standardised residual, what the row still has to say."""
    slope: Array
    """(rows,): ψ' of each standardised residual."""
    gradient: Array
    """(parameters,): of the loss, in units of each parameter's own noise; 0 at a minimum."""


@eqx.filter_jit
def solve(observe: Observe, parameters: Parameters, rows: Rows, point: Point) -> Solution:
    """Minimise the robust loss from a point, keeping its coordinates and frozen entries.

    Args:
        observe: what a model predicts for the rows.
        parameters: the free numbers.
        rows: the measurements.
        point: where to start.

    Returns:
        The solution; entries that are not finite mean that the search failed.
    """

    def held(u: Array) -> Array:
        return jnp.where(point.frozen, point.u, u)

    def log_predicted(u: Array) -> Array:
        values = point._replace(u=u).values()
        seconds = observe(parameters.model(values), rows.columns)
        # A step in a linear coordinate may reach a time below 0. NaN makes the solver reject that
        # step; any finite residual would count as one more outlier and be forgotten.
        return jnp.where(seconds > 0, jnp.log(jnp.where(seconds > 0, seconds, 1.0)), jnp.nan)

    root_weight = jnp.sqrt(rows.weight)

    def prior_miss(u: Array) -> Array:
        known = rows.prior_precision > 0
        # A parameter without a prior may be below 0, where the log is not a number.
        log_value = jnp.log(jnp.where(known, point._replace(u=u).values(), 1.0))
        return jnp.where(known, (log_value - rows.prior_log) * rows.prior_precision, 0.0)

    def robust_residual(u: Array, state: tuple[Array, Array]) -> Array:
        scale, convex = state
        residual = root_weight * (rows.log_time - log_predicted(held(u))) / (scale @ rows.kind)
        robust = jnp.where(convex, _huber_root(residual), _tukey_root(residual))
        return jnp.concatenate([robust, prior_miss(held(u))])

    def one_round(u: Array, convex: Array) -> tuple[Array, None]:
        scale = noise_scale(root_weight * (rows.log_time - log_predicted(held(u))), rows.kind)
        solver = optx.LevenbergMarquardt(rtol=1e-8, atol=1e-8)
        found = optx.least_squares(
            robust_residual, solver, u, args=(scale, convex), max_steps=100, throw=False
        )
        return found.value, None

    convex = jnp.arange(_HUBER_ROUNDS + _TUKEY_ROUNDS) < _HUBER_ROUNDS
    u, _ = jax.lax.scan(one_round, jnp.asarray(point.u), convex)
    u = held(u)
    predicted, jacobian = log_predicted(u), jax.jacfwd(log_predicted)(u)
    residual = rows.log_time - predicted
    scale = noise_scale(root_weight * residual, rows.kind)
    row_scale = scale @ rows.kind / root_weight
    influence = tukey_influence(residual / row_scale)
    weighted = jacobian / row_scale[:, None]
    prior_slope = jax.jacfwd(prior_miss)(u)
    norm = jnp.linalg.norm(jnp.concatenate([weighted, prior_slope]), axis=0)
    pull = influence @ weighted - prior_miss(u) @ prior_slope
    gradient = pull / jnp.where(norm > 0, norm, 1.0)
    slope = tukey_slope(residual / row_scale)
    return Solution(
        u, predicted, jacobian, row_scale, prior_slope, scale, influence, slope, gradient
    )


def noise_scale(residual: Array, kind: Array) -> Array:
    """The noise of each kind from the median absolute residual, drawn a little to the pooled one.

    A kind with few rows can be fitted through, and its own median would then give it all the
    weight; it is averaged with the scale of all rows as if that had been seen in five rows more.
    """
    size = jnp.abs(residual)
    pooled = jnp.median(size) / NORMAL_MAD
    own = jnp.nanmedian(jnp.where(kind > 0, size, jnp.nan), axis=1) / NORMAL_MAD
    count = kind.sum(axis=1)
    variance = (count * own**2 + _POOLED_ROWS * pooled**2) / (count + _POOLED_ROWS)
    return jnp.maximum(jnp.sqrt(variance), _SMALLEST_SCALE)


def tukey_influence(residual: Array) -> Array:
    """ψ(e) = e (1 − (e/c)²)², and 0 beyond c."""
    inside = 1 - jnp.minimum((residual / TUKEY) ** 2, 1.0)
    return residual * inside**2


def tukey_slope(residual: Array) -> Array:
    """ψ'(e) = (1 − (e/c)²) (1 − 5 (e/c)²), and 0 beyond c."""
    square = jnp.minimum((residual / TUKEY) ** 2, 1.0)
    return (1 - square) * (1 - 5 * square)


def _tukey_root(residual: Array) -> Array:
    """sign(e) √(2 ρ(e)) of Tukey's biweight."""
    inside = jnp.clip(residual, -TUKEY, TUKEY)
    square = (inside / TUKEY) ** 2
    return inside * jnp.sqrt(1 - square + square**2 / 3)


def _huber_root(residual: Array) -> Array:
    """sign(e) √(2 ρ(e)) of Huber's loss."""
    size = jnp.abs(residual)
    # The root's slope is infinite at 0; there the square branch is taken, and the root sees HUBER.
    linear = jnp.sqrt(2 * HUBER * jnp.maximum(size, HUBER) - HUBER**2)
    return jnp.where(size <= HUBER, residual, jnp.sign(residual) * linear)
