"""The measurement itself: every cell built and warmed, then round after round in random order.

Sizes measured one after another would turn a drift of the machine into a law; a new order in each
round turns it into noise, which the fit can see. Each row is handed on before the next is measured.
Several processes go through the same cells in the same order, and the first decides when to stop.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from probes.cell import Cell, OutOfMemoryError, UnmeasurableError, within_memory
from probes.context import Confinement, Device, oversubscribed
from probes.peers import Peers
from probes.plan import Effort, plan_within
from probes.precision import settled
from probes.table import Progress
from probes.timing import LoadMeter, Program, now, warm_up

_BUILDING_SHARE = 0.3


class Rows(Protocol):
    """Takes rows, such as a `MeasurementWriter`."""

    def append(self, row: Mapping[str, Any]) -> None:
        """Keep one row."""


class Prepared(NamedTuple):
    """A cell whose program is built and warm."""

    cell: Cell
    program: Program
    crowded: bool


def sweep(
    devices: list[Device],
    rows: Rows,
    effort: Effort,
    progress: Progress,
    *,
    peers: Peers | None = None,
    seed: int = 0,
    only: tuple[str, ...] = (),
) -> list[str]:
    """Measure the machine into a table.

    Args:
        devices: what to measure; of all processes, where there are several.
        rows: takes each row as soon as it is measured.
        effort: how much.
        progress: told what is going on.
        peers: the processes that measure, where there are several.
        seed: of the order within each round.
        only: the operations to measure; without any, all.

    Returns:
        What this backend cannot be made to do, a sentence each.

    Raises:
        ProbeError: a program does not do its work.
    """
    progress(0.0, "looking for the right sizes")
    begin, peers = now(), peers or Peers(devices)
    confinement = Confinement(peers.cores, devices[0].platform == "cpu")
    try:
        planned = plan_within(devices, effort, peers)
        cells = [cell for cell in planned if not only or cell.op in only]
        prepared, left_out = _prepare(cells, peers, progress)
        allowed = min(effort.seconds, effort.budget - (now() - begin))
        if allowed <= 0:
            left_out.append(
                "more than one round: compiling and checking took all of the "
                f"{effort.budget:.3g} s that the budget gives a run; give it more time"
            )
        limits = replace(effort, seconds=allowed)
        _rounds(prepared, peers, confinement, rows, limits, progress, seed)
        return left_out
    finally:
        confinement.release()


def _crowded(cell: Cell, peers: Peers) -> bool:
    """Whether the devices of a cell outnumber the cores they run on."""
    if peers.count > 1:
        return peers.crowded
    return oversubscribed(cell.devices, peers.own_devices[0].platform)


def _prepare(
    cells: list[Cell], peers: Peers, progress: Progress
) -> tuple[list[Prepared], list[str]]:
    """Compile, check and warm every cell before any is timed; and why some cannot be measured."""
    prepared, left_out = [], []
    for place, cell in enumerate(cells):
        progress(_BUILDING_SHARE * place / len(cells), f"compiling {cell.name}")
        try:
            with within_memory(cell):
                program = cell.build()
                warm_up(program, 2)
        except (UnmeasurableError, OutOfMemoryError) as error:
            if isinstance(error, OutOfMemoryError) and peers.count > 1:
                raise  # the others have the same plan, and would wait for this one
            left_out.append(str(error))
            continue
        prepared.append(Prepared(cell, program, _crowded(cell, peers)))
    return prepared, left_out


def _rounds(
    prepared: list[Prepared],
    peers: Peers,
    confinement: Confinement,
    rows: Rows,
    effort: Effort,
    progress: Progress,
    seed: int,
) -> None:
    """Go through the cells in random order until the time is up or the rounds are enough."""
    random, load, start = np.random.default_rng(seed), LoadMeter(), now()
    medians: list[list[float]] = [[] for _ in prepared]
    # A budget is kept even where that leaves fewer rounds than a fit would like.
    least = effort.least_rounds if math.isinf(effort.budget) else 1
    for number in range(max(effort.most_rounds, least)):
        if number >= least:
            over = now() - start > effort.seconds
            enough = effort.precision > 0 and settled(medians, effort.precision)
            if peers.agree(float(over or enough)):
                return
        for place, chosen in enumerate(random.permutation(len(prepared))):
            cell, program, crowded = prepared[chosen]
            share = (number + place / len(prepared)) / effort.most_rounds
            done = max(share, min((now() - start) / max(effort.seconds, 1e-9), 1.0))
            progress(
                _BUILDING_SHARE + (1 - _BUILDING_SHARE) * done,
                f"round {number + 1}: {cell.name}",
            )
            confinement.hold(cell.devices if peers.count == 1 else len(peers.own_devices))
            with within_memory(cell):
                warm_up(program)
                taken = [peers.seconds_of(program) for _ in range(effort.repeats)]
            medians[chosen].append(float(np.median(taken)))
            foreign = peers.foreign_load(load.use())
            for repeat, seconds in enumerate(taken):
                where = {"nodes": peers.nodes, "foreign_load": foreign, "oversubscribed": crowded}
                sample = {"round": number, "repeat": repeat, "time_s": seconds}
                rows.append(cell.columns() | where | sample)
