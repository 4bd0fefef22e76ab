"""`python -m probes`, and `scaleopt probe`: measure the devices that are here into a table.

Nothing heavy is imported until something is measured, so that help comes at once.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from probes.plan import Effort
    from probes.sweep import Progress

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
UNUSABLE = 3
"""Exit code where the input or the machine does not allow what was asked."""
_PATIENT, _MANY = 5.0, 1000
"""Times the usual seconds that a wanted precision may take; rounds that it or a budget may buy."""

Devices = Annotated[
    int | None,
    typer.Option("--devices", "-n", help="How many devices; on CPU more than cores are allowed."),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Fewer sizes and rounds: seconds of measuring.")
]
Everything = Annotated[
    bool,
    typer.Option("--all", help="Every collective, memory, dispatch and transfers too: minutes."),
]
Processes = Annotated[
    int | None,
    typer.Option(
        "--processes", "-p", min=1, help="Start so many processes here; each has one CPU device."
    ),
]
Coordinator = Annotated[
    str | None,
    typer.Option(
        "--coordinator",
        metavar="HOST:PORT",
        help="Where the first of several processes, started one by one, is to be met by all.",
    ),
]
ProcessId = Annotated[
    int | None, typer.Option("--process-id", min=0, help="Which of them this is, from 0.")
]
NumProcesses = Annotated[
    int | None, typer.Option("--num-processes", min=1, help="How many of them there are.")
]
Patience = Annotated[
    float,
    typer.Option(min=1, help="Seconds without any movement until a process is taken to hang."),
]
Budget = Annotated[
    str | None,
    typer.Option(help="Seconds for all of it, such as '60 s'; fewer sizes where they are short."),
]
Precision = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        max=1.0,
        help="Stop once medians are known this well: 0.05 for ± 5 % at 95 % confidence.",
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the table of an interrupted run.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be measured and how long it takes.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs, nothing else.")]


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
    if not several:
        rows, context = measure(out, devices, effort, quiet=as_json, resume=resume)
    else:
        meeting = {
            "coordinator_address": coordinator,
            "process_id": process_id,
            "num_processes": num_processes,
        }
        place = processes or (meeting if coordinator else {})
        rows, context = measure_together(out, place, effort, patience, quiet=as_json)
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


def measure(
    out: Path, devices: int | None, effort: "Effort", *, quiet: bool, resume: bool = False
) -> tuple[int, dict]:
    """Measure into a table, with a progress bar; leave the command where that cannot be.

    Args:
        out: the table to write; new, or with `resume` one to go on with.
        devices: how many, or None for those there are.
        effort: how much to measure.
        quiet: whether to show no progress.
        resume: whether to go on with the table of an interrupted run.

    Returns:
        How many rows were written, and the context they were measured in.

    Raises:
        typer.Exit: interrupted (130), or not possible (3); what was measured is kept.
    """
    from probes.cell import ProbeError
    from probes.context import DeviceError, describe, start_devices
    from probes.sweep import sweep
    from scaleopt.data.measurements import MeasurementError, MeasurementWriter

    writer = None
    try:
        found = start_devices(devices)
        context = describe(found)
        done_rounds = _rounds_in(out, context) if resume else 0
        table = MeasurementWriter(out, context, resume=resume)
        with table as writer, progress_bar(quiet) as progress:
            left_out = sweep(found, writer, effort, progress, done_rounds=done_rounds)
        for sentence in left_out:
            typer.echo(f"not measured: {sentence}", err=True)
        return writer.rows, context
    except KeyboardInterrupt:
        raise _stopped(out, writer.rows if writer else None, keep=resume) from None
    except (DeviceError, MeasurementError, ProbeError, OSError) as error:
        if writer is not None and writer.rows == 0 and not resume:
            out.unlink()
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(UNUSABLE) from None


def _rounds_in(out: Path, context: dict[str, Any]) -> int:
    """How many rounds a table holds already, the interrupted one among them.

    Raises:
        MeasurementError: it was not measured on a machine like this one.
        FileNotFoundError: there is no table.
    """
    import warnings

    from scaleopt.data.join import differences
    from scaleopt.data.measurements import (
        MeasurementError,
        TruncatedLineWarning,
        read_measurements,
    )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncatedLineWarning)  # the cut row is taken out
        table, before = read_measurements(out)
    if other := differences(before, context):
        raise MeasurementError(
            f"{out} was not measured like this ({'; '.join(other)}); choose a new --out"
        )
    return int(table["round"].max()) + 1


def measure_together(
    out: Path, place: int | dict[str, Any], effort: "Effort", patience: float, *, quiet: bool
) -> tuple[int, dict]:
    """Measure with several processes into a new table; else as `measure`.

    Args:
        out: the table to write, if this is the first process.
        place: how many processes to start, or where to meet those that others start.
        effort: how much to measure.
        patience: seconds without any movement until one is taken to hang.
        quiet: whether to show no progress.

    Returns:
        How many rows were written, and the context; 0 and empty in all but the first process.

    Raises:
        typer.Exit: interrupted (130), or not possible (3); what was measured is kept.
    """
    from probes.launch import Table, measure_here, measure_joined
    from probes.watch import RankError

    table = Table(out)
    try:
        with progress_bar(quiet) as table.progress, contextlib.closing(table):
            if isinstance(place, int):
                measure_here(place, table, effort, patience)
            else:
                measure_joined(place, table, effort, patience)
    except KeyboardInterrupt:
        raise _stopped(out, table.rows) from None
    except (RankError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        if table.rows:
            typer.echo(f"{table.rows} rows are kept in {out}.", err=True)
        elif table.rows is not None:
            out.unlink()
        raise typer.Exit(UNUSABLE) from None
    for sentence in table.left_out:
        typer.echo(f"not measured: {sentence}", err=True)
    return table.rows or 0, table.context


def effort_of(
    quick: bool, everything: bool = False, budget: str | None = None, precision: float | None = None
) -> "Effort":
    """How much to measure, as the options say."""
    import math
    from dataclasses import replace

    from probes.plan import QUICK, SURVEY, THOROUGH

    effort = QUICK if quick else SURVEY if everything else THOROUGH
    if precision is not None:
        seconds = _PATIENT * effort.seconds
        effort = replace(effort, precision=precision, seconds=seconds, most_rounds=_MANY)
    if budget is None:
        return effort
    from scaleopt.units import parse

    try:
        seconds = parse(budget, "s")
    except ValueError as error:
        raise typer.BadParameter(f"--budget: {error}") from None
    if not 0 < seconds < math.inf:
        raise typer.BadParameter(f"--budget {budget}: it must be above 0 s")
    return replace(effort, budget=seconds, seconds=math.inf, most_rounds=_MANY)


def _stopped(out: Path, rows: int | None, *, keep: bool = False) -> typer.Exit:
    """What to say after Ctrl-C: what is kept, and how to go on; None is for a table not made."""
    if rows:
        typer.echo(f"\nStopped. {rows} rows are kept in {out}.", err=True)
        typer.echo(f"Go on with: scaleopt fit {out}", err=True)
        typer.echo(f"or measure the rest: scaleopt probe --resume --out {out}", err=True)
    else:
        if rows is not None and not keep:
            out.unlink()
        typer.echo("\nStopped before anything was measured.", err=True)
    return typer.Exit(INTERRUPTED)


@contextlib.contextmanager
def progress_bar(quiet: bool) -> "Iterator[Progress]":
    """A bar on standard error that tells what is being done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed

    doing = TextColumn("{task.description:<36}", markup=False)  # errors hold square brackets
    columns = (doing, BarColumn(), TaskProgressColumn(), Elapsed())
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda done, what: bar.update(task, completed=done, description=what)
        bar.update(task, completed=1.0, description="measured")


if __name__ == "__main__":
    typer.run(probe)
