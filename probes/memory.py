"""Memory: the four passes of STREAM over arrays of all sizes, from the caches outward.

copy: a ← b;  scale: a ← q b;  add: a ← c − b;  triad: a ← q c − b

A copy and a scaling move two arrays, the others three, counted as STREAM counts (what a cache reads
before it is written over is not counted). Passes follow one another in one program, each over what
the last one wrote, in three arrays that every program of one size hands to the next: their memory
is mapped once, since a fresh result would time the mapping. Each pass writes over the array that is
no longer needed. XLA would merge passes that read one array each, or drop a copy; so these write
all but the last few elements, at a place that is told at run time. What a trip of the loop costs,
about a microsecond, is in the time of the smallest arrays. Differences, and q = 1 at run time, keep
values bounded in any order of passes.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax import lax

from probes.cell import AXIS, Cell, UnmeasurableError, mesh_of, require, spread
from probes.context import Device
from probes.proof import passes_over
from probes.shards import place
from probes.timing import Program

_SMALLEST = 2**15
_FLOAT = 4
_GAP = 16
"""Elements at the end that a copy or a scaling leaves alone."""
_ENOUGH = 2**26
"""Bytes that the shorter chain moves at least."""
_TOLERANCE = 1e-3
_CHECKED = 4_096
_CHECKING_FACTOR = 0.999

Arrays: TypeAlias = tuple[Any, ...]
Write: TypeAlias = Callable[[Any, Any], Any]
"""Takes new values and the array to write them over, and returns it."""


class Kernel(NamedTuple):
    """A pass over memory, written as a trip of a loop in which each pass depends on the last."""

    arrays: int
    """How many of the three it uses; as many are moved in a pass, and a trip makes as many."""
    trip: Callable[..., Arrays]
    """The arrays after a trip, of `Write`, q and the arrays; for JAX's and for NumPy's."""

    def moved_bytes(self, size: int) -> int:
        """Bytes through memory in one pass over arrays of a size."""
        return self.arrays * (size - (_GAP * _FLOAT if self.arrays == 2 else 0))


def _copy(write: Write, _: object, a: Any, b: Any) -> Arrays:
    a = write(b, a)
    return a, write(a, b)


def _scale(write: Write, q: Any, a: Any, b: Any) -> Arrays:
    a = write(q * b, a)
    return a, write(q * a, b)


def _add(_: Write, __: object, a: Any, b: Any, c: Any) -> Arrays:
    a = c - b
    b = a - c
    return a, b, b - a


def _triad(_: Write, q: Any, a: Any, b: Any, c: Any) -> Arrays:
    a = q * c - b
    b = q * a - c
    return a, b, q * b - a


KERNELS = {
    "copy": Kernel(2, _copy),
    "scale": Kernel(2, _scale),
    "add": Kernel(3, _add),
    "triad": Kernel(3, _triad),
}
"""Every pass that is measured, under its label."""


class _Held:
    """Three arrays on each device, made when first asked for and passed from call to call."""

    def __init__(self, devices: list[Device], count: int, size: int) -> None:
        self._devices, self.count, self.elements = devices, count, size // _FLOAT
        self._arrays: list[jax.Array] = []

    def mesh(self) -> jax.sharding.Mesh:
        """The devices."""
        return mesh_of(self._devices, self.count)

    def take(self, arrays: int) -> list[jax.Array]:
        """The first so many."""
        if not self._arrays:
            random = np.random.default_rng(self.elements)
            block = random.random((3, min(self.elements, _SMALLEST)), dtype=np.float32)
            whole = [np.resize(part, self.elements * self.count) for part in block]
            self._arrays = [spread(part, self.mesh()) for part in whole]
        return self._arrays[:arrays]

    def put(self, arrays: Arrays) -> Arrays:
        """Keep what took their place."""
        self._arrays[: len(arrays)] = arrays
        return arrays


def sizes(largest: int, factor: int) -> list[int]:
    """Bytes of one array: from 32 KiB up to the largest, each `factor` times the last.

    >>> sizes(2**24, 8)
    [32768, 262144, 2097152, 16777216]
    """
    steps = math.floor(math.log(max(largest, _SMALLEST) / _SMALLEST, factor) + 1e-9)
    return [_SMALLEST * factor**step for step in range(steps + 1)]


def cells(devices: list[Device], counts: list[int], array_sizes: list[int]) -> list[Cell]:
    """Every kind of pass over arrays of each size on each count of devices, in two chains.

    Args:
        devices: where to run.
        counts: how many devices at once, each with arrays of its own.
        array_sizes: bytes of one array on each device.
    """
    found = []
    for count in counts:
        for size in array_sizes:
            held = _Held(devices, count, size)
            for label, kernel in KERNELS.items():
                trips = -(-_ENOUGH // (kernel.arrays * kernel.moved_bytes(size)))
                found += [
                    Cell(
                        "stream",
                        count,
                        partial(_build, held, label, turns),
                        size_bytes=float(size * count),
                        moved_bytes=float(kernel.moved_bytes(size) * count),
                        chain=kernel.arrays * turns,
                        label=label,
                    )
                    for turns in (trips, 2 * trips)
                ]
    return found


def _build(held: _Held, label: str, trips: int) -> Program:
    kernel, mesh = KERNELS[label], held.mesh()
    start, one, factor = (
        place(np.asarray(number), mesh, jax.P())
        for number in (np.int32(0), np.float32(1), np.float32(_CHECKING_FACTOR))
    )

    def passes(start: jax.Array, q: jax.Array, *arrays: jax.Array) -> Arrays:
        def write(values: jax.Array, target: jax.Array) -> jax.Array:
            return lax.dynamic_update_slice(target, values[:-_GAP], (start,))

        return lax.fori_loop(0, trips, lambda _, carry: kernel.trip(write, q, *carry), arrays)

    mapped = jax.shard_map(
        passes,
        mesh=mesh,
        in_specs=(jax.P(), jax.P(), *[jax.P(AXIS)] * kernel.arrays),
        out_specs=jax.P(AXIS),
    )
    reused = tuple(range(2, 2 + kernel.arrays))
    lowered = jax.jit(mapped, donate_argnums=reused).lower(start, one, *held.take(kernel.arrays))
    compiled = lowered.compile()
    name = f"{label} of {held.elements * _FLOAT} B on {held.count}"
    found, wanted = passes_over(compiled, held.elements, trips), kernel.arrays * trips
    if found != wanted:
        raise UnmeasurableError(
            f"{name}: this backend makes {found} passes over memory of {wanted}, so a pass is not "
            "what would be timed"
        )

    def program(q: jax.Array = one) -> Arrays:
        return held.put(compiled(start, q, *held.take(kernel.arrays)))

    expected = tuple(_glimpse(array) for array in held.take(kernel.arrays))
    for _ in range(trips):
        expected = kernel.trip(lambda values, _: values, np.float32(_CHECKING_FACTOR), *expected)
    result = [_glimpse(array) for array in program(factor)]
    require(np.allclose(result, expected, atol=_TOLERANCE), name, "the result is wrong")
    return program


def _glimpse(array: jax.Array) -> np.ndarray:
    """Some thousand elements of the array; each goes its way alone, so they stand for all."""
    parts = [np.asarray(shard.data)[:-_GAP] for shard in array.addressable_shards]
    return np.concatenate([part[:: max(part.size // _CHECKED, 1)] for part in parts])
