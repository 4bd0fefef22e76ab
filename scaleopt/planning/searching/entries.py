"""The entries of the tables that a tile of layouts needs, and the sums of them."""

from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.models.memory import layers_in_flight
from scaleopt.models.parallelism import Parallelism
from scaleopt.models.zero import zero_seconds
from scaleopt.planning.searching.layouts import AXES, PLACES
from scaleopt.planning.searching.tables import Tables

if TYPE_CHECKING:
    from scaleopt.planning.searching.likeness import Likeness


class Entries(NamedTuple):
    """The entries of a tile of layouts, one row each."""

    stages: Array | np.ndarray
    data: Array | np.ndarray
    states: Array | np.ndarray
    zero: Array | np.ndarray
    """ZeRO stages, the same for all."""
    axes: Array | np.ndarray
    """(axes, layouts)"""
    likeness: "Likeness | None"
    places: Array | np.ndarray
    """(3, layouts): of share, replicas and sequences."""
    across: Array | np.ndarray
    """(layouts,): whether a run spans nodes."""


def entries(found: Tables, tile: np.ndarray) -> Entries:
    """What a tile of layouts needs of the tables: the same shapes whatever their size.

    Args:
        found: the tables.
        tile: (axes and places, layouts).
    """
    at = dict(zip((*AXES, *PLACES), tile, strict=True))
    across = at["tensor"] * at["context"] * at["data"] >= found.node_size
    stage = 2 * (at["share"] * found.sequences + at["sequences"]) + across
    axis = at["share"] * found.replicas + at["replicas"]
    spans = at["devices"] > found.node_size
    return Entries(
        np.take(found.stages, stage, axis=0),
        np.take(found.data, axis, axis=0),
        np.take(found.states, axis, axis=0),
        found.zero,
        tile[: len(AXES)].astype(np.float64),
        found.likeness,
        np.stack([at["share"], at["replicas"], at["sequences"]]),
        spans.astype(np.float64),
    )


def added_up(found: Entries) -> tuple[Array, Array]:
    """Seconds of a step and bytes of a device of every configuration of a tile.

    Returns:
        Two arrays of (layouts, recomputation × sequence parallelism, ZeRO stages).
    """
    at = dict(zip(AXES, jnp.asarray(found.axes), strict=True))
    pipeline, chunks, batches = (at[axis] for axis in ("pipeline", "interleave", "accumulation"))
    split = Parallelism(pipeline=pipeline, interleave=chunks, accumulation=batches)
    flight, chunks, batches = layers_in_flight(split)[:, None], chunks[:, None], batches[:, None]
    once, each, fill, passed, rest, kept, *spared = jnp.moveaxis(jnp.asarray(found.stages), 1, 0)
    seconds = once + batches * (each + chunks * passed) + fill / chunks
    if spared:
        seconds = seconds - at["zero_bubble"][:, None] * spared[0]
    summed, gathered, overlap, saved = jnp.asarray(found.data).T[:, :, None]
    data, saved = zero_seconds(summed, gathered, overlap, saved, found.zero, batches)
    data = data - saved
    held = rest + flight * kept
    held = held[:, :, None] + jnp.asarray(found.states)[:, None]
    seconds = seconds[:, :, None] + data[:, None]
    if found.likeness is not None:
        miss = found.likeness.expected(found.places, found.across)
        seconds = seconds * jnp.exp(miss).reshape(seconds.shape)
    return seconds, held
