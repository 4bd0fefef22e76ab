"""Passes over memory: none merged, none dropped, none over fresh memory."""

import jax
import numpy as np
import pytest

from probes import memory
from probes.cell import ProbeError, UnmeasurableError
from probes.memory import KERNELS, Kernel

pytestmark = pytest.mark.timed

SIZE = 2**15


def cells_of(devices, label, count=1, size=SIZE):
    return [cell for cell in memory.cells(devices, [count], [size]) if cell.label == label]


@pytest.mark.parametrize("label", KERNELS)
@pytest.mark.parametrize("count", [1, 2])
def test_every_pass_is_built_and_checked(devices, label, count):
    shorter, longer = cells_of(devices, label, count)
    assert longer.chain == 2 * shorter.chain
    arrays = longer.build()()
    assert len(arrays) == KERNELS[label].arrays
    assert all(np.isfinite(array).all() for array in map(np.asarray, arrays))


def test_bytes_are_counted_as_stream_counts_them(devices):
    moved = {label: cells_of(devices, label, 2)[0].moved_bytes for label in KERNELS}
    assert moved["add"] == moved["triad"] == 3 * 2 * SIZE
    assert moved["copy"] == moved["scale"] == 2 * 2 * (SIZE - 64)


def test_memory_is_reused_from_call_to_call(devices):
    """Each array is written over where it is, however often a program is called."""
    program = cells_of(devices, "triad")[0].build()
    places = [{array.unsafe_buffer_pointer() for array in program()} for _ in range(3)]
    assert places[0] == places[1] == places[2]


def test_passes_of_all_kinds_over_the_same_arrays_keep_values_bounded(devices):
    cells = memory.cells(devices, [1], [SIZE])
    programs = [cell.build() for cell in cells]
    random, largest = np.random.default_rng(0), 0.0
    for place in random.integers(len(programs), size=200):
        largest = max(largest, *(float(np.abs(array).max()) for array in programs[place]()))
    assert 0.1 < largest < 10


def test_the_last_arrays_are_those_that_the_formulas_give(devices):
    held = memory._Held(devices, 1, SIZE)
    before = [np.array(array) for array in held.take(3)]
    program = memory._build(held, "triad", 2)
    after = [np.asarray(array) for array in program()]
    q = np.float32(memory._CHECKING_FACTOR)
    for factor in (q, np.float32(1)):
        for _ in range(2):
            a, b, c = before
            a = factor * c - b
            b = factor * a - c
            before = [a, b, factor * b - a]
    assert np.allclose(after, before, atol=1e-4)


def _merged(_, q, a, b):
    a = q * b
    return a, q * a


def _dropped(_, __, a, b):
    return b, b


@pytest.mark.parametrize("trip", [_merged, _dropped], ids=["merged", "dropped"])
def test_passes_that_xla_merges_or_drops_are_refused(devices, monkeypatch, trip):
    monkeypatch.setitem(KERNELS, "scale", Kernel(2, trip))
    with pytest.raises(UnmeasurableError, match="passes over memory"):
        cells_of(devices, "scale")[0].build()


@pytest.mark.parametrize("label", KERNELS)
def test_wrong_values_are_refused(devices, monkeypatch, label):
    glimpse = memory._glimpse
    seen = []

    def spoilt(array: jax.Array) -> np.ndarray:
        seen.append(array)
        return glimpse(array) + 0.01 * len(seen)

    monkeypatch.setattr(memory, "_glimpse", spoilt)
    with pytest.raises(ProbeError, match="the result is wrong"):
        cells_of(devices, label)[0].build()
