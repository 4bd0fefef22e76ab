"""Many fits of a link's envelope at once: every number of protocols, fold of cells and start.

Each lane of one compiled `vmap` is a fit of its own: cells that a lane leaves out weigh 0,
protocols that it does without are so slow that they never win. Cells are padded to one of few
shapes, so that a table of many collectives compiles once. What the cells do not tell stays at its
prior; both are under Huber's loss, so that neither a wild cell nor a link unlike all others is
held at any price.

Source: A. Gelman et al., "Bayesian Data Analysis", 3rd ed., 2013, section 14.8, for a normal prior
as additional rows of least squares; the loss is that of `scaleopt.fitting.solve`.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.fitting.collective_rows import COUNTS, Cells
from scaleopt.fitting.solve import HUBER
from scaleopt.models.envelope import LinkEnvelope

PIECES = 3
"""The most protocols that are tried."""
SHAPES = (64, 192, 4096)
"""To how many cells a group is padded; what is fitted is thinned to the middle one."""
_STEPS = 25
_NOISE = 0.05
"""Misses below this share of the time are the library's habits, not the prior's business."""
_ABSENT = 60.0
"""How much slower, as a log, a protocol is that a lane does without."""
_SEED = 0
_LAUNCH, _LAUNCH_PULL = 7.0, 0.8
"""The launch over the first α."""
_RING, _TREE, _ALPHA_EXPONENT_PULL = 0.9, 0.4, 0.2
"""The most that messages are expected to grow, as N to this power, in a node and across nodes."""
_BETA_EXPONENT_PULL = 0.06
_CROWDING_PULL = 0.4
_SWITCHED, _SWITCHED_SLOPE, _SWITCHED_MOST = 5e-12, 0.3, 0.35
"""A link faster than this is switched, and a ring gets more of it than a pair does [s/B]."""
_COUNT_PULL = 0.07
"""How far α and β of one count lie from the law."""
_LOOSE_PULL = 4.0
_LEVEL = ("alpha", "beta", "crowding", "alpha_growth", "beta_growth")
_SHARPNESS, _SHARPNESS_PULL = 6.0, 0.7
_OVERLAP_PULL = 1.0


def link_of(values: Array | np.ndarray, pieces: int = PIECES) -> LinkEnvelope:
    """The link of a vector: launch / α, sharpness, overlap; a and b; a row of α, β, c; factors.

    Each of a and b, and each row, is one for the level within a node, and, where there are several
    nodes, one more for the level across them. The factors at the end are those of single counts.
    """
    launch, sharpness, overlap = values[:3]
    values = values[3 : -2 * COUNTS]
    levels = len(values) // (2 + 3 * PIECES)
    growth = values[: 2 * levels].reshape(levels, 2)
    each = values[2 * levels :].reshape(PIECES, levels, 3)[:pieces]
    inside, across = (
        dict(zip(_LEVEL, (*each[:, level].T, *growth[level]), strict=True))
        if level < levels
        else {}
        for level in range(2)
    )
    return LinkEnvelope(
        launch=launch * each[0, 0, 0],
        **inside,
        **{f"node_{name}": value for name, value in across.items()},
        sharpness=sharpness,
        overlap=overlap,
    )


def log_time(u: Array, cells: Cells) -> Array:
    """Log seconds of each cell by the law."""
    link = link_of(jnp.exp(u))
    return jnp.log(link(cells.devices, cells.size, cells.passes, cells.nodes))


def _log_time_there(u: Array, cell: Cells) -> Array:
    """Log seconds of one cell where every count has an α and a β of its own around the law's.

    What a count does to one size it does to all like it; without these factors twenty sizes at one
    count would speak for the law as if they were twenty counts.
    """
    message, sending = u[-2 * COUNTS :].reshape(2, COUNTS)[:, cell.place]
    levels = (len(u) - 3 - 2 * COUNTS) // (2 + 3 * PIECES)
    shift = jnp.tile(jnp.stack([message, sending, jnp.zeros_like(message)]), PIECES * levels)
    # The launch is in units of the first α, and is the same at every count.
    u = u.at[3 + 2 * levels : -2 * COUNTS].add(shift).at[0].add(-message)
    return log_time(u, cell)


@eqx.filter_jit
def log_times(u: Array, cells: Cells) -> Array:
    """(lanes, cells): log seconds by each vector."""
    return jax.vmap(log_time, in_axes=(0, None))(u, cells)


class Prior(NamedTuple):
    """What holds a link with a number of pieces, as normal distributions of the vector."""

    centre: np.ndarray
    width: np.ndarray


def padded(cells: Cells) -> Cells:
    """The cells, the last repeated up to one of the shapes that are compiled."""
    count = len(cells.size)
    shape = next(each for each in SHAPES if each >= count)
    return Cells(*(np.pad(each, (0, shape - count), mode="edge") for each in cells))


def prior(cells: Cells, pieces: int) -> Prior:
    """What is known of the link of some cells before they are fitted."""
    levels = 1 + int(cells.nodes.max() > 1)
    per_byte = (cells.log_time - np.log(np.maximum(cells.size, 1.0) * cells.passes)).min()
    inside, across = cells.devices / cells.nodes, cells.nodes
    growth = np.zeros((levels, 2))
    growth[:, 0] = [_exponent(inside, _RING), _exponent(across, _TREE)][:levels]
    protocol = np.zeros((PIECES, levels, 3))
    protocol[..., 0] = cells.log_time.min() - 1.5
    protocol[..., 1] = per_byte
    protocol[:, 0, 2] = np.clip(
        _SWITCHED_SLOPE * (per_byte - np.log(_SWITCHED)), -_SWITCHED_MOST, 0
    )
    protocol[pieces:, :, :2] += _ABSENT
    centre = [
        np.log([_LAUNCH, _SHARPNESS, 1.0]),
        growth * np.log(2),
        protocol,
        np.zeros(2 * COUNTS),
    ]
    each = np.full((PIECES, levels, 3), [_LOOSE_PULL, _LOOSE_PULL, _CROWDING_PULL])
    each[pieces:] = 1e-3
    width = [
        [_LAUNCH_PULL, _SHARPNESS_PULL, _OVERLAP_PULL],
        np.log(2) * np.tile([_ALPHA_EXPONENT_PULL, _BETA_EXPONENT_PULL], levels),
        each,
        np.full(2 * COUNTS, _COUNT_PULL),
    ]
    return Prior(*(np.concatenate([np.ravel(part) for part in parts]) for parts in (centre, width)))


def starts(prior: Prior, pieces: int, count: int) -> np.ndarray:
    """(count, parameters): places to begin, protocols spread from quick ones to broad ones."""
    generator = np.random.default_rng(_SEED)
    begun = np.tile(prior.centre, (count, 1))
    levels = (len(prior.centre) - 3 - 2 * COUNTS) // (2 + 3 * PIECES)
    protocol = begun[:, 3 + 2 * levels : -2 * COUNTS].reshape(count, PIECES, levels, 3)
    spread = np.sort(generator.uniform(0, 4, (2, count, pieces - 1)), axis=-1)
    protocol[:, 1:pieces, :, 0] += spread[0, :, :, None]
    protocol[:, : pieces - 1, :, 1] += spread[1, :, ::-1, None]
    begun[:, 3 + 2 * levels : -2 * COUNTS] = protocol.reshape(count, -1)
    return begun


def _exponent(parts: np.ndarray, most: float) -> float:
    """How messages may be expected to grow: as a tree's of the fewest parts on, at most so much."""
    fewest = parts[parts > 1].min(initial=np.inf)
    return float(min(most, 1 / np.log(fewest)))


class Found(NamedTuple):
    """Where each lane ended."""

    u: Array | np.ndarray
    """(lanes, parameters)."""
    loss: Array | np.ndarray
    """(lanes,)."""
    typical: Array | np.ndarray
    """(lanes,): the median |log| miss."""


def search(cells: Cells, weight: np.ndarray, priors: list[Prior], begun: np.ndarray) -> Found:
    """Fit every lane from where it begins.

    The noise that the loss is in units of is at first a guess, then what the first round missed.

    Args:
        cells: (cells,) each, the same for every lane.
        weight: (lanes, cells), 0 where a lane leaves a cell out.
        priors: one a lane.
        begun: (lanes, parameters).
    """
    prior = Prior(*map(np.array, zip(*priors, strict=True)))
    cells, count = padded(cells), weight.shape[1]
    weight = np.pad(weight.astype(float), ((0, 0), (0, len(cells.size) - count)))
    with jax.enable_x64(True):
        guess = np.full(len(begun), 2 * _NOISE)
        first = _descended(cells, weight, prior, guess, begun)
        noise = np.maximum(1.5 * np.asarray(first.typical), _NOISE)
        found = _descended(cells, weight, prior, noise, np.asarray(first.u))
    return Found(*map(np.asarray, found))


@jax.jit
def _descended(cells: Cells, weight: Array, priors: Prior, noise: Array, begun: Array) -> Found:
    """Damped Gauss–Newton steps of every lane."""

    def one(weight: Array, prior: Prior, noise: Array, begun: Array) -> Found:
        centre, width = prior

        def predicted(u: Array) -> Array:
            return jax.vmap(_log_time_there, in_axes=(None, 0))(u, cells)

        def loss_of(u: Array, miss: Array) -> Array:
            return weight @ _huber_loss(miss) + jnp.sum(_huber_loss((u - centre) / width))

        def step(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
            u, damping = carry
            # One cell's time backwards, for all cells at once: far cheaper than each parameter
            # forwards, and a matrix so small that its squares are cheap.
            slopes = jax.vmap(jax.value_and_grad(_log_time_there), in_axes=(None, 0))
            time, slope = slopes(u, cells)
            miss, pull = (cells.log_time - time) / noise, (centre - u) / width
            heavy, held = weight * _huber_weight(miss), _huber_weight(pull)
            gradient = slope.T @ (heavy * miss) / noise + held * pull / width
            curvature = (slope.T * heavy) @ slope / noise**2 + jnp.diag(held / width**2)
            damped = curvature + damping * jnp.diag(jnp.diag(curvature))
            tried = u + jnp.linalg.solve(damped, gradient)
            here = loss_of(u, miss)
            there = loss_of(tried, (cells.log_time - predicted(tried)) / noise)
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
