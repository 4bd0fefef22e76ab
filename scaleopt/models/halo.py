"""Simulations on a grid that is cut into blocks: each exchanges the cells at its faces.

With N devices and n cells a cubic block has n/N of them, and a face (n/N)^((D−1)/D): compute goes
with the volume, messages with the surface. Here the blocks need not be cubes: the grid is cut into
x · y · z of them, as even as it goes, and the largest block is the one that all wait for.

Source: W. Gropp, E. Lusk, A. Skjellum, "Using MPI", 1994, chapter 4; I. Foster, "Designing and
Building Parallel Programs", 1995, section 3.4.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from scaleopt.models.checks import check_numbers
from scaleopt.models.workload import DeviceWork, Message, divisors, plain_flops
from scaleopt.units import Bytes, Count, Flops, Scalar, Seconds, SecondsPerByte, real

_AXES = ("x", "y", "z")
_UNEVEN = 2
"""How many times as far a grid may grow along one side as along another."""


def halo_time(
    cells: Count,
    devices: Count,
    cell_bytes: Bytes,
    alpha: Seconds,
    beta: SecondsPerByte,
    *,
    width: Count = 1.0,
    dimensions: int = 3,
) -> Seconds:
    """Seconds in which each block exchanges the faces with its neighbours, blocks being cubes.

    T = 2 D (α + β w s (n/N)^((D − 1)/D)),  and 0 on one device

    Args:
        cells: n, of the whole grid.
        devices: N, number of blocks.
        cell_bytes: s [B], sent of one cell.
        alpha: α [s], time of an empty message.
        beta: β [s/B], inverse of the bandwidth of one device in one direction.
        width: w, layers of cells that a neighbour needs.
        dimensions: D, 1 to 3.

    Returns:
        T [s].

    >>> [f"{1e6 * halo_time(512**3, n, 40.0, 2e-6, 1e-10):.0f} µs" for n in (1, 8, 64)]
    ['0 µs', '1585 µs', '405 µs']

    Source: as the module.
    """
    cells, devices, size, alpha, beta, width = real(cells, devices, cell_bytes, alpha, beta, width)
    face = width * size * (cells / devices) ** ((dimensions - 1) / dimensions)
    return jnp.where(devices > 1, 2 * dimensions * (alpha + beta * face), 0.0)


class Blocks(NamedTuple):
    """Into how many blocks each side of the grid is cut; x is innermost among the ranks."""

    x: Count = 1
    y: Count = 1
    z: Count = 1

    @property
    def devices(self) -> Count:
        """N = x y z."""
        return self.x * self.y * self.z

    @property
    def kind(self) -> tuple[Any, ...]:
        """The cuts, whichever sides they are of."""
        return tuple(sorted(self))

    def __str__(self) -> str:
        return f"{self.x} × {self.y} × {self.z} blocks"


class Halo(eqx.Module):
    """A simulation on a grid, as the numbers that give its counts; a sample is a cell's update.

    Args:
        grid: cells along each of one, two or three sides; of one device's block where `weak`.
        cell_flops: [FLOP], of one cell in a step.
        cell_bytes: [B], that a cell's state holds.
        sent_bytes: [B], of one cell at each exchange.
        moved_bytes: [B], through memory for one cell in a step, while it is computed.
        width: w, layers of cells that a neighbour needs.
        exchanges: how often a step, such as once for each stage of a time integrator.
        reductions: all-reduces of a few numbers in a step, such as dot products or a residual.
        periodic: whether the grid is joined at its ends.
        overlapped: whether the inside of a block is computed while its faces travel.
        weak: whether the grid grows with the devices, each with a block of this size, along all
            its sides as evenly as may be, and at most twice as far along one as along another.

    Raises:
        ValueError: no sides, more than three, or a number that cannot be.

    >>> halo = Halo(grid=(512, 512, 512), cell_flops=1000.0, cell_bytes=160.0, sent_bytes=40.0)
    >>> for message in halo.work(Blocks(4, 4, 4)).messages["halo"]:
    ...     print(f"{message.times:.0f} × {message.size / 1e3:.0f} kB, {message.stride:.0f} apart")
    2 × 655 kB, 1 apart
    2 × 655 kB, 4 apart
    2 × 655 kB, 16 apart

    Source: as the module.
    """

    grid: tuple[Count, ...]
    cell_flops: Flops
    cell_bytes: Bytes
    sent_bytes: Bytes
    moved_bytes: Bytes = 0.0
    width: Count = 1
    exchanges: Scalar = 1
    reductions: Scalar = 0
    periodic: bool = eqx.field(static=True, default=True)
    overlapped: bool = eqx.field(static=True, default=False)
    weak: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        """Refuse impossible numbers as they are written; traced values pass."""
        if not isinstance(self.grid, (tuple, list)):
            raise TypeError(f"Halo: grid is {self.grid!r}; give its sides, as (512, 512, 512)")
        if not 1 <= len(self.grid) <= len(_AXES):
            raise ValueError(f"Halo: grid has {len(self.grid)} sides; give one, two or three")
        for side in self.grid:
            if isinstance(side, str):
                raise TypeError(f"Halo: a side of {side!r} cells; give a number")
            if isinstance(side, (int, float)) and not (side >= 1 and side % 1 == 0):
                raise ValueError(f"Halo: a side of {side} cells; it must be a whole number above 0")
        check_numbers(self, {"cell_flops": 0.0}, above=True)
        sizes = dict.fromkeys(("cell_bytes", "sent_bytes", "moved_bytes"), 0.0)
        check_numbers(self, sizes | {"width": 1, "exchanges": 0, "reductions": 0})

    @property
    def sample_flops(self) -> Flops:
        """FLOP of one cell."""
        return self.cell_flops

    def splits(self, devices: int, samples: int | None, node_size: int) -> Iterator[Blocks]:
        """Every x y z = N whose blocks are at least as thick as a halo and none of them empty."""
        if samples is not None:
            raise ValueError(
                "global_batch is given, and a step of a simulation updates the cells of its grid; "
                "leave it out"
            )
        sides = [int(side) for side in self.grid]
        sides += [1] * (len(_AXES) - len(sides))
        cuts = divisors(devices)
        if self.weak:
            grown = [side > 1 and side >= int(self.width) for side in sides]
            yield from _evenly(devices, cuts, grown)
            return
        first, second, third = (_into(side, int(self.width), cuts) for side in sides)
        for x in first:
            rest = devices // x
            for y in second:
                if rest % y == 0 and rest // y in third:
                    yield Blocks(x, y, rest // y)

    def samples(self, split: Blocks) -> Count:
        """Cells of the whole grid."""
        cells = 1.0
        for side in self.grid:
            cells = cells * side
        return cells * split.devices if self.weak else cells

    def block(self, split: Blocks) -> list[Array]:
        """Cells along each side of the largest block."""
        cuts = real(*split)
        sides = [*real(*self.grid), *(jnp.ones(()) for _ in range(len(_AXES) - len(self.grid)))]
        if self.weak:
            return sides
        return [jnp.ceil(side / cut) for side, cut in zip(sides, cuts, strict=True)]

    def work(self, split: Blocks) -> DeviceWork:
        """What the device with the largest block does in a step."""
        sides, cuts = self.block(split), real(*split)
        cells, stride, halo = sides[0] * sides[1] * sides[2], jnp.ones(()), []
        for side, cut in zip(sides, cuts, strict=True):
            # A block in the midst has two neighbours on each side that is cut, one at an open end.
            neighbours = jnp.where(cut > 1, 2.0, 0.0)
            if not self.periodic:
                neighbours = jnp.minimum(cut - 1, 2.0)
            size, times = self.width * self.sent_bytes * cells / side, self.exchanges * neighbours
            halo.append(Message("send", size, cut, stride, times, behind=self.overlapped))
            stride = stride * cut
        number = Message("all_reduce", 8.0, split.devices, 1, self.reductions)
        return DeviceWork(
            devices=split.devices,
            products=(plain_flops(cells * self.cell_flops),),
            moved=cells * self.moved_bytes,
            messages={"halo": tuple(halo), "reductions": (number,)},
            streamed=True,
        )

    def memory(self, split: Blocks) -> dict[str, Bytes]:
        """Bytes that a device holds: its block, and its neighbours' cells about it."""
        sides, cuts = self.block(split), real(*split)
        inner, outer = jnp.ones(()), jnp.ones(())
        for side, cut in zip(sides, cuts, strict=True):
            inner = inner * side
            outer = outer * (side + jnp.where(cut > 1, 2.0 * self.width, 0.0))
        return {"cells": inner * self.cell_bytes, "halo": (outer - inner) * self.cell_bytes}


def _into(side: int, width: int, cuts: list[int]) -> dict[int, None]:
    """The cuts of a side that leave every block something, and as much as a halo needs.

    Blocks of ⌈side / cut⌉ cells may fill a side with fewer of them.
    """
    return {
        cut: None
        for cut in cuts
        if cut == 1 or (cut * width <= side and -(-side // -(-side // cut)) == cut)
    }


def _evenly(devices: int, cuts: list[int], grown: list[bool]) -> list[Blocks]:
    """How a grid grows with its blocks: along all its sides alike, as far as divisors go.

    Where it would grow too unevenly there is no split.
    """
    alike = devices ** (1 / max(sum(grown), 1))
    # The geometric mean of the cuts is no farther from any of them than their spread.
    near = [cut for cut in cuts if alike / _UNEVEN < 1.01 * cut < 1.1 * _UNEVEN * alike]
    first, second = (near if grows else [1] for grows in grown[:2])
    found = [
        Blocks(x, y, devices // (x * y))
        for x in first
        for y in second
        if devices % (x * y) == 0 and (grown[2] or x * y == devices)
    ]

    def spread(cut: Blocks) -> float:
        used = [count for count, grows in zip(cut, grown, strict=True) if grows]
        return float(max(used) / min(used)) if used else 1.0

    least = min(map(spread, found), default=1.0)
    return [cut for cut in found if spread(cut) == least <= _UNEVEN]
