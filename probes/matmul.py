"""Matrix products: the sustained rate r of a device, and what launching a program costs.

Every device multiplies a matrix of its own, all at once, since a rate that holds only while the
others are idle is of no use. The product has the shape of the left factor, so in a chain it is the
next one. The right factor reflects and shifts the columns: being orthogonal it keeps the values'
size however long the chain, and what a chain must give is known without a product. Square products
in single precision tell the rate; few rows or few columns, where memory is the limit, and half
precision are a survey's.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from probes.cell import AXIS, Cell, mesh_of, require, spread
from probes.context import Device
from probes.proof import matrix_products
from probes.shards import local
from probes.timing import Program, seconds_of, warm_up

_SMALLEST, _LARGEST = 256, 8_192
_LONG_ENOUGH = 0.01
_CHAIN = 4
_FEW = 16
_TOLERANCE = 0.02
"""Of the norm: half precision loses 0.4 % a product, and a product left out misses by it all."""


class Product(NamedTuple):
    """A matrix of so many rows, times a square one."""

    rows: int
    edge: int
    dtype: str = "float32"

    @property
    def flops(self) -> float:
        """A multiplication and an addition for each row and element of the square factor."""
        return 2.0 * self.rows * self.edge**2

    @property
    def moved_bytes(self) -> float:
        """Both factors read and the product written."""
        return float(jnp.dtype(self.dtype).itemsize * self.edge * (2 * self.rows + self.edge))

    def __str__(self) -> str:
        return f"{self.rows} x {self.edge} x {self.edge} on each"


def scout_side(devices: list[Device]) -> int:
    """The side of the first square matrix, doubling from 256, whose product takes 10 ms."""
    side = _SMALLEST
    while side < _LARGEST:
        program = _build(devices, 1, Product(side, side), 1)
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
        _cell(devices, count, Product(edge, edge), chain)
        for count in counts
        for edge, chain in chains
    ]


def survey_cells(devices: list[Device], counts: list[int], side: int) -> list[Cell]:
    """Products in half precision, and with few rows or few columns, on each count of devices.

    They do not reach the rate of square products in single precision, so one rate does not explain
    them all. Those with few rows or columns tell in `moved_bytes` what memory moves for them.

    Args:
        devices: where to run.
        counts: how many devices at once.
        side: of the largest square matrix.
    """
    half = [(Product(edge, edge, "bfloat16"), 1) for edge in (side, side // 4)]
    skinny = [
        (product, chain)
        for dtype in ("float32", "bfloat16")
        for product in (Product(_FEW, side, dtype), Product(side * side // _FEW**2, _FEW, dtype))
        for chain in (1, _CHAIN)
    ]
    return [
        _cell(devices, count, product, chain)
        for count in counts
        for product, chain in half + skinny
    ]


def _cell(devices: list[Device], count: int, product: Product, chain: int) -> Cell:
    square = product.rows == product.edge
    return Cell(
        "matmul",
        count,
        partial(_build, devices, count, product, chain),
        flops=product.flops * count,
        moved_bytes=None if square else product.moved_bytes * count,
        chain=chain,
        dtype=product.dtype,
        label=str(product),
    )


def _build(devices: list[Device], count: int, product: Product, chain: int) -> Program:
    mesh = mesh_of(devices, count)
    random = np.random.default_rng(product.edge)
    left = random.standard_normal((product.rows, product.edge), dtype=np.float32)
    mirror = random.standard_normal(product.edge, dtype=np.float32)
    mirror /= np.linalg.norm(mirror)
    turned = np.roll(np.eye(product.edge) - 2 * np.outer(mirror, mirror), 1, axis=1)
    left, turned = (matrix.astype(jnp.dtype(product.dtype)) for matrix in (left, turned))
    operands = [spread(np.broadcast_to(m, (count, *m.shape)), mesh) for m in (left, turned)]

    def chained(x: jax.Array, q: jax.Array) -> jax.Array:
        for _ in range(chain):
            x = x @ q
        return x

    mapped = jax.shard_map(chained, mesh=mesh, in_specs=jax.P(AXIS), out_specs=jax.P(AXIS))
    compiled = jax.jit(mapped).lower(*operands).compile()
    name = f"matmul {product} in {product.dtype}"
    found = matrix_products(compiled)
    require(found == chain, name, f"the program runs {found} products, not {chain}")
    expected = _turned(left.astype(np.float32), mirror, chain)
    missed = np.linalg.norm(local(compiled(*operands)).astype(np.float32) - expected, axis=(1, 2))
    correct = np.all(missed < _TOLERANCE * np.linalg.norm(expected))
    require(bool(correct), name, "the product is wrong")
    return partial(compiled, *operands)


def _turned(matrix: np.ndarray, mirror: np.ndarray, times: int) -> np.ndarray:
    """The matrix reflected in the mirror and shifted by a column, so many times."""
    for _ in range(times):
        matrix = np.roll(matrix - 2 * np.outer(matrix @ mirror, mirror), 1, axis=1)
    return matrix
