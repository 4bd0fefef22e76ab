"""The command line: `scaleopt run`, or its parts `probe` and `fit`.

Exit codes: 0 well; 2 wrong usage; 3 an input or a machine that does not allow what was asked;
4 a fit that failed; 130 stopped by Ctrl-C. Nothing heavy is imported before a command needs it.
"""

import json
import os
import signal
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from probes.__main__ import (
    INTERRUPTED,
    UNUSABLE,
    AsJson,
    Devices,
    Quick,
    effort_of,
    measure,
    probe,
)
from scaleopt import __version__

if TYPE_CHECKING:
    from scaleopt.data.measurements import Measurements

FIT_FAILED = 4

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its panels cost help a tenth of a second
    help="Measure a few devices, fit a scaling law, decide how many to use.",
)
app.command("probe")(probe)

Level = Annotated[float, typer.Option(help="Level of every interval.", min=0.01, max=0.999)]
Work = Annotated[
    str | None,
    typer.Option("--flops", help="Work of your step over all devices, such as '100 TFLOP'."),
]
Size = Annotated[
    str | None, typer.Option("--size", help="Bytes of your gradients, such as '2 GB'.")
]
Most = Annotated[
    int | None,
    typer.Option("--max-devices", min=1, help="The most devices you could use; else those here."),
]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Measure a few devices, fit a scaling law, decide how many to use."""


@app.command()
def run(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The folder to write; must not exist.")
    ] = None,
    devices: Devices = None,
    quick: Quick = False,
    flops: Work = None,
    size: Size = None,
    max_devices: Most = None,
    level: Level = 0.95,
    as_json: AsJson = False,
) -> None:
    """Measure the devices that are here, fit, and say how many devices are best."""
    workload = _workload(flops, size)
    folder = _made(out or _new_folder())
    table = folder / "measurements.csv"
    try:
        measure(table, devices, effort_of(quick), quiet=as_json)
    finally:
        if not any(folder.iterdir()):
            folder.rmdir()  # nothing was measured, so the name stays free
    _stop_at_once(f"Stopped. What was measured is kept; go on with: scaleopt fit {table}")
    _conclude(table, _read(table), folder, workload, max_devices, level, as_json)


@app.command()
def fit(
    tables: Annotated[
        list[Path],
        typer.Argument(
            metavar="TABLE...", help="Tables that scaleopt probe wrote, on one machine."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A folder for report, figure and result; must not exist."),
    ] = None,
    flops: Work = None,
    size: Size = None,
    max_devices: Most = None,
    level: Level = 0.95,
    across: Annotated[
        bool, typer.Option("--across", help="Join tables that were not measured alike.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fit tables of measurements, and say how many devices are best."""
    from scaleopt.data.join import join_measurements
    from scaleopt.data.measurements import MeasurementError

    _stop_at_once("Stopped. Nothing was changed.")
    workload = _workload(flops, size)
    # All before a folder is made that a wrong table would leave empty.
    runs = [_read(table) for table in tables]
    try:
        measured = join_measurements(runs, across=across)
    except MeasurementError as error:
        _refuse(str(error))
    folder = None if out is None else _made(out)
    _conclude(tables[0], measured, folder, workload, max_devices, level, as_json)


def _stop_at_once(message: str) -> None:
    """From here on Ctrl-C ends the command with a word: nothing more is in need of keeping.

    A KeyboardInterrupt that unwinds through the compiler's own threads ends in a crash instead.
    """

    def stop(number: int, frame: object) -> None:
        typer.echo(f"\n{message}", err=True)
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, stop)


def _conclude(
    path: Path,
    measured: "Measurements",
    folder: Path | None,
    workload: tuple[float, float] | None,
    max_devices: int | None,
    level: float,
    as_json: bool,
) -> None:
    """Fit, decide, print, and write what was concluded."""
    from scaleopt.fitting.calibrate import calibrate
    from scaleopt.planning.choice import choose_devices, measured_workload
    from scaleopt.show.plots import save_step_time
    from scaleopt.show.record import record
    from scaleopt.show.text import report

    table, context = measured
    typer.echo("fitting …", err=True)
    try:
        fitted = calibrate(table)
    except ValueError as error:
        _refuse(f"{path}: {error}")
    workload = workload or measured_workload(table)
    choice = None
    if workload and not fitted.failure:
        # More devices than cores are measured when asked for, and never recommended unasked.
        real = table[~table["oversubscribed"].astype(bool)]
        most = max_devices or int(real["devices"].max())
        choice = choose_devices(fitted, *workload, max_devices=most, level=level)
    text = report(fitted, choice, context, level)
    result = json.dumps(record(fitted, choice, context, level), indent=2, ensure_ascii=False)
    if folder is not None:
        (folder / "report.txt").write_text(text + "\n", encoding="utf-8")
        (folder / "result.json").write_text(result + "\n", encoding="utf-8")
        if choice is not None and not choice.open:
            save_step_time(fitted, choice, folder / "step_time.png", level)
    typer.echo(result if as_json else text)
    if folder is not None and not as_json:
        written = ", ".join(sorted(file.name for file in folder.iterdir()))
        typer.echo(f"\nWritten to {folder}: {written}")
    if fitted.failure:
        raise typer.Exit(FIT_FAILED)


def _read(path: Path) -> "Measurements":
    """The table, its warnings said on standard error, its faults ending the command."""
    from scaleopt.data.measurements import MeasurementError, read_measurements

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            measured = read_measurements(path)
        except (MeasurementError, OSError) as error:
            _refuse(str(error))
    for warning in said:
        typer.echo(f"note: {warning.message}", err=True)
    return measured


def _workload(flops: str | None, size: str | None) -> tuple[float, float] | None:
    """Work and size as the user gave them; both or neither."""
    if flops is None and size is None:
        return None
    if flops is None or size is None:
        raise typer.BadParameter("--flops and --size describe one step: give both, or neither")
    from scaleopt.planning.optimum import check_workload
    from scaleopt.units import parse

    try:
        workload = parse(flops, "FLOP"), parse(size, "B")
        check_workload(*workload)
    except ValueError as error:
        raise typer.BadParameter(f"--flops or --size: {error}") from None
    return workload


def _made(folder: Path) -> Path:
    """The folder, new."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        _refuse(f"{folder} exists and is not overwritten; choose another --out")
    except OSError as error:
        _refuse(f"the folder {folder} cannot be made ({error.strerror}); choose another --out")
    return folder


def _new_folder() -> Path:
    """A folder named after the moment."""
    from probes.timing import timestamp

    moment = timestamp()[:19].replace("-", "").replace(":", "").replace("T", "-")
    return Path(f"scaleopt-run-{moment}")


def _refuse(message: str) -> NoReturn:
    """End the command with an error."""
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(UNUSABLE)
