"""The measurement itself: every cell built and warmed, then round after round in random order.

Sizes measured one after another would turn a drift of the machine into a law; a new order in each
round turns it into noise, which the fit can see. Each row is on disk before the next is measured.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from probes.cell import Cell
from probes.context import Confinement, Device, oversubscribed, physical_cores
from probes.plan import Effort, plan
from probes.timing import LoadMeter, Program, now, seconds_of, warm_up
from scaleopt.data.measurements import MeasurementWriter

Progress = Callable[[float, str], None]
"""Told the share that is done and what is being done."""

_BUILDING_SHARE = 0.3


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
