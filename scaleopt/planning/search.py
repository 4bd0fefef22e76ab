"""The exact search: every layout with every option, scored in compiled tiles of one size.

For a given number of devices and batch everything a plan may want (a short run, a cheap one, one
that keeps a deadline) is better the faster the step. So one pass over the configurations that keeps
the fastest of each (devices, batch) answers all such questions, and what is asked of it afterwards
costs nothing. Beside these it keeps the fastest whatever the memory, the leanest of those that are
fast enough, and a list of the best layouts overall.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.models.machine import Machine
from scaleopt.models.memory import ZERO_STAGES, Precision, traffic_factor, training_memory
from scaleopt.models.parallelism import Parallelism
from scaleopt.models.transformer import RECOMPUTE, Transformer, recompute_code
from scaleopt.planning.layouts import AXES, Layouts, tiles
from scaleopt.units import Bytes, Scalar, Seconds

TILE = 4096
"""Layouts that are scored together; small enough for a processor's cache."""


class Options(NamedTuple):
    """What every layout is tried with; each combination is one configuration of it."""

    recompute: tuple[str, ...] = RECOMPUTE
    sequence_parallel: tuple[bool, ...] = (False, True)
    zero: tuple[int, ...] = ZERO_STAGES

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many there are of each."""
        return len(self.recompute), len(self.sequence_parallel), len(self.zero)

    def codes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The options as numbers, one axis each."""
        recompute = np.array([recompute_code(choice) for choice in self.recompute], float)
        along, zero = np.array(self.sequence_parallel, float), np.array(self.zero, float)
        return recompute[:, None, None], along[:, None], zero

    def each(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Recomputation, sequence parallelism and ZeRO stage of flat places among them."""
        recompute, along, zero = np.unravel_index(place, self.shape)
        codes = [recompute_code(choice) for choice in self.recompute]
        return (
            np.array(codes)[recompute],
            np.array(self.sequence_parallel)[along],
            np.array(self.zero)[zero],
        )

    def of(self, tensor: np.ndarray, data: np.ndarray) -> int:
        """How many different configurations layouts have: one device has nothing to split along."""
        along, zero = len(self.sequence_parallel), len(self.zero)
        each = np.where(tensor > 1, along, 1) * np.where(data > 1, zero, 1)
        return len(self.recompute) * int(each.sum())


class Problem(eqx.Module):
    """What is scored: numbers only, so that another machine or model needs no new program."""

    model: Transformer
    machine: Machine
    precision: Precision
    recompute: Array | np.ndarray
    sequence_parallel: Array | np.ndarray
    zero: Array | np.ndarray

    @classmethod
    def of(
        cls, model: Transformer, machine: Machine, precision: Precision, options: Options
    ) -> "Problem":
        """With every number a float64 array."""

        def number(leaf: Scalar) -> np.ndarray:
            return np.asarray(leaf, np.float64)

        model, machine, precision = jax.tree.map(number, (model, machine, precision))
        return cls(model, machine, precision, *options.codes())


class Scores(NamedTuple):
    """Of every configuration of a tile, (layouts, options)."""

    seconds: Array
    memory: Array


def step_seconds(machine: Machine, model: Transformer, split: Parallelism, zero: Scalar) -> Seconds:
    """Seconds of a step with its states split by ZeRO, which passes more along the data axis."""
    terms = machine.terms(model, split)
    return terms.total + terms.data * (traffic_factor(zero, split.accumulation) - 1)


def score(problem: Problem, rows: Array) -> Scores:
    """Seconds and bytes of every configuration of a tile of layouts.

    Args:
        problem: what is scored.
        rows: (axes, layouts) in the order of `AXES`.
    """
    axes = dict(zip(AXES, rows[:, :, None, None, None], strict=True))
    split = Parallelism(
        **axes, recompute=problem.recompute, sequence_parallel=problem.sequence_parallel
    )
    seconds = step_seconds(problem.machine, problem.model, split, problem.zero)
    held = training_memory(
        problem.model, split, zero=problem.zero, precision=problem.precision
    ).total
    flat = (rows.shape[1], -1)
    return Scores(jnp.reshape(seconds, flat), jnp.reshape(held, flat))


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


@eqx.filter_jit
def best_options(problem: Problem, rows: Scalar, memory: Bytes, slowest: Seconds) -> Best:
    """The best options of each layout of a tile.

    Args:
        problem: what is scored.
        rows: (axes, layouts).
        memory: that a device has.
        slowest: [s] that a step of each layout may take for `least`.
    """
    seconds, held = score(problem, jnp.asarray(rows))
    fitting = jnp.where(held <= memory, seconds, jnp.inf)
    lean = jnp.where(seconds <= jnp.asarray(slowest)[:, None], held, jnp.inf)
    option, leanest = jnp.argmin(fitting, 1), jnp.argmin(lean, 1)
    its = jnp.take_along_axis(held, option[:, None], 1)[:, 0]
    taken = jnp.take_along_axis(seconds, leanest[:, None], 1)[:, 0]
    return Best(fitting.min(1), option, its, seconds.min(1), lean.min(1), leanest, taken)


class Leaders:
    """The layout with the least value in each cell, the first listed of equal ones."""

    def __init__(self, cells: int) -> None:
        """None yet."""
        self.value = np.full(cells, np.inf)
        self.rows = np.zeros((len(AXES), cells), np.int64)
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

    def __init__(self, length: int) -> None:
        """None yet."""
        self.length = length
        self.value = self.seconds = self.held = np.empty(0)
        self.option = np.empty(0, np.int64)
        self.rows = np.empty((len(AXES), 0), np.int64)

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
Places = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Devices, global batch and cell of each layout."""


def search(
    problem: Problem,
    layouts: Layouts,
    options: Options,
    memory: float,
    slowest: Callable[[np.ndarray, np.ndarray], np.ndarray],
    value: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
    *,
    length: int = 1024,
    watch: Callable[[Tiles], Tiles] = iter,
) -> Found:
    """Score every configuration.

    Args:
        problem: what is scored.
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
    for tile, true, places, result in _scored(problem, layouts, memory, slowest, watch):
        best = Best(*(np.asarray(part)[:true] for part in result))
        rows = tile[:, :true]
        devices, batch, cell = (part[:true] for part in places)
        fits.update(cell, best.seconds, rows, best.option, best.held)
        fastest.update(cell, best.fastest, rows, best.option, best.held)
        leanest.update(cell, best.least, rows, best.leanest, best.taken)
        shortlist.update(value(best.seconds, devices, batch), rows, best)
        configurations += options.of(rows[AXES.index("tensor")], rows[AXES.index("data")])
    return Found(fits, fastest, leanest, shortlist, configurations)


def _scored(
    problem: Problem,
    layouts: Layouts,
    memory: float,
    slowest: Callable[[np.ndarray, np.ndarray], np.ndarray],
    watch: Callable[[Tiles], Tiles],
) -> Iterator[tuple[np.ndarray, int, Places, Best]]:
    """The tiles with their best options; the next one is under way while one is looked at."""
    waiting: tuple[np.ndarray, int, Places, Best] | None = None
    for tile, true in watch(tiles(iter(layouts), TILE)):
        places = cells_of(tile, layouts)
        limit = slowest(*places[:2])
        with jax.enable_x64(True):
            result = best_options(problem, tile.astype(np.float64), np.float64(memory), limit)
        if waiting is not None:
            yield waiting
        waiting = tile, true, places, result
    if waiting is not None:
        yield waiting


def cells_of(rows: np.ndarray, layouts: Layouts) -> Places:
    """Devices, global batch and cell of each layout."""
    tensor, pipeline, _, data, micro_batch, accumulation = rows
    devices, batch = tensor * pipeline * data, data * micro_batch * accumulation
    place = np.searchsorted(layouts.devices, devices) * len(layouts.batches)
    return devices, batch, place + np.searchsorted(layouts.batches, batch)


@eqx.filter_jit
def all_scores(problem: Problem, rows: Scalar) -> Scores:
    """Seconds and bytes of every configuration of some layouts."""
    return score(problem, jnp.asarray(rows))
