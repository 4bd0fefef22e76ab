"""Run the probe's own ranks on an emulated network, one a node."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

import scaleopt as so
from network.wire import Network, Wire, network
from probes.plan import Effort
from probes.rank import Order
from probes.table import Table
from probes.watch import watch

_PORT = 9000
_FAST = 40e6
"""Bytes a second from which on larger arrays are needed."""


def effort_for(count: int, wire: Wire, seconds: float) -> Effort:
    """Sizes that tell delay and rate apart: the largest takes about 0.1 s on the wire.

    Args:
        count: how many ranks; more than two pipeline, so more sizes are needed.
        wire: the network.
        seconds: for the rounds, of which at least three are measured.
    """
    slow = wire.rate < _FAST
    if count > 2:
        return Effort(seconds, 3, 100, 2, 2**22, 4, survey=True)
    factor = 64 if slow else 80
    return Effort(seconds, 3, 100, 2, 4 * factor**3, factor, survey=True)


def measured(
    count: int,
    wire: Wire,
    ops: Sequence[str],
    effort: Effort,
    path: Path,
    *,
    together: bool = False,
    patience: float = 60,
) -> pd.DataFrame:
    """Measure collectives over a network that is brought up for it, by as many runs as is said.

    Args:
        count: how many ranks.
        wire: delay and rate of every port.
        ops: the collectives.
        effort: how much to measure.
        path: the table to write.
        together: whether all ranks are on one node, with no network between them.
        patience: seconds without any movement after which a rank is taken to hang.

    Raises:
        NetworkError: the network does not come up.
        RankError: a rank died, failed or hangs.
    """
    table = Table(path)
    share = dataclasses.asdict(effort) | {"seconds": effort.seconds / effort.runs}
    names = [f"rank {rank} of {count}" for rank in range(count)]
    try:
        with network(count, wire) as net:
            for run in range(effort.runs):
                table.begin(run, run, effort.runs)
                meeting = {
                    "coordinator_address": f"{Network.address(0)}:{_PORT + run}",
                    "num_processes": count,
                    "initialization_timeout": int(patience),
                }
                same = share | {"side": table.side}
                orders = [
                    Order(same, meeting | {"process_id": rank}, only=tuple(ops), seed=run)
                    for rank in range(count)
                ]
                commands = [
                    lambda pipe, node=0 if together else rank, order=order: net.inside(
                        node, order.command(pipe)
                    )
                    for rank, order in enumerate(orders)
                ]
                watch(commands, table.hear, patience, names=names)
    finally:
        table.close()
    return so.read_measurements(path).table
