"""A measurement from start to end, as a command runs it: progress, Ctrl-C, and what is kept."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from probes.plan import Effort
    from probes.sweep import Progress

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
UNUSABLE = 3
"""Exit code where the input or the machine does not allow what was asked."""


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
        typer.echo(f"error: {_said(error, out)}", err=True)
        if writer is not None and writer.rows:
            typer.echo(f"{writer.rows} rows are kept in {out}.", err=True)
        raise typer.Exit(UNUSABLE) from None


def _said(error: Exception, out: Path) -> str:
    """An error as a sentence; the system names no file where writing fails half-way."""
    if isinstance(error, OSError) and error.strerror and error.filename is None:
        return f"{out}: {error.strerror}"
    return str(error)


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
        typer.echo(f"error: {_said(error, out)}", err=True)
        if table.rows:
            typer.echo(f"{table.rows} rows are kept in {out}.", err=True)
        elif table.rows is not None:
            out.unlink()
        raise typer.Exit(UNUSABLE) from None
    for sentence in table.left_out:
        typer.echo(f"not measured: {sentence}", err=True)
    return table.rows or 0, table.context


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
