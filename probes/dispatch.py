"""Dispatch: what a call of a program costs that does nothing, next to nothing, or calls back.

An empty program hands its operand through; a small one adds to eight numbers; a callback goes by
way of a Python function on the host. The difference to the first is what the others add. With
several devices each runs the program on its own eight numbers.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from probes.cell import AXIS, Cell, agrees, mesh_of, require, spread
from probes.context import Device
from probes.proof import count_in_program, instructions
from probes.timing import Program

_ELEMENTS = 8
_TOLERANCE = 1e-6
_IDLE = {"parameter", "copy", "tuple", "get-tuple-element", "bitcast"}
"""What an empty program may hold: its operand and the handing through."""

EMPTY, SMALL, CALLBACK = "empty", "add to 8 numbers", "callback to the host"


def cells(devices: list[Device], counts: list[int]) -> list[Cell]:
    """An empty and a small program on each count of devices, and a callback where one is asked for.

    Args:
        devices: where to run.
        counts: how many devices run the program.
    """
    planned = [(label, count) for count in counts for label in (EMPTY, SMALL)]
    planned += [(CALLBACK, count) for count in counts if count == 1]
    return [
        Cell("dispatch", count, partial(_build, devices, label, count), label=label)
        for label, count in planned
    ]


def _build(devices: list[Device], label: str, count: int) -> Program:
    mesh = mesh_of(devices, count)
    values = np.random.default_rng(count).random(_ELEMENTS * count, dtype=np.float32)
    operand = spread(values, mesh)
    calls: list[int] = []

    def on_host(x: jax.Array) -> np.ndarray:
        calls.append(1)
        return np.asarray(x) + np.float32(1)

    def body(x: jax.Array) -> jax.Array:
        if label == EMPTY:
            return x
        if label == SMALL:
            return x + jnp.float32(1)
        return jax.pure_callback(on_host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    mapped = jax.shard_map(body, mesh=mesh, in_specs=jax.P(AXIS), out_specs=jax.P(AXIS))
    # A callback's result is not known to differ between devices; one device needs no mapping.
    compiled = jax.jit(body if label == CALLBACK else mapped).lower(operand).compile()
    name = f"dispatch, {label}, on {count}"
    _require_work(compiled, label, name)
    result = compiled(operand)
    right = agrees(result, values + (label != EMPTY), _TOLERANCE)
    require(right, name, "the result is wrong")
    require(len(calls) == (label == CALLBACK), name, f"{len(calls)} calls came back to the host")
    return partial(compiled, operand)


def _require_work(compiled: jax.stages.Compiled, label: str, name: str) -> None:
    """Refuse a program that holds more, or less, than its label says."""
    if label == EMPTY:
        work = {found.opcode for found in instructions(compiled)} - _IDLE
        require(not work, name, f"the program is not empty but holds {', '.join(sorted(work))}")
    elif label == SMALL:
        found = count_in_program(compiled, "add")
        require(found == 1, name, f"the program runs {found} additions, not 1")
    else:
        found = count_in_program(compiled, "custom-call")
        require(found == 1, name, f"the program calls back {found} times, not once")
