"""How a row's miss counts: its noise, and what a loss makes of a miss in units of that noise.

A few rows are always wild, so the loss must not grow with them: Huber's, which is convex, leads
from a far start; Tukey's biweight, which forgets a residual beyond c = 4.685 scales and keeps 95 %
efficiency on clean data, finishes. The scale of the noise is then the median absolute residual.
Plain squares take every row at its word, and their scale is the root of the mean square. A loss of
the user's own takes Tukey's place; JAX gives its slope and its curvature.

Source: P. J. Huber and E. M. Ronchetti, "Robust Statistics", 2nd ed., 2009, chapters 6 and 7.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.fitting.lengths import program_length

HUBER = 1.345
TUKEY = 4.685
NORMAL_MAD = 0.6744897501960817
"""The median absolute deviation of a standard normal."""
POOLED_ROWS = 5.0
"""In how many rows of a kind the noise of all kinds counts as seen."""
_SMALLEST_SCALE = 1e-9

Rho = Callable[[Array], Array]
"""ρ(e) of one residual in units of the noise: twice differentiable, least at 0."""


@dataclass(frozen=True)
class Loss:
    """How misses count."""

    robust: bool = True
    """Tukey's loss, not squares."""
    relative: bool = True
    """Misses are of logs, not of the measured values themselves."""
    own: Rho | None = None
    """The user's, in place of Tukey's."""


class Charge(NamedTuple):
    """What each residual is charged, and how that changes with it."""

    twice: np.ndarray
    """2 ρ(e), which for squares is e²."""
    influence: np.ndarray
    """ψ(e) = ρ'(e)."""
    curvature: np.ndarray
    """What a Newton step takes for ψ'(e)."""


def charge(loss: Loss, residual: np.ndarray, convex: np.ndarray | bool = False) -> Charge:
    """The loss of each residual: Huber's where convex, and else the one that is asked for.

    Huber's: 2 ρ = e² up to k and 2 k |e| − k² beyond; ψ = e held between −k and k.
    Tukey's: 2 ρ = (c²/3) (1 − (1 − (e/c)²)³) and c²/3 beyond c; ψ = e (1 − (e/c)²)² and 0 beyond.
    """
    if not loss.robust:
        return Charge(residual**2, residual, np.ones_like(residual))
    every = np.count_nonzero(convex)
    if every and every == np.size(convex):
        return huber(residual)
    final = _tukey(residual) if loss.own is None else _own(loss.own, residual)
    if not every:
        return final
    both = zip(huber(residual), final, strict=True)
    return Charge(*(np.where(convex, one, other) for one, other in both))


def huber(residual: np.ndarray) -> Charge:
    """Huber's: as `charge` has it where convex; its curvature is ψ/e.

    Args:
        residual: e, in units of the noise.
    """
    size = np.abs(residual)
    inside = np.minimum(size, HUBER)
    # A far start leaves rows beyond k without curvature; ψ/e is above 0 everywhere.
    share = HUBER / np.maximum(size, HUBER)
    return Charge(inside * (2 * size - inside), residual * share, share)


def _tukey(residual: np.ndarray) -> Charge:
    left = 1 - np.minimum((residual / TUKEY) ** 2, 1.0)
    both = left**2  # a power of 3 takes twenty times as long as two products
    return Charge(TUKEY**2 / 3 * (1 - both * left), residual * both, left * (5 * left - 4))


def _own(rho: Rho, residual: np.ndarray) -> Charge:
    count = residual.size
    padded = np.resize(residual, program_length(count))
    with jax.enable_x64(True):
        found = [np.array(each)[:count].reshape(residual.shape) for each in _program(rho)(padded)]
    return Charge(2 * found[0], *found[1:])


@lru_cache(64)
def _program(rho: Rho) -> Callable[[np.ndarray], tuple[Array, Array, Array]]:
    """ρ, ρ' and ρ'' of many residuals."""
    each = (rho, jax.grad(rho), jax.grad(jax.grad(rho)))
    return jax.jit(lambda residual: tuple(jax.vmap(it)(residual) for it in each))


def check_loss(rho: Rho) -> None:
    """Refuse a loss that a search cannot go down.

    Raises:
        ValueError: one that is not a finite number for each residual, not least at 0, or without
            curvature there.
        TypeError: one that JAX cannot trace.
    """
    places = np.array([-30.0, -3.0, -1.0, 0.0, 1.0, 3.0, 30.0])
    with jax.enable_x64(True):
        value = jax.eval_shape(rho, jax.ShapeDtypeStruct((), jnp.float64))
    if getattr(value, "shape", None) != ():
        raise ValueError("loss: it must give one number for one residual, and it gives several")
    charged = _own(rho, places)
    for name, numbers in zip(("value", "slope", "curvature"), charged, strict=True):
        if not np.isfinite(numbers).all():
            wrong = places[~np.isfinite(numbers)][0]
            raise ValueError(
                f"loss: its {name} at a residual of {wrong:g} is not finite; write it so that JAX "
                "can differentiate it twice everywhere (jnp.where around what is not)"
            )
    if charged.twice.argmin() != 3 or not charged.curvature[3] > 0:
        raise ValueError(
            "loss: it must be least at a residual of 0 and curved there, as jnp.log1p(e**2) is"
        )


def noise_scale(
    loss: Loss, residual: np.ndarray, kind: np.ndarray, count: np.ndarray, free: int
) -> np.ndarray:
    """The noise of each kind in each table, drawn a little to the pooled one.

    A kind with few rows can be fitted through, and its own scale would then give it all the
    weight; it is averaged with the scale of all rows as if that had been seen in five rows more.

    Args:
        loss: how misses count.
        residual: (tables, rows).
        kind: (kinds, rows), 1 where a row is of a kind.
        count: (tables, rows), how often each row is there.
        free: how many parameters took a degree of freedom from the squares.
    """
    size, among = np.abs(residual), count[:, None]
    if len(kind) > 1:
        among = among * np.concatenate([np.ones_like(kind[:1]), kind])
    rows = among.sum(axis=-1)
    if loss.robust:
        scale = medians(size, among) / NORMAL_MAD
    else:
        spare = rows[:, :1] / np.maximum(rows[:, :1] - free, 1.0)
        scale = np.sqrt(spare * (among @ size[..., None] ** 2)[..., 0] / np.maximum(rows, 1.0))
    pooled, own, rows = scale[:, :1], scale[:, -len(kind) :], rows[:, -len(kind) :]
    variance = (rows * own**2 + POOLED_ROWS * pooled**2) / (rows + POOLED_ROWS)
    return np.maximum(np.sqrt(variance), _SMALLEST_SCALE)


def medians(values: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The median of the values of each table within each of several groups of its rows.

    Args:
        values: (tables, rows).
        count: (tables, groups, rows), how often each value is in the group.

    Returns:
        (tables, groups); with an even number of rows the two in the middle are averaged.
    """
    if (count == 1).all():
        ordered, rows = np.sort(values, axis=-1), values.shape[-1]
        middle = (ordered[:, (rows - 1) // 2] + ordered[:, rows // 2]) / 2
        return np.repeat(middle[:, None], count.shape[1], axis=1)
    order, table = np.argsort(values, axis=-1), np.arange(len(values))[:, None]
    ordered = values[table, order]
    group = np.arange(count.shape[1])[:, None]
    reached = np.cumsum(count[table[..., None], group, order[:, None]], axis=-1)
    half = reached[..., -1:] / 2
    first, second = (
        ordered[table, np.argmax(enough, axis=-1)] for enough in (reached >= half, reached > half)
    )
    return (first + second) / 2
