"""`python -m probes`, and `scaleopt probe`: measure the devices that are here into a table.

Nothing heavy is imported until something is measured, so that help comes at once.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from probes.sweep import Progress

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
UNUSABLE = 3
"""Exit code where the input or the machine does not allow what was asked."""

Devices = Annotated[
    int | None,
    typer.Option("--devices", "-n", help="How many devices; on CPU more than cores are allowed."),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Fewer sizes and rounds: seconds of measuring.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs, nothing else.")]


def probe(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The table to write; must not exist.")
    ] = Path("measurements.csv"),
    devices: Devices = None,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Measure matmuls, all-reduces and training steps on the devices that are here."""
    rows, context = measure(out, devices, quick=quick, quiet=as_json)
    if as_json:
        typer.echo(json.dumps({"measurements": str(out), "rows": rows, "context": context}))
    else:
        typer.echo(f"{rows} rows in {out}. Fit them with: scaleopt fit {out}")


def measure(out: Path, devices: int | None, *, quick: bool, quiet: bool) -> tuple[int, dict]:
    """Measure into a new table, with a progress bar; leave the command where that cannot be.

    Args:
        out: the table to write.
        devices: how many, or None for those there are.
        quick: whether a few seconds must do.
        quiet: whether to show no progress.

    Returns:
        How many rows were written, and the context they were measured in.

    Raises:
        typer.Exit: interrupted (130), or not possible (3); what was measured is kept.
    """
    from probes.cell import ProbeError
    from probes.context import DeviceError, describe, start_devices
    from probes.plan import QUICK, THOROUGH
    from probes.sweep import sweep
    from scaleopt.data.measurements import MeasurementWriter

    writer = None
    try:
        found = start_devices(devices)
        context = describe(found)
        with MeasurementWriter(out, context) as writer, progress_bar(quiet) as progress:
            sweep(found, writer, QUICK if quick else THOROUGH, progress)
            return writer.rows, context
    except KeyboardInterrupt:
        raise _stopped(out, writer.rows if writer else 0) from None
    except (DeviceError, ProbeError, OSError) as error:
        if writer is not None and writer.rows == 0:
            out.unlink()
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(UNUSABLE) from None


def _stopped(out: Path, rows: int) -> typer.Exit:
    """What to say after Ctrl-C: what is kept, and how to go on."""
    if rows:
        typer.echo(f"\nStopped. {rows} rows are kept in {out}.", err=True)
        typer.echo(f"Go on with: scaleopt fit {out}", err=True)
    else:
        out.unlink(missing_ok=True)
        typer.echo("\nStopped before anything was measured.", err=True)
    return typer.Exit(INTERRUPTED)


@contextlib.contextmanager
def progress_bar(quiet: bool) -> "Iterator[Progress]":
    """A bar on standard error that tells what is being done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed

    columns = (TextColumn("{task.description:<36}"), BarColumn(), TaskProgressColumn(), Elapsed())
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda done, what: bar.update(task, completed=done, description=what)
        bar.update(task, completed=1.0, description="measured")


if __name__ == "__main__":
    typer.run(probe)
