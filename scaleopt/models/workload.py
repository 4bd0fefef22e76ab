"""What a planner must know of work that is no transformer: what a device computes, moves, sends.

A workload lists the ways in which it can be split over N devices, and counts for each what a device
does in a step and what it holds. It knows no machine; `scaleopt.models.workload_time` turns the
counts into seconds. `DataParallel`, `Halo` and `ShardedMatmul` are three; another one is any class
with the same five members.

Ranks of a group lie `stride` apart, as in `scaleopt.models.parallelism`: the axis with stride 1 is
innermost, and its members are the first to share a node.
"""

from collections.abc import Iterator
from typing import Any, Literal, Protocol, get_args

import equinox as eqx
import jax.numpy as jnp

from scaleopt.models.products import Product
from scaleopt.units import Bytes, Count, CountedFlops, Scalar

Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"]
"""What a message may be: a collective of its group, or from each device to a neighbour."""
OPERATIONS = get_args(Operation)


class Message(eqx.Module):
    """Bytes that a device passes on in a step.

    Args:
        operation: which; "send" is from each device of the group to the next.
        size: M [B], bytes of the full, unsharded array; of one message for "send".
        group: devices that take part.
        stride: how many ranks apart they are.
        times: how often a step.
        behind: whether it may hide behind compute.
    """

    operation: Operation = eqx.field(static=True)
    size: Bytes
    group: Count = 1
    stride: Count = 1
    times: Scalar = 1
    behind: bool = eqx.field(static=True, default=False)


class DeviceWork(eqx.Module):
    """What the busiest device does in a step."""

    devices: Count
    """N, of the whole split."""
    products: tuple[Product, ...]
    """Its FLOP, with the edges of its products where these are known."""
    moved: Bytes = 0.0
    """Through its memory."""
    messages: dict[str, tuple[Message, ...]] = eqx.field(default_factory=dict)
    """By what they are called in a breakdown."""
    rounds: Scalar = 0
    """Micro-batches; 0 where there is no such thing."""
    last: bool = eqx.field(static=True, default=False)
    """Whether messages hide behind the last round alone."""
    streamed: bool = eqx.field(static=True, default=False)
    """Whether bytes move while it computes, as in a stencil, and not in kernels of their own."""


class Split(Protocol):
    """One way to split a workload: a named tuple of numbers, whose text says it in a line."""

    @property
    def devices(self) -> Count:
        """N."""
        ...

    @property
    def kind(self) -> tuple[Any, ...]:
        """What it shares with those that are no alternatives to it."""
        ...

    def _asdict(self) -> dict[str, Any]: ...


class Workload(Protocol):
    """Work that can be planned; its numbers are the leaves of a pytree."""

    @property
    def sample_flops(self) -> CountedFlops:
        """FLOP of one sample, nothing counted twice: an image, a cell, a product."""
        ...

    def splits(self, devices: int, samples: int | None, node_size: int) -> Iterator[Any]:
        """Every way to split a step over so many devices, in an order that is always the same.

        Args:
            devices: N.
            samples: of a step; None where the workload has its own.
            node_size: devices of a node.
        """
        ...

    def samples(self, split: Any) -> Count:
        """Samples of a step."""
        ...

    def work(self, split: Any) -> DeviceWork:
        """What a device does in a step; each number of the split may be an array."""
        ...

    def memory(self, split: Any) -> dict[str, Bytes]:
        """Bytes that a device holds at its fullest, by what they are; they add up."""
        ...


def plain_flops(flops: CountedFlops) -> Product:
    """FLOP whose shapes are not known: no edge of theirs is lost."""
    return Product(flops, jnp.inf, jnp.inf)


def divisors(number: int) -> list[int]:
    """All divisors, ascending; by pairs, so that a hundred thousand numbers take a moment.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [part for part in range(1, int(number**0.5) + 1) if number % part == 0]
    large = [number // part for part in reversed(small) if part * part != number]
    return small + large
