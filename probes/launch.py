"""The processes that measure: where they come from, and how often they are started.

One with all devices; or several that this command starts, one CPU device or accelerator each; or
somebody started one command for each, by hand or as a job of Slurm, Open MPI or Kubernetes. In all
cases the process that the user sees only watches, and ranks (`probes.rank`) that it starts measure:
so one that dies or hangs takes nothing along, and the rows are on disk.

What is started here is started several times over. Where memory and threads come to lie stays as it
is while a process lives: it measures the same again and again, and the next one measures another
value. Each row says of which run it is, so that a fit can see how much runs differ.

Ranks started here come in groups, all of them first, then half as many, down to one: in JAX a
program over some of the devices may run only in the processes that own them.
"""

import math
import os
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from probes.rank import Order
from probes.table import Table
from probes.watch import watch

if TYPE_CHECKING:
    from probes.plan import Effort

_TO_COME = 300
"""Seconds that processes started elsewhere are waited for."""
_LATER, _SOONER = 2.0, 0.7
"""When JAX itself gives up, in shares of the patience: later where all ranks are watched here, and
can be told apart; sooner where others are elsewhere, of which only JAX knows."""


def group_sizes(processes: int) -> list[int]:
    """How many processes measure together, group by group.

    >>> group_sizes(1), group_sizes(6), group_sizes(8)
    ([1], [6, 4, 2, 1], [8, 4, 2, 1])
    """
    doublings = [2**n for n in range(processes.bit_length()) if 2**n < processes]
    return [processes, *reversed(doublings)]


def measure_alone(devices: int | None, table: Table, effort: "Effort") -> None:
    """Measure in one process with all devices, once for each run, and fill the table.

    Args:
        devices: how many, or None for those there are.
        table: takes the rows.
        effort: how much to measure in all runs.

    Raises:
        RankError: the process died or failed; the rows up to then are in the table.
    """
    share, left = _share(effort, effort.runs), max(effort.runs - table.runs, 1)
    with tempfile.TemporaryDirectory() as compiled:
        for run in range(left):
            table.begin(run, run, left)
            seed = table.runs + run
            order = Order(
                share | {"side": table.side}, None, devices=devices, seed=seed, compiled=compiled
            )
            watch([order.command], table.hear, math.inf, names=["the measuring process"])


def measure_here(processes: int, table: Table, effort: "Effort", patience: float) -> None:
    """Start so many processes on this machine, and fewer after them, and fill the table.

    Args:
        processes: how many at most.
        table: takes the rows.
        effort: how much to measure in all.
        patience: seconds without any movement after which a rank is taken to hang.

    Raises:
        RankError: one died, failed or hangs; the rows up to then are in the table.
    """
    groups = group_sizes(processes)
    parts = len(groups) * effort.runs
    share = _share(effort, parts)
    for part in range(parts):
        run, group = divmod(part, len(groups))
        table.begin(run, part, parts)
        size = groups[group]
        meeting = {
            "coordinator_address": f"127.0.0.1:{_free_port()}",
            "num_processes": size,
            "initialization_timeout": int(patience),
            **_limits(_LATER * patience),
        }
        seats = [{"process_id": rank, "local_device_ids": [rank]} for rank in range(size)]
        same = share | {"side": table.side}
        orders = [Order(same, meeting | seat, seed=part) for seat in seats]
        names = [f"rank {rank} of {size}" for rank in range(size)]
        watch([order.command for order in orders], table.hear, patience, names=names)


def measure_joined(
    meeting: Mapping[str, Any],
    table: Table,
    effort: "Effort",
    patience: float,
) -> None:
    """Measure with processes that were started elsewhere; the first of them fills its table.

    Args:
        meeting: where they meet, as `jax.distributed.initialize` takes it; empty in a job whose
            launcher tells.
        table: takes the rows, if this is the first process.
        effort: how much to measure.
        patience: seconds without any movement after which a rank is taken to hang.

    Raises:
        RankError: this process or another died, failed or hangs.
    """
    limits = _limits(_SOONER * patience) | {"initialization_timeout": _TO_COME}
    order = Order(asdict(effort), dict(meeting) | limits, linger=patience)
    me = meeting.get("process_id")
    name = f"rank {me} on {socket.gethostname()}" if me is not None else socket.gethostname()
    watch([order.command], table.hear, patience, names=[name])


def job(environment: Mapping[str, str] = os.environ) -> str | None:
    """The launcher of the job that this process is one of several of; None where there is none.

    Those that JAX finds its peers by. `salloc` and `sbatch` alone start one process, whatever they
    reserve; `srun` starts steps of them, with a list of nodes.

    >>> step = {"SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_PROCID": "0"}
    >>> job(step | {"SLURM_LOCALID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2"})
    'Slurm'
    >>> job({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_MCA_orte_hnp_uri": "1.0;tcp://10.0.0.1:5"})
    'Open MPI'
    >>> job({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2"}) is None
    True
    """
    slurm = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID")
    if all(name in environment for name in slurm):
        tasks = environment.get("SLURM_STEP_NUM_TASKS", environment["SLURM_NTASKS"])
        return "Slurm" if int(tasks) > 1 else None
    if "OMPI_MCA_orte_hnp_uri" in environment:
        return "Open MPI" if int(environment.get("OMPI_COMM_WORLD_SIZE", "1")) > 1 else None
    if "KUBERNETES_SERVICE_HOST" in environment and "JOB_COMPLETION_INDEX" in environment:
        return "Kubernetes"
    return None


def _share(effort: "Effort", parts: int) -> dict[str, Any]:
    """The effort of one of so many equal parts."""
    return asdict(effort) | {"seconds": effort.seconds / parts, "budget": effort.budget / parts}


def _limits(seconds: float) -> dict[str, int]:
    """How long JAX itself waits for a process to give a sign of life, and to leave."""
    names = ("heartbeat_timeout_seconds", "shutdown_timeout_seconds")
    return dict.fromkeys(names, max(int(seconds), 1))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
