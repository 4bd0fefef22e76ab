"""What `run` and `fit` have in common: fit, decide, print, write."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from scaleopt.cli.ending import refuse

if TYPE_CHECKING:
    from scaleopt.data.measurements import Measurements

FIT_FAILED = 4
"""Exit code of a fit that failed."""


def conclude(
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
        refuse(f"{path}: {error}")
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
        if not fitted.failure:
            # Loaded only where it is drawn, since a fit without a folder is not to wait for it.
            from scaleopt.show.diagnostics import save_diagnostics

            save_diagnostics(fitted, folder / "diagnostics.png", level)
    typer.echo(result if as_json else text)
    if folder is not None and not as_json:
        written = ", ".join(sorted(file.name for file in folder.iterdir()))
        typer.echo(f"\nWritten to {folder}: {written}")
    if fitted.failure:
        raise typer.Exit(FIT_FAILED)
