"""All-reduce: one `psum` over the devices, or a chain of them in one program.

Two lengths of chain tell the operation (their difference) from the launch (what is left). In a
chain each `psum` takes the last one's result, and two stand in each trip of the loop, since a loop
of one copies its carry. The compiled program is counted through: XLA removes a `psum` whose result
it can infer.
"""

from functools import partial

import jax
import numpy as np

from probes.cell import AXIS, Cell, count_in_program, mesh_of, require, spread
from probes.context import Device
from probes.timing import Program

_CHAIN = 8
_CHAINED_UP_TO = 2**16
_FLOAT = 4


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


def cells(devices: list[Device], counts: list[int], array_sizes: list[int]) -> list[Cell]:
    """All-reduces of each size on each count of devices from 2 up.

    Args:
        devices: where to run.
        counts: how many devices take part.
        array_sizes: bytes of the array that each device holds; small ones are also chained.
    """
    return [
        Cell(
            "all_reduce",
            count,
            partial(_build, devices, count, size, chain),
            size_bytes=float(size),
            chain=chain,
        )
        for count in counts
        if count > 1
        for size in array_sizes
        for chain in ((1, _CHAIN) if size <= _CHAINED_UP_TO else (1,))
    ]


def _build(devices: list[Device], count: int, size: int, chain: int) -> Program:
    mesh = mesh_of(devices, count)
    values = 1 + np.random.default_rng(size).random((count, size // _FLOAT), dtype=np.float32)
    operand = spread(values, mesh)

    def reduce(x: jax.Array) -> jax.Array:
        return jax.lax.pcast(jax.lax.psum(x, AXIS), AXIS, to="varying")

    def chained(x: jax.Array) -> jax.Array:
        if chain == 1:
            return reduce(x)
        return jax.lax.fori_loop(0, chain // 2, lambda _, carry: reduce(reduce(carry)), x)

    mapped = jax.shard_map(chained, mesh=mesh, in_specs=jax.P(AXIS), out_specs=jax.P(AXIS))
    compiled = jax.jit(mapped).lower(operand).compile()
    name = f"all_reduce of {size} B on {count}"
    found = count_in_program(compiled, "all-reduce")
    require(found >= min(chain, 2), name, f"the program holds {found} all-reduces")
    expected = values.sum(axis=0, dtype=np.float64) * float(count) ** (chain - 1)
    correct = np.allclose(np.asarray(compiled(operand)), expected, rtol=1e-4)
    require(bool(correct), name, "the sum is wrong")
    return partial(compiled, operand)
