"""A cell: one thing to measure, at one size, on one number of devices.

Each probe makes cells; the sweep builds them, warms them, and goes through them in random order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from probes.context import Device
from probes.timing import Program

AXIS = "devices"


class ProbeError(RuntimeError):
    """A program does not do what it was to measure, so no time of it is kept."""


@dataclass(frozen=True)
class Cell:
    """What a cell measures, in the columns of the table, and how to build it."""

    op: str
    devices: int
    build: Callable[[], Program]
    """Compiles and checks the program; its operands are made here too."""
    flops: float | None = None
    size_bytes: float | None = None
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
            "nodes": 1,
            "flops": self.flops,
            "size_bytes": self.size_bytes,
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
    return jax.device_put(array, jax.NamedSharding(mesh, jax.P(AXIS)))


def count_in_program(compiled: jax.stages.Compiled, operation: str) -> int:
    """How often an operation stands in the compiled program, started asynchronously or not."""
    text = compiled.as_text() or ""
    return text.count(f" {operation}(") + text.count(f" {operation}-start(")


def require(holds: bool, cell: str, what: str) -> None:
    """Refuse a program that does not do its work."""
    if not holds:
        raise ProbeError(
            f"{cell}: {what}, so its time would be of something else; please report it with the "
            "versions of JAX and of the backend"
        )
