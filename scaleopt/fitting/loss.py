"""How a row's miss counts: its noise, and what a loss makes of a miss in units of that noise.

A few rows are always wild, so the loss must not grow with them: Huber's, which is convex, leads
from a far start; Tukey's biweight, which forgets a residual beyond c = 4.685 scales and keeps 95 %
efficiency on clean data, finishes. The scale of the noise is then the median absolute residual.
Plain squares take every row at its word, and their scale is the root of the mean square.

Source: P. J. Huber and E. M. Ronchetti, "Robust Statistics", 2nd ed., 2009, chapters 6 and 7.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

HUBER = 1.345
TUKEY = 4.685
NORMAL_MAD = 0.6744897501960817
"""The median absolute deviation of a standard normal."""
_HALVINGS = 26
_POOLED_ROWS = 5.0
_SMALLEST_SCALE = 1e-9


@dataclass(frozen=True)
class Loss:
    """How misses count."""

    robust: bool = True
    """Tukey's loss, not squares."""
    relative: bool = True
    """Misses are of logs, not of the measured values themselves."""


class Charge(NamedTuple):
    """What each residual is charged, and how that changes with it."""

    twice: Array
    """2 ρ(e), which for squares is e²."""
    influence: Array
    """ψ(e) = ρ'(e)."""
    curvature: Array
    """What a Newton step takes for ψ'(e)."""


def charge(loss: Loss, residual: Array, convex: bool | Array) -> Charge:
    """The loss of each residual: Huber's where convex, and else the one that is asked for.

    Huber's: 2 ρ = e² up to k and 2 k |e| − k² beyond; ψ = e held between −k and k.
    Tukey's: 2 ρ = (c²/3) (1 − (1 − (e/c)²)³) and c²/3 beyond c; ψ = e (1 − (e/c)²)² and 0 beyond.
    """
    if not loss.robust:
        return Charge(residual**2, residual, jnp.ones_like(residual))
    size = jnp.abs(residual)
    # A far start leaves rows beyond k without curvature; ψ/e is above 0 everywhere.
    inside = jnp.minimum(size, HUBER)
    share = jnp.where(size > HUBER, HUBER / jnp.maximum(size, HUBER), 1.0)
    huber = Charge(inside * (2 * size - inside), residual * share, share)
    square = jnp.minimum((residual / TUKEY) ** 2, 1.0)
    left = 1 - square
    tukey = Charge(TUKEY**2 / 3 * (1 - left**3), residual * left**2, left * (1 - 5 * square))
    return jax.tree.map(lambda one, other: jnp.where(convex, one, other), huber, tukey)


def noise_scale(loss: Loss, residual: Array, kind: Array, count: Array, free: int) -> Array:
    """The noise of each kind, drawn a little to the pooled one.

    A kind with few rows can be fitted through, and its own scale would then give it all the
    weight; it is averaged with the scale of all rows as if that had been seen in five rows more.

    Args:
        loss: how misses count.
        residual: (rows,).
        kind: (kinds, rows), 1 where a row is of a kind.
        count: (rows,), how often each row is there.
        free: how many parameters took a degree of freedom from the squares.
    """
    size, among = jnp.abs(residual), jnp.concatenate([jnp.ones((1, len(residual))), kind]) * count
    if len(kind) == 1:
        among = among[:1]
    rows = among.sum(axis=1)
    if loss.robust:
        scale = jax.vmap(median, in_axes=(None, 0))(size, among) / NORMAL_MAD
    else:
        spare = rows[0] / jnp.maximum(rows[0] - free, 1.0)
        scale = jnp.sqrt(spare * (among @ size**2) / jnp.maximum(rows, 1.0))
    pooled, own, rows = scale[0], scale[-len(kind) :], rows[-len(kind) :]
    variance = (rows * own**2 + _POOLED_ROWS * pooled**2) / (rows + _POOLED_ROWS)
    return jnp.maximum(jnp.sqrt(variance), _SMALLEST_SCALE)


def median(values: Array, count: Array) -> Array:
    """The median of values from 0 up, each there so many times; 0 where there is none.

    Found by halving the range that it is in, which lanes of a `vmap` do much faster than sorting.
    """
    half = jnp.sum(count) / 2

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        enough = jnp.sum(jnp.where(values <= middle, count, 0.0)) >= half
        return jnp.where(enough, low, middle), jnp.where(enough, middle, high)

    top = jnp.max(jnp.where(count > 0, values, 0.0))
    low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (jnp.zeros(()), top))
    # With an even number of rows the two in the middle are averaged.
    exactly = jnp.sum(jnp.where(values <= high, count, 0.0)) <= half
    above = jnp.min(jnp.where((values > high) & (count > 0), values, jnp.inf))
    return jnp.where(exactly & jnp.isfinite(above), ((low + high) / 2 + above) / 2, high)
