"""Run the probe's own ranks on an emulated network, one a node."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

import scaleopt as so
from network.wire import Network, Wire, network
from probes.launch import Table
from probes.plan import Effort
from probes.rank import Order
from probes.watch import watch

_PORT = 9000


def measured(
    count: int, wire: Wire, ops: Sequence[str], effort: Effort, path: Path, *, patience: float = 60
) -> pd.DataFrame:
    """Measure collectives over a network that is brought up for it.

    Args:
        count: how many ranks.
        wire: delay and rate of every port.
        ops: the collectives.
        effort: how much to measure.
        path: the table to write.
        patience: seconds without any movement after which a rank is taken to hang.

    Raises:
        NetworkError: the network does not come up.
        RankError: a rank died, failed or hangs.
    """
    meeting = {"coordinator_address": f"{Network.address(0)}:{_PORT}", "num_processes": count}
    table = Table(path)
    try:
        with network(count, wire) as net:
            orders = [
                Order(dataclasses.asdict(effort), meeting | {"process_id": rank}, tuple(ops))
                for rank in range(count)
            ]
            commands = [
                lambda pipe, rank=rank: net.inside(rank, orders[rank].command(pipe))
                for rank in range(count)
            ]
            names = [f"rank {rank} of {count}" for rank in range(count)]
            watch(commands, table.hear, patience, names=names)
    finally:
        table.close()
    return so.read_measurements(path).table
