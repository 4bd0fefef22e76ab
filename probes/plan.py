"""What to measure: which operations, at which sizes, on which numbers of devices.

Every parameter of the step model must be seen by several cells: rates by products of several sizes,
latencies and bandwidths by arrays from four bytes up, the serial time by steps of several works.
"""

import math
from dataclasses import dataclass, replace

import jax
import psutil

from probes import collectives, dispatch, matmul, memory, scaling, transfer
from probes.cell import Cell
from probes.context import Confinement, Device
from probes.peers import Peers

_EVERY_COUNT_UP_TO = 8
_LARGEST_ON_CPU = 2**26
_GUESSED_MEMORY = 2**34
_COARSER = (64, 4096)
_BUILDING_S = 0.3
"""Seconds a cell, as on a processor core of 2020; an accelerator's compiler takes longer."""
_BUILDING_SHARE = 0.5


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
    runs: int = 1
    """How often the measuring processes are started; they share the seconds, not the rounds."""
    survey: bool = False
    """Whether to measure everything there is a probe for, not only what the step model needs."""
    side: int | None = None
    """Of the largest matrices; found by trying where it is not given."""
    precision: float = 0.0
    """Half the width of the medians' intervals, relative to them, from which it is enough; 0 for
    never."""
    budget: float = math.inf
    """Seconds for building and rounds together; where they are short, fewer sizes are measured."""


THOROUGH = Effort(40.0, 5, 30, 2, 2**26, 8, runs=3)
QUICK = Effort(8.0, 5, 10, 2, 2**21, 64)
SURVEY = Effort(120.0, 5, 30, 2, 2**30, 8, runs=3, survey=True)


def device_counts(available: int) -> list[int]:
    """Every count up to 8, then doublings, and all there are.

    >>> device_counts(4), device_counts(24)
    ([1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7, 8, 16, 24])
    """
    counts = list(range(1, min(available, _EVERY_COUNT_UP_TO) + 1))
    while counts[-1] * 2 < available:
        counts.append(counts[-1] * 2)
    return counts if counts[-1] == available else [*counts, available]


def plan(devices: list[Device], effort: Effort, peers: Peers) -> list[Cell]:
    """Every cell to measure on these devices, the same for all processes.

    Several processes measure with all their devices only: a program must run in each of them.
    """
    counts = device_counts(len(devices)) if peers.count == 1 else [len(devices)]
    side = effort.side or scout_side(peers)
    largest = int(peers.agree(min(effort.largest_bytes, _largest_array(devices))))
    sizes = collectives.sizes(largest, effort.size_factor)
    cells = [
        *matmul.cells(devices, counts, side),
        *collectives.cells(devices, counts, sizes, ops=("all_reduce",)),
        *scaling.cells(devices, counts, side),
    ]
    if not effort.survey:
        return cells
    others = [op for op in collectives.COLLECTIVES if op != "all_reduce"]
    # One device and all of them: in between memory bandwidth shows nothing new.
    ends = sorted({counts[0], counts[-1]})
    stream = int(peers.agree(min(effort.largest_bytes, _largest_stream(devices))))
    return [
        *cells,
        *matmul.survey_cells(devices, counts, side),
        *collectives.cells(devices, counts, sizes, ops=others),
        *scaling.survey_cells(devices, counts, side),
        *memory.cells(devices, ends, memory.sizes(stream, effort.size_factor)),
        *dispatch.cells(devices, counts),
        *transfer.cells(devices, sizes),
    ]


def scout_side(peers: Peers) -> int:
    """The side of matrices that suits one device, as the first process finds by trying."""
    confinement = Confinement(peers.cores, peers.own_devices[0].platform == "cpu")
    confinement.hold(1)
    try:
        return int(peers.agree(matmul.scout_side(peers.own_devices)))
    finally:
        confinement.release()


def plan_within(devices: list[Device], effort: Effort, peers: Peers) -> list[Cell]:
    """The plan with as few sizes as its budget needs; every operation and count stays in it.

    The ends of the sizes stay too, so that latency and bandwidth are both seen.

    Args:
        devices: where to measure.
        effort: how much.
        peers: the processes that measure.
    """
    effort = replace(effort, side=effort.side or scout_side(peers))
    cells = plan(devices, effort, peers)
    for factor in _COARSER:
        if building_seconds(cells) <= _BUILDING_SHARE * effort.budget:
            break
        cells = plan(devices, replace(effort, size_factor=factor), peers)
    return cells


def building_seconds(cells: list[Cell]) -> float:
    """About how long compiling, checking and warming takes."""
    return _BUILDING_S * len(cells)


def left_out(devices: list[Device], effort: Effort) -> list[str]:
    """What a plan does not measure that one could, each with its reason.

    Args:
        devices: what is measured.
        effort: how much.
    """
    reasons = []
    if len(devices) == 1:
        reasons.append("collectives: there is one device only")
    if not effort.survey:
        reasons.append(
            "other collectives than all-reduce, other matmuls, memory, dispatch, transfers, steps "
            "not waited for: the step model does not need them"
        )
    largest = min(effort.largest_bytes, _largest_array(devices))
    if largest < effort.largest_bytes:
        reasons.append(
            f"arrays above {largest} bytes: memory would not hold all that are planned, and on CPU "
            "devices they show nothing but memory"
        )
    return reasons


def _largest_array(devices: list[Device]) -> int:
    """The largest array that every cell can keep beside all others.

    On CPU devices each device's share is in the host's memory, and each count of devices has
    operands of its own: about N²/2 arrays of every size, and as many results. Arrays above 64 MiB
    take long there and show nothing but memory.
    """
    if devices[0].platform != "cpu":
        return _own_memory(devices) // (16 * len(device_counts(len(devices))))
    return min(psutil.virtual_memory().available // (8 * len(devices) ** 2), _LARGEST_ON_CPU)


def _largest_stream(devices: list[Device]) -> int:
    """The largest of three arrays on each device, once for one device and once for all."""
    if devices[0].platform != "cpu":
        return _own_memory(devices) // 32
    return psutil.virtual_memory().available // (32 * (1 + len(devices)))


def _own_memory(devices: list[Device]) -> int:
    """Bytes of memory of an accelerator here; a modest guess where the backend does not tell."""
    here = next(device for device in devices if device.process_index == jax.process_index())
    return int((here.memory_stats() or {}).get("bytes_limit", _GUESSED_MEMORY))
