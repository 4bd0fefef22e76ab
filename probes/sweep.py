"""The measurement itself: every cell built and warmed, then round after round in random order.

Sizes measured one after another would turn a drift of the machine into a law; a new order in each
round turns it into noise, which the fit can see. Each row is on disk before the next is measured.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil

from probes import collectives, matmul, scaling
from probes.cell import Cell
from probes.context import Confinement, Device, oversubscribed, physical_cores
from probes.timing import LoadMeter, Program, now, seconds_of, warm_up
from scaleopt.data.measurements import MeasurementWriter

Progress = Callable[[float, str], None]
"""Told the share that is done and what is being done."""

_EVERY_COUNT_UP_TO = 8
_BUILDING_SHARE = 0.3


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


def sweep(
    devices: list[Device],
    writer: MeasurementWriter,
    effort: Effort,
    progress: Progress,
    *,
    seed: int = 0,
) -> None:
    """Measure the machine into a table.

    Args:
        devices: what to measure.
        writer: takes each row as soon as it is measured.
        effort: how much.
        progress: told what is going on.
        seed: of the order within each round.

    Raises:
        ProbeError: a program does not do its work.
    """
    confinement = Confinement(physical_cores(), devices[0].platform == "cpu")
    try:
        progress(0.0, "looking for the right sizes")
        confinement.hold(1)
        cells = plan(devices, effort)
        programs = _build(cells, confinement, progress)
        crowded = [oversubscribed(cell.devices, devices[0].platform) for cell in cells]
        prepared = list(zip(cells, programs, crowded, strict=True))
        _rounds(prepared, confinement, writer, effort, progress, seed)
    finally:
        confinement.release()


def _build(cells: list[Cell], confinement: Confinement, progress: Progress) -> list[Program]:
    """Compile, check and warm every cell before any is timed."""
    confinement.release()
    programs = []
    for place, cell in enumerate(cells):
        progress(_BUILDING_SHARE * place / len(cells), f"compiling {cell.name}")
        programs.append(cell.build())
        warm_up(programs[-1], 2)
    return programs


def _rounds(
    prepared: list[tuple[Cell, Program, bool]],
    confinement: Confinement,
    writer: MeasurementWriter,
    effort: Effort,
    progress: Progress,
    seed: int,
) -> None:
    """Go through the cells in random order until the time is up or the rounds are enough."""
    random, load, start = np.random.default_rng(seed), LoadMeter(), now()
    for number in range(effort.most_rounds):
        spent = now() - start
        if number >= effort.least_rounds and spent > effort.seconds:
            return
        for place, chosen in enumerate(random.permutation(len(prepared))):
            cell, program, crowded = prepared[chosen]
            share = (number + place / len(prepared)) / effort.most_rounds
            done = max(share, min((now() - start) / effort.seconds, 1.0))
            progress(
                _BUILDING_SHARE + (1 - _BUILDING_SHARE) * done,
                f"round {number + 1}: {cell.name}",
            )
            confinement.hold(cell.devices)
            warm_up(program)
            for repeat in range(effort.repeats):
                row: dict[str, Any] = cell.columns() | {"round": number, "repeat": repeat}
                row["time_s"] = seconds_of(program)
                row["foreign_load"] = load.cores()
                row["oversubscribed"] = crowded
                writer.append(row)
