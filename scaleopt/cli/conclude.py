"""What `run` and `fit` have in common: fit, decide, print, write."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    from scaleopt.fitting.calibrate import KINDS, calibrate
    from scaleopt.fitting.collective_rows import PASSES
    from scaleopt.planning.devices.choice import choose_devices, measured_workload
    from scaleopt.show.record import record
    from scaleopt.show.text import report

    table, context = measured
    typer.echo("fitting …", err=True)
    if not set(table["op"]) & {*KINDS, "train_step"} and set(table["op"]) & {*PASSES}:
        _conclude_collectives(path, measured, folder, level, as_json)
        return
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

    def draw(folder: Path) -> None:
        # Loaded only where it is drawn, since a fit without a folder is not to wait for it.
        if choice is not None and not choice.open:
            from scaleopt.show.plots import save_step_time

            save_step_time(fitted, choice, folder / "step_time.png", level)
        if not fitted.failure:
            from scaleopt.show.diagnostics import save_diagnostics

            save_diagnostics(fitted, folder / "diagnostics.png", level)

    text = report(fitted, choice, context, level)
    found = record(fitted, choice, context, level)
    _tell(text, found, folder, as_json, draw, failed=fitted.failure is not None)


def _conclude_collectives(
    path: Path, measured: "Measurements", folder: Path | None, level: float, as_json: bool
) -> None:
    """The same of collectives alone, which no step's model explains."""
    from scaleopt.fitting.collective import fit_collective
    from scaleopt.show.collectives import record_collectives, report_collectives

    table, context = measured
    try:
        fitted = fit_collective(table)
    except ValueError as error:
        refuse(f"{path}: {error}")

    def draw(folder: Path) -> None:
        if not fitted.failure:
            from scaleopt.show.diagnostics import draw_residuals

            draw_residuals(fitted, table, level=level).savefig(folder / "diagnostics.png")

    text = report_collectives(fitted, table, context, level)
    found = record_collectives(fitted, table, context, level)
    _tell(text, found, folder, as_json, draw, failed=fitted.failure is not None)


def _tell(
    text: str,
    found: dict[str, Any],
    folder: Path | None,
    as_json: bool,
    draw: Callable[[Path], None],
    *,
    failed: bool,
) -> None:
    """Write what was concluded, print the one or the other, and end as the fit did."""
    result = json.dumps(found, indent=2, ensure_ascii=False)
    if folder is not None:
        (folder / "report.txt").write_text(text + "\n", encoding="utf-8")
        (folder / "result.json").write_text(result + "\n", encoding="utf-8")
        draw(folder)
    typer.echo(result if as_json else text)
    if folder is not None and not as_json:
        written = ", ".join(sorted(file.name for file in folder.iterdir()))
        typer.echo(f"\nWritten to {folder}: {written}")
    if failed:
        raise typer.Exit(FIT_FAILED)
