"""Matrix products: the sustained rate r of a device, and what launching a program costs.

Every device multiplies a matrix of its own, all at once, since a rate that holds only while the
others are idle is of no use. In a chain the product is the next operand, and the other operand is
orthogonal, so that values keep their size however long the chain.
"""

from functools import partial

import jax
import numpy as np

from probes.cell import AXIS, Cell, mesh_of, require, spread
from probes.context import Device
from probes.timing import Program, seconds_of, warm_up

_SMALLEST, _LARGEST = 256, 8_192
_LONG_ENOUGH = 0.01
_CHAIN = 4


def scout_side(devices: list[Device]) -> int:
    """The side of the first square matrix, doubling from 256, whose product takes 10 ms."""
    side = _SMALLEST
    while side < _LARGEST:
        program = _build(devices, 1, side, 1)
        warm_up(program)
        if min(seconds_of(program) for _ in range(3)) >= _LONG_ENOUGH:
            break
        side *= 2
    return side


def cells(devices: list[Device], counts: list[int], side: int) -> list[Cell]:
    """Products of the side, its half and its quarter, on each count of devices.

    Args:
        devices: where to run.
        counts: how many devices at once.
        side: of the largest matrix.
    """
    chains = [(side, 1), (side // 2, 1), (side // 4, 1), (side // 4, _CHAIN)]
    return [
        Cell(
            "matmul",
            count,
            partial(_build, devices, count, edge, chain),
            flops=2.0 * edge**3 * count,
            chain=chain,
            label=f"{edge} x {edge} x {edge} on each",
        )
        for count in counts
        for edge, chain in chains
    ]


def _build(devices: list[Device], count: int, side: int, chain: int) -> Program:
    mesh = mesh_of(devices, count)
    random = np.random.default_rng(side)
    left = np.broadcast_to(
        random.standard_normal((side, side), dtype=np.float32), (count, side, side)
    )
    mirror = random.standard_normal((side, 1), dtype=np.float32)
    orthogonal = np.eye(side, dtype=np.float32) - 2 * mirror * mirror.T / np.sum(mirror**2)
    operands = spread(left, mesh), spread(np.broadcast_to(orthogonal, left.shape), mesh)

    def chained(x: jax.Array, q: jax.Array) -> jax.Array:
        for _ in range(chain):
            x = x @ q
        return x

    mapped = jax.shard_map(chained, mesh=mesh, in_specs=jax.P(AXIS), out_specs=jax.P(AXIS))
    compiled = jax.jit(mapped).lower(*operands).compile()
    product = np.asarray(compiled(*operands))
    # An orthogonal factor keeps the norm of every row, to the rounding of side · chain additions.
    kept = np.linalg.norm(product, axis=-1) / np.linalg.norm(left, axis=-1)
    require(bool(np.allclose(kept, 1, atol=0.02)), f"matmul {side}", "the product is wrong")
    return partial(compiled, *operands)
