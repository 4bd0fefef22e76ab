"""A link's envelope as one vector of logs, and the time by it of many cells at once."""

import math
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.fitting.collective_rows import COUNTS, Cells
from scaleopt.models.envelope import LinkEnvelope

PIECES = 3
"""The most protocols that are tried."""
_LEVEL = ("alpha", "beta", "crowding", "alpha_growth", "beta_growth")


class Numbers(NamedTuple):
    """The parts of a vector, in its order: logs, or what they are the logs of."""

    whole: Array | np.ndarray
    """(3,): the launch over the first α, sharpness, overlap."""
    growth: Array | np.ndarray
    """(levels, 2): a and b, within a node and, where there are several, across them."""
    protocol: Array | np.ndarray
    """(PIECES, levels, 3): α, β and c."""
    start: Array | np.ndarray
    """(PIECES,): what each protocol but the first costs besides, over its α."""
    counts: Array | np.ndarray
    """(2, COUNTS): the factors on α and on β of single counts, which are no part of the law."""


def numbers_of(u: Array | np.ndarray) -> Numbers:
    """The parts of a vector."""
    levels = (len(u) - 3 - PIECES - 2 * COUNTS) // (2 + 3 * PIECES)
    parts, begun = [], 0
    for shape in ((3,), (levels, 2), (PIECES, levels, 3), (PIECES,), (2, COUNTS)):
        end = begun + math.prod(shape)
        parts.append(u[begun:end].reshape(shape))
        begun = end
    return Numbers(*parts)


def vector_of(numbers: Numbers) -> np.ndarray:
    """The parts as one vector."""
    return np.concatenate([np.ravel(part) for part in numbers])


def link_of(values: Numbers, pieces: int = PIECES) -> LinkEnvelope:
    """The link of numbers that are no longer logs."""
    launch, sharpness, overlap = values.whole
    levels = [
        dict(zip(_LEVEL, (*values.protocol[:pieces, level].T, *growth), strict=True))
        for level, growth in enumerate(values.growth)
    ]
    across = {f"node_{name}": value for level in levels[1:] for name, value in level.items()}
    alpha = values.protocol[:pieces, 0, 0]
    # What the first protocol costs besides is the launch, which all have.
    start = values.start[:pieces] * alpha * (np.arange(pieces) > 0)
    return LinkEnvelope(
        launch * alpha[0], **levels[0], **across, start=start, sharpness=sharpness, overlap=overlap
    )


@eqx.filter_jit
def log_time(u: Array | np.ndarray, cells: Cells) -> Array:
    """Log seconds of each cell by the law."""
    return _log_time(numbers_of(jnp.asarray(u)), cells)


def log_time_there(u: Array, cell: Cells) -> Array:
    """Log seconds of one cell where every count has an α and a β of its own around the law's.

    What a count does to one size it does to all like it; without these factors twenty sizes at one
    count would speak for the law as if they were twenty counts.
    """
    numbers = numbers_of(u)
    message, sending = jnp.asarray(numbers.counts)[:, cell.place]
    # What is besides the messages is in units of an α, but the same at every count.
    whole, start = jnp.asarray(numbers.whole).at[0].add(-message), numbers.start - message
    shift = jnp.stack([message, sending, jnp.zeros_like(message)])
    protocol = numbers.protocol + shift
    return _log_time(numbers._replace(whole=whole, protocol=protocol, start=start), cell)


def _log_time(logs: Numbers, cells: Cells) -> Array:
    link = link_of(Numbers(*map(jnp.exp, logs)))
    return jnp.log(link(cells.devices, cells.size, cells.passes, cells.nodes))
