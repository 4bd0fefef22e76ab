"""Collectives: one of them over the devices, or a chain of them in one program.

Two lengths of chain tell the operation (their difference) from the launch (what is left). In a
chain each operation takes the last one's result, and two stand in each trip of the loop, since a
loop of one copies its carry. Where the result has another shape than the operand, its share that
goes on is cut out or put back, M/N bytes moved on the device itself: after an all-gather a device
goes on with its neighbour's share, after a reduce-scatter its share of the sum replaces that of the
operand. The compiled program is counted through: XLA removes a collective whose result it can
infer. Each sample waits for its result, so no more than one program is in flight.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array, lax

from probes.cell import AXIS, Cell, agrees, mesh_of, require, spread
from probes.context import Device
from probes.proof import count_in_program
from probes.timing import Program

_CHAIN = 8
_CHAINED_UP_TO = 2**16
_FLOAT = 4
_TOLERANCE = 1e-4


def _all_reduce(x: Array) -> Array:
    return lax.pcast(lax.psum(x, AXIS), AXIS, to="varying")


def _all_gather(x: Array) -> Array:
    return lax.all_gather(x, AXIS, tiled=True)


def _neighbours_share(gathered: Array, x: Array) -> Array:
    neighbour = (lax.axis_index(AXIS) + 1) % lax.axis_size(AXIS)
    return lax.dynamic_slice(gathered, (neighbour * x.shape[0],), x.shape)


def _reduce_scatter(x: Array) -> Array:
    return lax.psum_scatter(x, AXIS, tiled=True)


def _put_back(share: Array, x: Array) -> Array:
    return lax.dynamic_update_slice(x, share, (lax.axis_index(AXIS) * share.shape[0],))


def _put_back_by_hand(shares: np.ndarray, rows: np.ndarray) -> np.ndarray:
    count = len(rows)
    blocks = rows.reshape(count, count, -1).copy()
    blocks[np.arange(count), np.arange(count)] = shares
    return blocks.reshape(rows.shape)


def _all_to_all(x: Array) -> Array:
    blocks = x.reshape(lax.axis_size(AXIS), -1)
    return lax.all_to_all(blocks, AXIS, 0, 0, tiled=True).reshape(-1)


def _permute(x: Array) -> Array:
    count = lax.axis_size(AXIS)
    return lax.ppermute(x, AXIS, [(n, (n + 1) % count) for n in range(count)])


def _result(result: Any, _: object) -> Any:
    return result


class Collective(NamedTuple):
    """A collective operation, and the same by NumPy on a matrix with a row for each device."""

    instruction: str
    """What XLA calls it."""
    held: int
    """Each device holds the full array (0) or its N-th part (1) before."""
    parts: int
    """What it holds must divide into this power of N."""
    once: Callable[[Array], Array]
    by_hand: Callable[[np.ndarray], np.ndarray]
    onward: Callable[..., Array] = _result
    """The next operand, of the result and the operand."""
    onward_by_hand: Callable[..., np.ndarray] = _result


COLLECTIVES = {
    "all_reduce": Collective(
        "all-reduce", 0, 0, _all_reduce, lambda rows: np.broadcast_to(rows.sum(axis=0), rows.shape)
    ),
    "all_gather": Collective(
        "all-gather",
        1,
        0,
        _all_gather,
        lambda rows: np.tile(rows.reshape(-1), (len(rows), 1)),
        _neighbours_share,
        lambda _, rows: np.roll(rows, -1, axis=0),
    ),
    "reduce_scatter": Collective(
        "reduce-scatter",
        0,
        1,
        _reduce_scatter,
        lambda rows: rows.sum(axis=0).reshape(len(rows), -1),
        _put_back,
        _put_back_by_hand,
    ),
    "all_to_all": Collective(
        "all-to-all",
        1,
        1,
        _all_to_all,
        lambda rows: rows.reshape(len(rows), len(rows), -1).swapaxes(0, 1).reshape(rows.shape),
    ),
    "permute": Collective(
        "collective-permute", 1, 0, _permute, lambda rows: np.roll(rows, 1, axis=0)
    ),
}
"""Every collective that is measured, under its name in the table."""


def sizes(largest: int, factor: int) -> list[int]:
    """Bytes of the arrays: from 4 up to the largest, each `factor` times the last.

    >>> sizes(2**20, 64)
    [4, 256, 16384, 1048576]
    """
    size, found = _FLOAT, []
    while size <= largest:
        found.append(size)
        size *= factor
    return found


def cells(
    devices: list[Device],
    counts: list[int],
    array_sizes: list[int],
    *,
    ops: Iterable[str] = tuple(COLLECTIVES),
) -> list[Cell]:
    """Collectives of each size on each count of devices from 2 up.

    Args:
        devices: where to run.
        counts: how many devices take part.
        array_sizes: bytes of the full array, each rounded up to what divides among the devices;
            small ones are also chained.
        ops: which of `COLLECTIVES`.
    """
    return [
        Cell(
            op,
            count,
            partial(_build, devices, op, count, size, chain),
            size_bytes=float(size),
            chain=chain,
        )
        for op in ops
        for count in counts
        if count > 1
        for size in _divisible(array_sizes, op, count)
        for chain in ((1, _CHAIN) if size <= _CHAINED_UP_TO else (1,))
    ]


def _divisible(array_sizes: list[int], op: str, count: int) -> list[int]:
    """The sizes rounded up to what divides among the devices; equal ones once."""
    least = _FLOAT * count ** (COLLECTIVES[op].held + COLLECTIVES[op].parts)
    return sorted({-(-size // least) * least for size in array_sizes})


def _build(devices: list[Device], op: str, count: int, size: int, chain: int) -> Program:
    mesh, collective = mesh_of(devices, count), COLLECTIVES[op]
    elements = size // _FLOAT // count**collective.held
    values = 1 + np.random.default_rng(size).random((count, elements), dtype=np.float32)
    operand = spread(values.reshape(-1), mesh)
    compiled = _compile(collective, mesh, operand, chain)
    name = f"{op} of {size} B on {count}"
    found = count_in_program(compiled, collective.instruction, chain // 2)
    require(found == chain, name, f"the program runs {found} {collective.instruction}, not {chain}")
    expected = _by_hand(collective, values.astype(np.float64), chain)
    correct = agrees(compiled(operand), expected.reshape(-1), _TOLERANCE)
    require(correct, name, "the result is wrong")
    return partial(compiled, operand)


def _compile(
    collective: Collective, mesh: jax.sharding.Mesh, operand: Array, chain: int
) -> jax.stages.Compiled:
    def step(x: Array) -> Array:
        return collective.onward(collective.once(x), x)

    def program(x: Array) -> Array:
        if chain == 1:
            return collective.once(x)
        return lax.fori_loop(0, chain // 2, lambda _, carry: step(step(carry)), x)

    mapped = jax.shard_map(program, mesh=mesh, in_specs=jax.P(AXIS), out_specs=jax.P(AXIS))
    return jax.jit(mapped).lower(operand).compile()


def _by_hand(collective: Collective, rows: np.ndarray, chain: int) -> np.ndarray:
    if chain == 1:
        return collective.by_hand(rows)
    for _ in range(chain):
        rows = collective.onward_by_hand(collective.by_hand(rows), rows)
    return rows
