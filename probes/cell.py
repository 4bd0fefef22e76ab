"""A cell: one thing to measure, at one size, on one number of devices.

Each probe makes cells; the sweep builds them, warms them, and goes through them in random order.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from probes.context import Device
from probes.shards import place
from probes.timing import Program

AXIS = "devices"


class ProbeError(RuntimeError):
    """A program does not do what it was to measure, so no time of it is kept."""


class UnmeasurableError(ProbeError):
    """A backend cannot be made to do the work; its cell is left out, with a word."""


class OutOfMemoryError(ProbeError):
    """A program needs more memory than there is."""


@dataclass(frozen=True)
class Cell:
    """What a cell measures, in the columns of the table, and how to build it."""

    op: str
    devices: int
    build: Callable[[], Program]
    """Compiles and checks the program; its operands are made here too."""
    flops: float | None = None
    size_bytes: float | None = None
    moved_bytes: float | None = None
    injected_s: float | None = None
    chain: int = 1
    dtype: str = "float32"
    label: str = ""

    @property
    def name(self) -> str:
        """A few words for a progress bar."""
        return f"{self.op} on {self.devices}"

    def columns(self) -> dict[str, Any]:
        """The cell's share of each row."""
        return {
            "op": self.op,
            "devices": self.devices,
            "flops": self.flops,
            "size_bytes": self.size_bytes,
            "moved_bytes": self.moved_bytes,
            "injected_s": self.injected_s,
            "method": "single" if self.chain == 1 else f"chain {self.chain}",
            "dtype": self.dtype,
            "label": self.label,
        }


def mesh_of(devices: list[Device], count: int) -> jax.sharding.Mesh:
    """A line of the first so many devices."""
    return jax.make_mesh((count,), (AXIS,), devices=devices[:count])


def spread(array: np.ndarray, mesh: jax.sharding.Mesh) -> jax.Array:
    """The array with its first axis spread over the mesh."""
    return place(array, mesh, jax.P(AXIS))


def agrees(result: jax.Array, expected: np.ndarray, tolerance: float) -> bool:
    """Whether the shards that are here are those of the expected array, to a relative tolerance."""
    return all(
        np.allclose(np.asarray(shard.data), expected[shard.index], rtol=tolerance)
        for shard in result.addressable_shards
    )


@contextlib.contextmanager
def within_memory(cell: Cell) -> Iterator[None]:
    """Tell a program that runs out of memory from one that fails for another reason.

    Raises:
        OutOfMemoryError: there is not enough, on a device or for its host.
    """
    try:
        yield
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        # The status is the first word of XLA's message, and nothing else tells one from another.
        if isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        size = "" if cell.size_bytes is None else f" with an array of {cell.size_bytes:g} bytes"
        raise OutOfMemoryError(
            f"{cell.name} devices{size} runs out of memory; free some, or measure fewer sizes"
        ) from error


def require(holds: bool, cell: str, what: str) -> None:
    """Refuse a program that does not do its work."""
    if not holds:
        raise ProbeError(
            f"{cell}: {what}, so its time would be of something else; please report it with the "
            "versions of JAX and of the backend"
        )
