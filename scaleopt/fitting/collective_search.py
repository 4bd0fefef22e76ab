"""Many fits of a link's envelope at once: every number of protocols, fold of rows and start.

Each lane of one compiled `vmap` is a fit of its own: rows that a lane leaves out weigh 0, protocols
that it does without are so slow that they never win. Groups of cells are padded to
one of two shapes, so that a table of many collectives compiles once. What the cells do not tell stays at its prior, which enters
as pseudo-residuals beside those of the cells; the loss is Huber's.

Source: A. Gelman et al., "Bayesian Data Analysis", 3rd ed., 2013, section 14.8, for a normal prior
as additional rows of least squares; the loss is that of `scaleopt.fitting.solve`.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.fitting.collective_rows import Cells
from scaleopt.fitting.solve import HUBER
from scaleopt.models.envelope import LinkEnvelope

PIECES = 3
"""The most protocols that are tried."""
SHAPES = (64, 192)
"""To how many cells a group is padded; a larger one is thinned."""
_STARTS = 4
_STEPS = 25
_NOISE = 0.05
"""Misses below this share of the time are the library's habits, not the prior's business."""
_ABSENT = 60.0
"""How much slower, as a log, a protocol is that a lane does without."""
_SEED = 0
_ALPHA_EXPONENT, _ALPHA_EXPONENT_PULL = 0.8, 0.2
_BETA_EXPONENT, _BETA_EXPONENT_PULL = 0.0, 0.15
_LOOSE_PULL = 4.0
_SHARPNESS, _SHARPNESS_PULL = 6.0, 0.7
_OVERLAP_PULL = 0.7


def link_of(values: Array | np.ndarray, pieces: int = PIECES) -> LinkEnvelope:
    """The link of a vector: launch, sharpness, overlap, then a row of α, β, a, b.

    A row for each protocol within a node, and, where there are several nodes, one across them.
    """
    launch, sharpness, overlap = values[:3]
    each = values[3:].reshape(PIECES, -1, 4)[:pieces]
    levels = each.shape[1]
    across = tuple(each[:, 1].T) if levels > 1 else ()
    return LinkEnvelope(launch, *each[:, 0].T, *across, sharpness=sharpness, overlap=overlap)


def log_time(u: Array, cells: Cells) -> Array:
    """Log seconds of each cell."""
    link = link_of(jnp.exp(u))
    return jnp.log(link(cells.devices, cells.size, cells.passes, cells.nodes))


@eqx.filter_jit
def log_times(u: Array, cells: Cells) -> Array:
    """(lanes, cells): log seconds by each vector."""
    return jax.vmap(log_time, in_axes=(0, None))(u, cells)


class Prior(NamedTuple):
    """Where the lanes of a number of pieces begin, and what holds them."""

    starts: np.ndarray
    """(starts, parameters)."""
    centre: np.ndarray
    """(parameters,)."""
    width: np.ndarray
    """(parameters,), a standard deviation."""


def padded(cells: Cells) -> Cells:
    """The cells, the last repeated up to one of the shapes that are compiled."""
    count = len(cells.size)
    shape = next((each for each in SHAPES if each >= count), -(-count // SHAPES[-1]) * SHAPES[-1])
    return Cells(*(np.pad(each, (0, shape - count), mode="edge") for each in cells))


def prior(cells: Cells, pieces: int, levels: int) -> Prior:
    """The prior of the link of some cells, of one or two levels."""
    generator = np.random.default_rng(_SEED)
    least = cells.log_time.min()
    per_byte = (cells.log_time - np.log(np.maximum(cells.size, 1.0) * cells.passes)).min()
    absent = np.where(np.arange(PIECES) < pieces, 0.0, _ABSENT)[:, None]
    growth = np.log(2) * np.array([_ALPHA_EXPONENT, _BETA_EXPONENT])

    def vector(rises: np.ndarray, falls: np.ndarray) -> np.ndarray:
        protocol = np.empty((PIECES, levels, 4))
        protocol[..., 0] = least - 1.5 + rises[:, None] + absent
        protocol[..., 1] = per_byte + falls[:, None] + absent
        protocol[..., 2:] = growth
        return np.concatenate([[least - 0.7, np.log(_SHARPNESS), 0.0], protocol.ravel()])

    begun = []
    for _ in range(_STARTS):
        rises, falls = np.zeros(PIECES), np.zeros(PIECES)
        rises[1:pieces] = np.sort(generator.uniform(0, 4, pieces - 1))
        falls[: pieces - 1] = np.sort(generator.uniform(0, 4, pieces - 1))[::-1]
        begun.append(vector(rises, falls))
    width = np.full((PIECES, levels, 4), _LOOSE_PULL)
    width[..., 2:] = np.log(2) * np.array([_ALPHA_EXPONENT_PULL, _BETA_EXPONENT_PULL])
    width[pieces:] = 1e-3
    width = np.concatenate([[_LOOSE_PULL, _SHARPNESS_PULL, _OVERLAP_PULL], width.ravel()])
    return Prior(np.array(begun), vector(np.zeros(PIECES), np.zeros(PIECES)), width)


class Found(NamedTuple):
    """Where every start of every lane ended."""

    u: Array
    """(lanes, starts, parameters)."""
    loss: Array
    """(lanes, starts)."""
    typical: Array
    """(lanes, starts): the median |log| miss."""


def search(cells: Cells, weight: np.ndarray, priors: Prior) -> np.ndarray:
    """Fit every lane from each of its starts and keep the best.

    The noise that the loss is in units of is at first a guess, then what the first round missed.

    Args:
        cells: (cells,) each, the same for every lane.
        weight: (lanes, cells), 0 where a lane leaves a cell out.
        priors: (lanes, …) each.

    Returns:
        (lanes, parameters), a vector for `link_of`.
    """
    with jax.enable_x64(True):
        guess = np.full(priors.starts.shape[:2], 2 * _NOISE)
        first = _descended(cells, weight, priors, guess, priors.starts)
        noise = np.maximum(1.5 * np.asarray(first.typical), _NOISE)
        found = _descended(cells, weight, priors, noise, np.asarray(first.u))
    u, loss = np.asarray(found.u), np.asarray(found.loss)
    return u[np.arange(len(u)), np.nanargmin(loss, axis=1)]


@jax.jit
def _descended(cells: Cells, weight: Array, priors: Prior, noise: Array, begun: Array) -> Found:
    """Damped Gauss–Newton steps from every start."""

    def one(weight: Array, centre: Array, width: Array, noise: Array, begun: Array) -> Found:
        def loss_of(u: Array, miss: Array) -> Array:
            return weight @ _huber_loss(miss) + 0.5 * jnp.sum(((u - centre) / width) ** 2)

        def step(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
            u, damping = carry
            # One row's time backwards, for all rows at once: far cheaper than each parameter
            # forwards, and a matrix so small that its squares are cheap.
            predicted, slope = jax.vmap(jax.value_and_grad(log_time), in_axes=(None, 0))(u, cells)
            miss = (cells.log_time - predicted) / noise
            heavy = weight * _huber_weight(miss)
            gradient = slope.T @ (heavy * miss) / noise - (u - centre) / width**2
            curvature = (slope.T * heavy) @ slope / noise**2 + jnp.diag(1 / width**2)
            damped = curvature + damping * jnp.diag(jnp.diag(curvature))
            tried = u + jnp.linalg.solve(damped, gradient)
            here = loss_of(u, miss)
            there = loss_of(tried, (cells.log_time - log_time(tried, cells)) / noise)
            better = there < here
            damping = jnp.clip(jnp.where(better, damping / 3, damping * 4), 1e-9, 1e8)
            return (jnp.where(better, tried, u), damping), here

        (u, _), _ = jax.lax.scan(step, (begun, jnp.asarray(1e-2)), None, length=_STEPS)
        miss = jnp.asarray(cells.log_time - log_time(u, cells))
        typical = jnp.nanmedian(jnp.where(weight > 0, jnp.abs(miss), jnp.nan))
        return Found(u, loss_of(u, miss / _NOISE), typical)

    starts = jax.vmap(one, in_axes=(None, None, None, 0, 0))
    return jax.vmap(starts)(weight, priors.centre, priors.width, noise, begun)


def _huber_loss(residual: Array) -> Array:
    """ρ(e): e²/2, and beyond HUBER its tangent."""
    size = jnp.abs(residual)
    inside = jnp.minimum(size, HUBER)
    return inside * (size - 0.5 * inside)


def _huber_weight(residual: Array) -> Array:
    """ρ'(e) / e: 1, and beyond HUBER as little as keeps the pull the same."""
    return HUBER / jnp.maximum(jnp.abs(residual), HUBER)
