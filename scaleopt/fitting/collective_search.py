"""Many fits of a link's envelope at once: every number of protocols, fold of cells and start.

Each lane of one compiled `vmap` is a fit of its own: cells that a lane leaves out weigh 0,
and protocols that it does without never win. Cells are padded to one of few
shapes, so that a table of many collectives compiles once. What the cells do not tell stays at its
prior; both are under Huber's loss, so that neither a wild cell nor a link unlike all others is
held at any price.

Source: A. Gelman et al., "Bayesian Data Analysis", 3rd ed., 2013, section 14.8, for a normal prior
as additional rows of least squares; the loss is that of `scaleopt.fitting.solve`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.fitting.collective_link import log_time_there
from scaleopt.fitting.collective_prior import Prior
from scaleopt.fitting.collective_rows import Cells
from scaleopt.fitting.loss import HUBER

SHAPES = (64, 192, 4096)
"""To how many cells a group is padded; what is fitted is thinned to the middle one."""
_STEPS = 25
_NOISE = 0.05
"""Misses below this share of the time are the library's habits, not the prior's business."""


def padded(cells: Cells) -> Cells:
    """The cells, the last repeated up to one of the shapes that are compiled."""
    count = len(cells.size)
    shape = next(each for each in SHAPES if each >= count)
    return Cells(*(np.pad(each, (0, shape - count), mode="edge") for each in cells))


class Found(NamedTuple):
    """Where each lane ended."""

    u: Array
    """(lanes, parameters)."""
    loss: Array
    """(lanes,)."""
    typical: Array
    """(lanes,): the median |log| miss."""


def search(
    cells: Cells, weight: np.ndarray, priors: list[Prior], begun: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fit every lane from where it begins.

    The noise that the loss is in units of is at first a guess, then what the first round missed.

    Args:
        cells: (cells,) each, the same for every lane.
        weight: (lanes, cells), 0 where a lane leaves a cell out.
        priors: one a lane.
        begun: (lanes, parameters).

    Returns:
        (lanes, parameters), where each ended, and (lanes,) its loss.
    """
    prior = Prior(*map(np.array, zip(*priors, strict=True)))
    cells, count = padded(cells), weight.shape[1]
    weight = np.pad(weight.astype(float), ((0, 0), (0, len(cells.size) - count)))
    with jax.enable_x64(True):
        guess = np.full(len(begun), 2 * _NOISE)
        first = _descended(cells, weight, prior, guess, begun)
        noise = np.maximum(1.5 * np.asarray(first.typical), _NOISE)
        found = _descended(cells, weight, prior, noise, np.asarray(first.u))
    return np.asarray(found.u), np.asarray(found.loss)


@jax.jit
def _descended(cells: Cells, weight: Array, priors: Prior, noise: Array, begun: Array) -> Found:
    """Damped Gauss–Newton steps of every lane."""

    def one(weight: Array, prior: Prior, noise: Array, begun: Array) -> Found:
        centre, width = prior

        def predicted(u: Array) -> Array:
            return jax.vmap(log_time_there, in_axes=(None, 0))(u, cells)

        def loss_of(u: Array, miss: Array) -> Array:
            return weight @ _huber_loss(miss) + jnp.sum(_huber_loss((u - centre) / width))

        def step(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
            u, damping = carry
            # One cell's time backwards, for all cells at once: far cheaper than each parameter
            # forwards, and a matrix so small that its squares are cheap.
            slopes = jax.vmap(jax.value_and_grad(log_time_there), in_axes=(None, 0))
            time, slope = slopes(u, cells)
            miss = jnp.asarray(cells.log_time - time) / noise
            pull = jnp.asarray((centre - u) / width)
            heavy, held = weight * _huber_weight(miss), _huber_weight(pull)
            gradient = slope.T @ (heavy * miss) / noise + held * pull / width
            curvature = (slope.T * heavy) @ slope / noise**2 + jnp.diag(held / width**2)
            damped = curvature + damping * jnp.diag(jnp.diag(curvature))
            tried = u + jnp.linalg.solve(damped, gradient)
            here = loss_of(u, miss)
            there = loss_of(tried, jnp.asarray(cells.log_time - predicted(tried)) / noise)
            better = there < here
            damping = jnp.clip(jnp.where(better, damping / 3, damping * 4), 1e-9, 1e8)
            return (jnp.where(better, tried, u), damping), here

        (u, _), _ = jax.lax.scan(step, (begun, jnp.asarray(1e-2)), None, length=_STEPS)
        miss = jnp.asarray(cells.log_time - predicted(u))
        typical = jnp.nanmedian(jnp.where(weight > 0, jnp.abs(miss), jnp.nan))
        return Found(u, loss_of(u, miss / _NOISE), typical)

    return jax.vmap(one)(weight, priors, noise, begun)


def _huber_loss(residual: Array) -> Array:
    """ρ(e): e²/2, and beyond HUBER its tangent."""
    size = jnp.abs(residual)
    inside = jnp.minimum(size, HUBER)
    return inside * (size - 0.5 * inside)


def _huber_weight(residual: Array) -> Array:
    """ρ'(e) / e: 1, and beyond HUBER as little as keeps the pull the same."""
    return HUBER / jnp.maximum(jnp.abs(residual), HUBER)
