"""Many fits of a link's envelope at once: every group of rows, fold, number of pieces and start.

Each lane of one compiled `vmap` is a fit of its own: rows that a lane leaves out weigh 0, protocols
that it does without are so slow that they never win. What the rows do not tell stays at its prior,
which enters as pseudo-residuals beside those of the rows; the loss is Huber's.

Source: A. Gelman et al., "Bayesian Data Analysis", 3rd ed., 2013, section 14.8, for a normal prior
as additional rows of least squares; the loss is that of `scaleopt.fitting.solve`.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.fitting.solve import HUBER
from scaleopt.models.envelope import LinkEnvelope

PIECES = 3
"""The most protocols that are tried."""
_STARTS = 4
_STEPS = 40
_NOISE = 0.05
"""Misses below this share of the time are the library's habits, not the prior's business."""
_ABSENT = 60.0
"""How much slower, as a log, a protocol is that a lane does without."""
_SEED = 0
_ALPHA_EXPONENT, _BETA_EXPONENT = 0.7, 0.0
_EXPONENT_PULL = 0.15
_LOOSE_PULL = 4.0


class Lanes(NamedTuple):
    """The rows of one group, padded, and how each lane weighs them."""

    devices: Array | np.ndarray
    nodes: Array | np.ndarray
    size: Array | np.ndarray
    passes: Array | np.ndarray
    log_time: Array | np.ndarray
    weight: Array | np.ndarray
    """0 where a row is left out, or is padding."""


def link_of(u: Array, pieces: int = PIECES) -> LinkEnvelope:
    """The link of a vector: launch, sharpness, then a row of α, β, a, b, as logs.

    A row for each protocol within a node, and, where there are several nodes, one across them.
    """
    launch, sharpness = jnp.exp(u[0]), jnp.exp(u[1])
    levels = len(rest := u[2:].reshape(-1, 4)) // pieces
    each = jnp.exp(rest.reshape(pieces, levels, 4))
    across = tuple(each[:, 1].T) if levels > 1 else ()
    return LinkEnvelope(launch, *each[:, 0].T, *across, sharpness=sharpness)


def log_time(u: Array, rows: Lanes) -> Array:
    """Log seconds of each row."""
    link = link_of(u)
    return jnp.log(link(rows.devices, rows.size, rows.passes, rows.nodes))


def starts(rows: Lanes, pieces: int) -> tuple[np.ndarray, np.ndarray]:
    """(starts, parameters): where the lanes of a number of pieces begin, and each prior's width."""
    generator = np.random.default_rng(_SEED)
    used = np.asarray(rows.weight) > 0
    time, size = np.exp(np.asarray(rows.log_time)[used]), np.asarray(rows.size)[used]
    least = np.log(time.min())
    per_byte = np.log((time / np.maximum(size, 1.0) / np.asarray(rows.passes)[used]).min())
    levels = 1 + int(np.asarray(rows.nodes).max() > 1)
    growth = np.log(2) * np.array([_ALPHA_EXPONENT, _BETA_EXPONENT])
    begun = []
    for _ in range(_STARTS):
        rises = np.sort(generator.uniform(0, 4, pieces))
        falls = np.sort(generator.uniform(0, 4, pieces))[::-1]
        rises[0], falls[-1] = 0.0, 0.0
        absent = np.full(PIECES - pieces, _ABSENT)
        protocol = np.empty((PIECES, levels, 4))
        protocol[..., 0] = least - 1.5 + np.concatenate([rises, absent])[:, None]
        protocol[..., 1] = per_byte + np.concatenate([falls, absent])[:, None]
        protocol[..., 2:] = growth
        begun.append(np.concatenate([[least - 0.7, np.log(6.0)], protocol.ravel()]))
    width = np.full((PIECES, levels, 4), _LOOSE_PULL)
    width[..., 2:] = np.log(2) * _EXPONENT_PULL
    width[pieces:] = 1e-3
    width = np.concatenate([[_LOOSE_PULL, 0.7], width.ravel()])
    return np.array(begun), np.broadcast_to(width, (_STARTS, len(width)))


class Found(NamedTuple):
    """The best of a lane's starts."""

    u: Array
    log_predicted: Array
    scale: Array


class Step(NamedTuple):
    """Where a search is."""

    u: Array
    damping: Array
    noise: Array


@eqx.filter_jit
def search(rows: Lanes, begun: Array, width: Array) -> Found:
    """Fit every lane from each of its starts and keep the best.

    Args:
        rows: (lanes, rows) each.
        begun: (lanes, starts, parameters), where to start, which is also the prior's centre.
        width: (lanes, starts, parameters), standard deviation of the prior.
    """

    def one(rows: Lanes, start: Array, width: Array) -> tuple[Array, Array]:
        def residual(u: Array, noise: Array) -> Array:
            miss = jnp.asarray(rows.log_time - log_time(u, rows)) / noise
            return jnp.concatenate([rows.weight * huber(miss), (u - start) / width])

        def step(carry: Step, _: None) -> tuple[Step, None]:
            """One Levenberg–Marquardt step; a lane's matrix is so small that squares are cheap."""
            u, damping, noise = carry
            here, slope = residual(u, noise), jax.jacfwd(residual)(u, noise)
            square = slope.T @ slope
            damped = square + damping * jnp.diag(jnp.diag(square))
            tried = u - jnp.linalg.solve(damped, slope.T @ here)
            there = residual(tried, noise)
            better = jnp.sum(there**2) < jnp.sum(here**2)
            eased = jnp.where(better, damping / 3, jnp.minimum(damping * 4, 1e8))
            return Step(jnp.where(better, tried, u), jnp.maximum(eased, 1e-9), noise), None

        def again(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
            u, noise = carry
            begun = Step(u, jnp.asarray(1e-2), noise)
            u = jax.lax.scan(step, begun, None, length=_STEPS)[0].u
            miss = jnp.abs(rows.log_time - log_time(u, rows))
            typical = jnp.nanmedian(jnp.where(rows.weight > 0, miss, jnp.nan))
            return (u, jnp.maximum(1.5 * typical, _NOISE)), None

        (u, _), _ = jax.lax.scan(again, (start, jnp.asarray(2 * _NOISE)), None, length=2)
        return u, jnp.sum(residual(u, jnp.asarray(_NOISE)) ** 2)

    def lane(rows: Lanes, begun: Array, width: Array) -> Found:
        u, cost = jax.vmap(one, in_axes=(None, 0, 0))(rows, begun, width)
        best = u[jnp.nanargmin(cost)]
        predicted = log_time(best, rows)
        miss = jnp.where(rows.weight > 0, jnp.abs(rows.log_time - predicted), jnp.nan)
        return Found(best, predicted, jnp.nanmedian(miss))

    return jax.vmap(lane)(rows, begun, width)


def huber(residual: Array) -> Array:
    """sign(e) √(2 ρ(e)) of Huber's loss."""
    size = jnp.abs(residual)
    # The root's slope is infinite at 0; there the square branch is taken, and the root sees HUBER.
    linear = jnp.sqrt(2 * HUBER * jnp.maximum(size, HUBER) - HUBER**2)
    return jnp.where(size <= HUBER, residual, jnp.sign(residual) * linear)
