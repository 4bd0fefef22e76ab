"""The exact search: every layout with every option, scored in compiled tiles of one size.

For a given number of devices and batch everything a plan may want (a short run, a cheap one, one
that keeps a deadline) is better the faster the step. So one pass over the configurations that keeps
the fastest of each (devices, batch) answers all such questions, and what is asked of it afterwards
costs nothing. Beside these it keeps the fastest whatever the memory, the leanest of those that are
fast enough, and a list of the best layouts overall.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.planning.searching.entries import Entries, added_up, entries
from scaleopt.planning.searching.layouts import AXES, Layouts, tiles
from scaleopt.planning.searching.options import Options
from scaleopt.planning.searching.tables import Tables
from scaleopt.units import Bytes, Seconds

TILE = 4096
"""Layouts that are scored together; small enough for a processor's cache."""


class Best(NamedTuple):
    """Of each layout of a tile, (layouts,): the least of its options, and which that is."""

    seconds: Any
    """Of the fastest option that fits in memory."""
    option: Any
    held: Any
    """Its bytes."""
    fastest: Any
    """Seconds of the fastest option, whether or not it fits."""
    least: Any
    """Bytes of the leanest option that is as fast as it must be."""
    leanest: Any
    taken: Any
    """Its seconds."""


def scores(found: Entries) -> tuple[Array, Array]:
    """Seconds and bytes of every configuration of a tile, (layouts, options)."""
    seconds, held = added_up(found)
    flat = (seconds.shape[0], -1)
    return jnp.reshape(seconds, flat), jnp.reshape(held, flat)


all_scores = jax.jit(scores)


@jax.jit
def best_options(found: Entries, memory: Bytes, slowest: Seconds) -> Best:
    """The best options of each layout of a tile.

    Args:
        found: the tile's entries of the tables.
        memory: that a device has.
        slowest: [s] that a step of each layout may take for `least`.
    """
    seconds, held = scores(found)
    fitting = jnp.where(held <= memory, seconds, jnp.inf)
    lean = jnp.where(seconds <= jnp.asarray(slowest)[:, None], held, jnp.inf)
    option, leanest = jnp.argmin(fitting, 1), jnp.argmin(lean, 1)

    def its(values: Array, place: Array) -> Array:
        return jnp.take_along_axis(values, place[:, None], 1)[:, 0]

    return Best(
        its(fitting, option),
        option,
        its(held, option),
        seconds.min(1),
        its(lean, leanest),
        leanest,
        its(seconds, leanest),
    )


class Leaders:
    """The layout with the least value in each cell, the first listed of equal ones."""

    def __init__(self, cells: int, axes: int = len(AXES)) -> None:
        """None yet."""
        self.value = np.full(cells, np.inf)
        self.rows = np.zeros((axes, cells), np.int64)
        self.option = np.zeros(cells, np.int64)
        self.other = np.full(cells, np.nan)
        """What else is known of the leader: bytes where seconds are led by, and the reverse."""

    def update(
        self,
        cell: np.ndarray,
        value: np.ndarray,
        rows: np.ndarray,
        option: np.ndarray,
        other: np.ndarray,
    ) -> None:
        """Let further layouts compete."""
        better = np.flatnonzero(value < self.value[cell])
        if not len(better):
            return
        better = better[np.argsort(value[better], kind="stable")]
        cells, first = np.unique(cell[better], return_index=True)
        chosen = better[first]
        self.value[cells] = value[chosen]
        self.rows[:, cells] = rows[:, chosen]
        self.option[cells] = option[chosen]
        self.other[cells] = other[chosen]


class Shortlist:
    """The layouts with the least values of all, the first listed of equal ones first."""

    def __init__(self, length: int, axes: int = len(AXES)) -> None:
        """None yet."""
        self.length = length
        self.value = self.seconds = self.held = np.empty(0)
        self.option = np.empty(0, np.int64)
        self.rows = np.empty((axes, 0), np.int64)

    def update(self, value: np.ndarray, rows: np.ndarray, best: Best) -> None:
        """Let further layouts compete."""
        worst = self.value[-1] if len(self.value) == self.length else np.inf
        better = np.flatnonzero(value < worst)
        if not len(better):
            return
        value = np.concatenate([self.value, value[better]])
        order = np.argsort(value, kind="stable")[: self.length]

        def kept(old: np.ndarray, new: np.ndarray) -> np.ndarray:
            return np.concatenate([old, new[..., better]], axis=-1)[..., order]

        self.value, self.rows = value[order], kept(self.rows, rows)
        self.seconds, self.held = kept(self.seconds, best.seconds), kept(self.held, best.held)
        self.option = kept(self.option, best.option)


class Found(NamedTuple):
    """What a search keeps; a cell is a place in `layouts.devices` × `layouts.batches`."""

    fits: Leaders
    """By cell: seconds of the fastest configuration that fits in memory."""
    fastest: Leaders
    """The same, whether or not it fits; which option that is, is not kept."""
    leanest: Leaders
    """By cell: bytes of the leanest configuration that is as fast as it must be."""
    shortlist: Shortlist
    configurations: int


Tiles = Iterator[tuple[np.ndarray, int]]


def search(
    found: Tables,
    layouts: Layouts,
    options: Options,
    memory: float,
    slowest: Callable[[np.ndarray, np.ndarray], np.ndarray],
    value: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
    *,
    length: int = 1000,
    watch: Callable[[Tiles], Tiles] = iter,
) -> Found:
    """Score every configuration.

    Args:
        found: the tables of the problem.
        layouts: where it is looked for.
        options: what each layout is tried with.
        memory: [B] that a device has.
        slowest: from (devices, batch) the seconds a step may take at most for every limit to hold.
        value: from (seconds, devices, batch) what is to be small; infinite where a limit breaks.
        length: how many of the best layouts are kept in the list.
        watch: what the tiles pass on their way, such as a progress bar.

    Returns:
        The best by cell, and the best of all.
    """
    cells = len(layouts.devices) * len(layouts.batches)
    fits, fastest, leanest = (Leaders(cells) for _ in range(3))
    shortlist, configurations = Shortlist(length), 0
    for tile, true, result in _scored(found, layouts, memory, slowest, watch):
        best = Best(*(np.asarray(part)[:true] for part in result))
        rows, (devices, batch, cell) = tile[: len(AXES), :true], tile[_CELL, :true]
        fits.update(cell, best.seconds, rows, best.option, best.held)
        fastest.update(cell, best.fastest, rows, best.option, best.held)
        leanest.update(cell, best.least, rows, best.leanest, best.taken)
        shortlist.update(value(best.seconds, devices, batch), rows, best)
        at = dict(zip(AXES, rows, strict=True))
        configurations += options.of(at["tensor"], at["data"] * at["context"])
    return Found(fits, fastest, leanest, shortlist, configurations)


_CELL = slice(len(AXES), len(AXES) + 3)
"""Rows of a tile with devices, batch and cell."""


def _scored(
    found: Tables,
    layouts: Layouts,
    memory: float,
    slowest: Callable[[np.ndarray, np.ndarray], np.ndarray],
    watch: Callable[[Tiles], Tiles],
) -> Iterator[tuple[np.ndarray, int, Best]]:
    """The tiles with their best options; the next one is under way while one is looked at."""
    waiting: tuple[np.ndarray, int, Best] | None = None
    for tile, true in watch(tiles(iter(layouts), TILE)):
        devices, batch, _ = tile[_CELL]
        limit = slowest(devices, batch)
        with jax.enable_x64(True):
            result = best_options(entries(found, tile), memory, limit)
        if waiting is not None:
            yield waiting
        waiting = tile, true, result
    if waiting is not None:
        yield waiting
