"""`python -m probes`, and `scaleopt probe`: measure the devices that are here into a table.

Nothing heavy is imported until something is measured, so that help comes at once.
"""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from probes.measure import UNUSABLE, Alone, measure
from probes.options import (
    AsJson,
    Budget,
    Coordinator,
    Devices,
    DryRun,
    Everything,
    NumProcesses,
    Patience,
    Precision,
    Processes,
    ProcessId,
    Quick,
    Resume,
    effort_of,
)

if TYPE_CHECKING:
    from probes.plan import Effort


def probe(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The table to write; must not exist.")
    ] = Path("measurements.csv"),
    devices: Devices = None,
    quick: Quick = False,
    everything: Everything = False,
    budget: Budget = None,
    precision: Precision = None,
    resume: Resume = False,
    dry_run: DryRun = False,
    processes: Processes = None,
    coordinator: Coordinator = None,
    process_id: ProcessId = None,
    num_processes: NumProcesses = None,
    patience: Patience = 30.0,
    as_json: AsJson = False,
) -> None:
    """Measure matmuls, collectives and training steps on the devices that are here.

    In a job of several processes (srun, mpirun, an indexed Kubernetes job) they find each other.
    """
    from probes.launch import job

    if quick and everything:
        raise typer.BadParameter("--quick measures less and --all more: choose one")
    by_hand = (coordinator, process_id, num_processes)
    if None in by_hand and any(option is not None for option in by_hand):
        raise typer.BadParameter("--coordinator, --process-id and --num-processes: give all three")
    joined = coordinator is not None or (processes is None and job() is not None)
    if devices is not None and (processes is not None or joined):
        raise typer.BadParameter("--devices is for one process; of several each brings its own")
    if processes is not None and joined:
        raise typer.BadParameter("--processes starts them here; --coordinator joins others: choose")
    several = processes is not None or joined
    if several and (resume or dry_run):
        raise typer.BadParameter("--resume and --dry-run are for one process")
    effort = effort_of(quick, everything, budget, precision)
    if dry_run:
        show_plan(devices, effort)
        return
    meeting = {
        "coordinator_address": coordinator,
        "process_id": process_id,
        "num_processes": num_processes,
    }
    place = processes or (meeting if coordinator else {}) if several else Alone(devices)
    rows, context = measure(
        out, place, effort, patience if several else math.inf, quiet=as_json, resume=resume
    )
    if as_json:
        typer.echo(json.dumps({"measurements": str(out), "rows": rows, "context": context}))
    elif rows:
        typer.echo(f"{rows} rows in {out}. Fit them with: scaleopt fit {out}")
    else:
        typer.echo("Measured. The first process writes the table.")


def show_plan(devices: int | None, effort: "Effort") -> None:
    """Print which cells would be measured, and about how long that takes."""
    from collections import Counter

    from probes.context import DeviceError, start_devices
    from probes.peers import Peers
    from probes.plan import building_seconds, left_out, plan_within

    try:
        found = start_devices(devices)
    except DeviceError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(UNUSABLE) from None
    cells = plan_within(found, effort, Peers(found))
    for (op, count), number in Counter((cell.op, cell.devices) for cell in cells).items():
        of_kind = [cell for cell in cells if (cell.op, cell.devices) == (op, count)]
        sizes = sorted(cell.size_bytes for cell in of_kind if cell.size_bytes is not None)
        span = f", arrays of {sizes[0]:.0f} to {sizes[-1]:.0f} bytes" if sizes else ""
        typer.echo(f"{op:<16}{count:>4} devices {number:>4} cells{span}")
    building = building_seconds(cells)
    rounds = max(min(effort.seconds, effort.budget - building), 0.0)
    typer.echo(
        f"{len(cells)} cells: about {building:.0f} s to compile and check them, then about "
        f"{rounds:.0f} s of rounds, at most {effort.most_rounds} of them"
    )
    for reason in left_out(found, effort):
        typer.echo(f"not measured: {reason}")


if __name__ == "__main__":
    typer.run(probe)
