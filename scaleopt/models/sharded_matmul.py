"""A matrix product on a mesh of r × c devices: two of its three matrices travel, one stays.

C = A B with A of m by k and B of k by n. With C at rest, A is gathered along the rows of the mesh
and B along its columns, in q panels that follow one another (SUMMA); with A at rest, B is gathered
and the partial sums of C are scattered; with B at rest, A and C travel. A device computes
2 m k n / (r c) FLOP whichever stays; which is best follows from which matrix is largest.

Source: R. van de Geijn, J. Watts, "SUMMA: scalable universal matrix multiplication algorithm",
Concurrency: Practice and Experience 9(4), 1997; Y. Xu et al., "GSPMD", 2021, for the three.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from scaleopt.models.checks import check_numbers
from scaleopt.models.collectives import all_gather_time
from scaleopt.models.products import Product
from scaleopt.models.workload import DeviceWork, Message, Operation, divisors
from scaleopt.units import Bytes, Count, CountedFlops, Scalar, Seconds, SecondsPerByte, real

STATIONARY = ("C", "A", "B")
"""Which matrix stays where it is."""
_CUT = (("mk", "kn"), ("mn", "kn"), ("km", "nm"))
"""For each of them which sides the rows of the mesh cut, and which its columns."""
_PANELS = (1, 2, 4, 8, 16, 32, 64)


def summa_time(
    left_bytes: Bytes,
    right_bytes: Bytes,
    rows: Count,
    columns: Count,
    alpha: Seconds,
    beta: SecondsPerByte,
    *,
    panels: Count = 1.0,
) -> Seconds:
    """Seconds that the operands of a product travel on a mesh, the result staying where it is.

    T = q (c − 1) α + ((c − 1)/c) β |A|/r + q (r − 1) α + ((r − 1)/r) β |B|/c

    Args:
        left_bytes: |A| [B], of the whole left operand.
        right_bytes: |B| [B], of the whole right operand.
        rows: r, of the mesh.
        columns: c, of the mesh.
        alpha: α [s], time of an empty message.
        beta: β [s/B], inverse of the bandwidth of one device in one direction.
        panels: q, into which the operands are cut.

    Returns:
        T [s].

    >>> f"{summa_time(1e9, 1e9, 4, 4, 1e-5, 1 / 25e9) * 1e3:.2f} ms"
    '15.06 ms'

    Source: as the module.
    """
    left, right, rows, columns, panels = real(left_bytes, right_bytes, rows, columns, panels)
    across = all_gather_time(left / rows / panels, columns, alpha, beta)
    down = all_gather_time(right / columns / panels, rows, alpha, beta)
    return panels * (across + down)


class MatmulGrid(NamedTuple):
    """A mesh of devices and what stays on it; a row's devices are next to each other."""

    rows: Count = 1
    columns: Count = 1
    panels: Count = 1
    """q; 1 unless C stays."""
    stationary: Scalar = 0
    """Place of the matrix that stays in `STATIONARY`."""

    @property
    def devices(self) -> Count:
        """N = r c."""
        return self.rows * self.columns

    @property
    def kind(self) -> tuple[Any, ...]:
        """The mesh and what stays on it, in however many panels."""
        return self.rows, self.columns, self.stationary

    def __str__(self) -> str:
        parts = f"{self.rows} × {self.columns} mesh", f"{STATIONARY[int(self.stationary)]} at rest"
        return " · ".join([*parts, f"{self.panels} panels"] if self.panels != 1 else parts)


class ShardedMatmul(eqx.Module):
    """Products of m by k with k by n matrices, as the numbers that give their counts.

    Args:
        m: rows of A and C.
        k: columns of A, rows of B.
        n: columns of B and C.
        item_bytes: [B], of a number.
        products: how many such products a step has, one after another.

    Raises:
        ValueError: a size below 1, or that is no whole number.

    >>> product = ShardedMatmul(m=8192, k=8192, n=32768)
    >>> work = product.work(MatmulGrid(4, 2))
    >>> [f"{sent.size / 1e6:.0f} MB" for sent in work.messages["operands"]]
    ['34 MB', '268 MB']

    Source: as the module.
    """

    m: Count
    k: Count
    n: Count
    item_bytes: Bytes = 2.0
    products: Count = 1

    def __check_init__(self) -> None:
        """Refuse impossible numbers as they are written; traced values pass."""
        for name in ("m", "k", "n", "products"):
            value = getattr(self, name)
            if isinstance(value, (int, float)) and not (value >= 1 and value % 1 == 0):
                raise ValueError(
                    f"ShardedMatmul: {name} is {value}; it must be a whole number above 0"
                )
        check_numbers(self, {"m": 1, "k": 1, "n": 1, "products": 1})
        check_numbers(self, {"item_bytes": 0.0}, above=True)

    @property
    def sample_flops(self) -> CountedFlops:
        """FLOP of a step: 2 m k n for each product."""
        m, k, n, products = real(self.m, self.k, self.n, self.products)
        return 2 * m * k * n * products

    def splits(self, devices: int, samples: int | None, node_size: int) -> Iterator[MatmulGrid]:
        """Every mesh that divides the sides it cuts, each matrix at rest, C in up to 64 panels."""
        if samples is not None:
            raise ValueError("global_batch is given, and a product has no samples; leave it out")
        sides = {name: int(getattr(self, name)) for name in "mkn"}
        for rows in divisors(devices):
            columns = devices // rows
            for stationary, (by_rows, by_columns) in enumerate(_CUT):
                if any(sides[side] % rows for side in by_rows):
                    continue
                if any(sides[side] % columns for side in by_columns):
                    continue
                if devices == 1 and stationary:
                    continue  # nothing travels, whichever stays
                if devices == 1 or stationary:
                    yield MatmulGrid(rows, columns, 1, stationary)
                    continue
                for panels in _PANELS:
                    if sides["k"] % (panels * max(rows, columns)) == 0:
                        yield MatmulGrid(rows, columns, panels, stationary)

    def samples(self, split: MatmulGrid) -> Count:
        """One: the step itself."""
        return 1.0

    def _sizes(self, split: MatmulGrid) -> tuple[Array, ...]:
        """Bytes of A and of C in a row of the mesh, of B and of C in a column; all that travel.

        Those that stay are 0, and with them their messages.
        """
        m, k, n, item = real(self.m, self.k, self.n, self.item_bytes)
        rows, columns, _, stays = real(*split)
        a, b, c = (item * area for area in (m * k, k * n, m * n))
        across, down = columns > 1, rows > 1
        return (
            jnp.where((stays != 1) & across, a / rows, 0.0),
            jnp.where((stays == 1) & across, c / rows, 0.0),
            jnp.where((stays != 2) & down, b / columns, 0.0),
            jnp.where((stays == 2) & down, c / columns, 0.0),
        )

    def work(self, split: MatmulGrid) -> DeviceWork:
        """What a device does in a step."""
        m, k, n, products = real(self.m, self.k, self.n, self.products)
        rows, columns, panels, stays = real(*split)
        left, result, right, summed = self._sizes(split)

        def sent(operation: Operation, size: Array, group: Array, stride: Scalar) -> Message:
            times = products * panels * (size > 0)
            return Message(operation, size / panels, group, stride, times)

        shared = jnp.where(stays == 2, k / rows, k / panels)
        inner = jnp.where(stays == 1, k / columns, shared)
        outer = jnp.where(stays == 1, n, n / columns)
        return DeviceWork(
            devices=split.devices,
            products=(Product(2 * m * k * n * products / (rows * columns), inner, outer),),
            messages={
                "operands": (
                    sent("all_gather", left, columns, 1),
                    sent("all_gather", right, rows, columns),
                ),
                "partial sums": (
                    sent("reduce_scatter", result, columns, 1),
                    sent("reduce_scatter", summed, rows, columns),
                ),
            },
        )

    def memory(self, split: MatmulGrid) -> dict[str, Bytes]:
        """Bytes that a device holds: its parts of the matrices, and what has been gathered."""
        m, k, n, item = real(self.m, self.k, self.n, self.item_bytes)
        rows, columns, panels, _ = real(*split)
        return {
            "matrices": item * (m * k + k * n + m * n) / (rows * columns),
            "working": sum(self._sizes(split), jnp.zeros(())) / panels,
        }
