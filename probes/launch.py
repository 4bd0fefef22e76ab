"""Several processes that measure together: where they come from, and what becomes of their rows.

Either this command starts them, one CPU device or accelerator each; or somebody started one command
for each, by hand or as a job of Slurm, Open MPI or Kubernetes. In all cases the process that the
user sees only watches, and ranks (`probes.rank`) that it starts measure: so one that dies or hangs
takes nothing along, and the rows are on disk.

Ranks started here come in groups, all of them first, then half as many, down to one: in JAX a
program over some of the devices may run only in the processes that own them.
"""

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.rank import Order
from probes.watch import watch
from scaleopt.data.measurements import MeasurementWriter

if TYPE_CHECKING:
    from probes.plan import Effort

Progress = Callable[[float, str], None]

_TO_COME = 300
"""Seconds that processes started elsewhere are waited for."""
_LATER, _SOONER = 2.0, 0.7
"""When JAX itself gives up, in shares of the patience: later where all ranks are watched here, and
can be told apart; sooner where others are elsewhere, of which only JAX knows."""


class Table:
    """The table that ranks fill: made when the first of them says where it is."""

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        self.path, self.context = path, dict[str, Any]()
        self.progress = progress or (lambda done, what: None)
        self.left_out: list[str] = []
        """What was not measured, each with its reason."""
        self._writer: MeasurementWriter | None = None
        self._rounds_before = self._round = self._part = 0
        self._parts = 1

    @property
    def rows(self) -> int | None:
        """How many there are; None while there is no table."""
        return None if self._writer is None else self._writer.rows

    def part(self, number: int, parts: int) -> None:
        """From here on rows are of another group, whose rounds follow those of the last."""
        self._part, self._parts = number, parts
        self._rounds_before = self._round

    def hear(self, message: Mapping[str, Any]) -> None:
        """Take what the first rank says."""
        if "context" in message and self._writer is None:
            self.context = message["context"]
            self._writer = MeasurementWriter(self.path, self.context)
        if "row" in message and self._writer is not None:
            row = dict(message["row"])
            row["round"] += self._rounds_before
            self._round = row["round"] + 1
            self._writer.append(row)
        if "doing" in message:
            self.progress((self._part + message["done"]) / self._parts, message["doing"])
        self.left_out += message.get("left_out", [])

    def close(self) -> None:
        """No more rows come."""
        if self._writer is not None:
            self._writer.close()


def group_sizes(processes: int) -> list[int]:
    """How many processes measure together, group by group.

    >>> group_sizes(1), group_sizes(6), group_sizes(8)
    ([1], [6, 4, 2, 1], [8, 4, 2, 1])
    """
    doublings = [2**n for n in range(processes.bit_length()) if 2**n < processes]
    return [processes, *reversed(doublings)]


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
    parts = len(groups)
    share = asdict(effort) | {"seconds": effort.seconds / parts, "budget": effort.budget / parts}
    for number, size in enumerate(groups):
        table.part(number, len(groups))
        meeting = {
            "coordinator_address": f"127.0.0.1:{_free_port()}",
            "num_processes": size,
            "initialization_timeout": int(patience),
            **_limits(_LATER * patience),
        }
        seats = [{"process_id": rank, "local_device_ids": [rank]} for rank in range(size)]
        orders = [Order(share, meeting | seat, seed=number) for seat in seats]
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


def _limits(seconds: float) -> dict[str, int]:
    """How long JAX itself waits for a process to give a sign of life, and to leave."""
    names = ("heartbeat_timeout_seconds", "shutdown_timeout_seconds")
    return dict.fromkeys(names, max(int(seconds), 1))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
