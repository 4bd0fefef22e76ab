"""What to measure: which operations, at which sizes, on which numbers of devices.

Every parameter of the step model must be seen by several cells: rates by products of several sizes,
latencies and bandwidths by arrays from four bytes up, the serial time by steps of several works.
"""

from dataclasses import dataclass

import psutil

from probes import collectives, matmul, scaling
from probes.cell import Cell
from probes.context import Device

_EVERY_COUNT_UP_TO = 8


@dataclass(frozen=True)
class Effort:
    """How much to measure."""

    seconds: float
    """For the rounds, after building."""
    least_rounds: int
    most_rounds: int
    repeats: int
    largest_bytes: int
    size_factor: int


THOROUGH = Effort(40.0, 5, 30, 2, 2**26, 8)
QUICK = Effort(8.0, 5, 10, 2, 2**21, 64)


def device_counts(available: int) -> list[int]:
    """Every count up to 8, then doublings, and all there are.

    >>> device_counts(4), device_counts(24)
    ([1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7, 8, 16, 24])
    """
    counts = list(range(1, min(available, _EVERY_COUNT_UP_TO) + 1))
    while counts[-1] * 2 < available:
        counts.append(counts[-1] * 2)
    return counts if counts[-1] == available else [*counts, available]


def plan(devices: list[Device], effort: Effort) -> list[Cell]:
    """Every cell to measure on these devices."""
    counts = device_counts(len(devices))
    side = matmul.scout_side(devices)
    largest = min(effort.largest_bytes, _largest_array(devices))
    reduced = collectives.sizes(largest, effort.size_factor)
    return [
        *matmul.cells(devices, counts, side),
        *collectives.cells(devices, counts, reduced),
        *scaling.cells(devices, counts, side),
    ]


def _largest_array(devices: list[Device]) -> int:
    """The largest array that every cell can keep beside all others on CPU devices.

    There each device's share is in the host's memory, and each count of devices has operands of
    its own: about N²/2 arrays of every size, and as many results.
    """
    if devices[0].platform != "cpu":
        return THOROUGH.largest_bytes
    return psutil.virtual_memory().available // (8 * len(devices) ** 2)
