"""Transfers: an array from the host to a device, and back, by size.

On CPU devices JAX copies neither way where it need not: an aligned array becomes the device's, and
a result is shown where it lies. So the source here is never aligned, and where the host is only
shown the device's memory, its bytes are copied into an array of the host. A cell that cannot be
made to copy is left out. On the way to a CPU device the copy lands in new memory, which the system
maps when it is first touched: that is part of the price.
"""

from collections.abc import Callable
from functools import partial

import jax
import numpy as np

from probes.cell import Cell, UnmeasurableError, require
from probes.context import Device
from probes.timing import Program

_FLOAT = 4
_ALIGNED = 64
"""Bytes; JAX takes over an array of the host that begins at a multiple of them."""
_CHANGED = np.float32(-1)


def cells(devices: list[Device], array_sizes: list[int]) -> list[Cell]:
    """Copies of arrays of each size to the first device of this process, and back.

    Args:
        devices: where to run.
        array_sizes: bytes of the array.
    """
    here = next(device for device in devices if device.process_index == jax.process_index())
    ways: dict[str, Callable[[Device, int], Program]] = {
        "to_device": _build_to,
        "from_device": _build_from,
    }
    return [
        Cell(op, 1, partial(build, here, size), size_bytes=float(size), moved_bytes=float(size))
        for op, build in ways.items()
        for size in array_sizes
    ]


def unaligned(size: int) -> np.ndarray:
    """Random numbers of so many bytes, at an address that is not a multiple of 64."""
    raw = np.empty(size + 2 * _ALIGNED, np.uint8)
    begin = -raw.ctypes.data % _ALIGNED + _FLOAT
    array = raw[begin : begin + size].view(np.float32)
    array[:] = np.random.default_rng(size).random(array.size, dtype=np.float32)
    return array


def _build_to(device: Device, size: int) -> Program:
    source = unaligned(size)
    require_copy_to(source, device, f"to_device of {size} B")
    return partial(jax.device_put, source, device)


def _build_from(device: Device, size: int) -> Program:
    array = jax.device_put(unaligned(size), device)
    target = np.empty(size // _FLOAT, np.float32)

    def read() -> np.ndarray:
        # JAX keeps what an array has once read; one made anew around the same memory reads again.
        anew = jax.make_array_from_single_device_arrays(array.shape, array.sharding, [array])
        return np.asarray(anew)

    def read_and_copy() -> np.ndarray:
        np.copyto(target, read())
        return target

    program = read_and_copy if np.may_share_memory(read(), np.asarray(array)) else read
    require_copy_from(program, array, f"from_device of {size} B")
    return program


def require_copy_to(source: np.ndarray, device: Device, name: str) -> None:
    """Refuse a transfer after which the device still sees the host's array.

    Args:
        source: what is sent; it is changed and changed back.
        device: where to.
        name: what to call the cell.

    Raises:
        UnmeasurableError: the device shares the host's memory.
        ProbeError: what arrives is not what was sent.
    """
    sent = source.copy()
    array = jax.block_until_ready(jax.device_put(source, device))
    source[0] = _CHANGED
    shared = bool(np.asarray(array)[0] == _CHANGED)
    source[0] = sent[0]
    if shared:
        raise UnmeasurableError(f"{name}: the device shares the array of the host; no copy is made")
    require(np.array_equal(np.asarray(array), sent), name, "what arrives is not what was sent")


def require_copy_from(program: Program, array: jax.Array, name: str) -> None:
    """Refuse a program that only shows the host the device's memory.

    Args:
        program: brings the array to the host.
        array: what is on the device.
        name: what to call the cell.

    Raises:
        UnmeasurableError: the host shares the device's memory.
        ProbeError: what arrives is not what was sent.
    """
    arrived, there = program(), np.asarray(array)
    if np.may_share_memory(arrived, there):
        raise UnmeasurableError(f"{name}: the host shares the array of the device; no copy is made")
    require(np.array_equal(arrived, there), name, "what arrives is not what was sent")
