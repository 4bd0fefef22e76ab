"""A measurement from start to end, as a command runs it: progress, Ctrl-C, and what is kept."""

import contextlib
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from probes.plan import Effort
    from probes.table import Progress

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
UNUSABLE = 3
"""Exit code where the input or the machine does not allow what was asked."""


@dataclass(frozen=True)
class Alone:
    """One process at a time, with so many devices; None for those there are."""

    devices: int | None = None


def measure(
    out: Path,
    place: "Alone | int | dict[str, Any]",
    effort: "Effort",
    patience: float = math.inf,
    *,
    quiet: bool,
    resume: bool = False,
) -> tuple[int, dict]:
    """Measure into a table, with a progress bar; leave the command where that cannot be.

    Args:
        out: the table to write; new, or with `resume` one to go on with.
        place: one process alone, how many to start together, or where to meet those that others
            start.
        effort: how much to measure.
        patience: seconds without any movement until one of several processes is taken to hang.
        quiet: whether to show no progress.
        resume: whether to go on with the table of an interrupted run.

    Returns:
        How many rows were written, and the context they were measured in; 0 and empty in all but
        the first of several processes.

    Raises:
        typer.Exit: interrupted (130), or not possible (3); what was measured is kept.
    """
    from probes.launch import measure_alone, measure_here, measure_joined
    from probes.table import Table
    from probes.watch import RankError
    from scaleopt.data.measurements import MeasurementError, TruncatedLineWarning

    table = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruncatedLineWarning)  # the cut row is taken out
            table = Table(out, resume=resume)
        with progress_bar(quiet) as table.progress, contextlib.closing(table):
            if isinstance(place, Alone):
                measure_alone(place.devices, table, effort)
            elif isinstance(place, int):
                measure_here(place, table, effort, patience)
            else:
                measure_joined(place, table, effort, patience)
    except KeyboardInterrupt:
        raise _stopped(out, table.rows if table else None, keep=resume) from None
    except (RankError, MeasurementError, OSError) as error:
        typer.echo(f"error: {_said(error, out)}", err=True)
        rows = table.rows if table else None
        if rows:
            typer.echo(f"{rows} rows are kept in {out}.", err=True)
        elif rows is not None and not resume:
            out.unlink()
        raise typer.Exit(UNUSABLE) from None
    for sentence in table.left_out:
        typer.echo(f"not measured: {sentence}", err=True)
    return table.rows or 0, table.context


def _said(error: Exception, out: Path) -> str:
    """An error as a sentence; the system names no file where writing fails half-way."""
    if isinstance(error, OSError) and error.strerror and error.filename is None:
        return f"{out}: {error.strerror}"
    return str(error)


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
