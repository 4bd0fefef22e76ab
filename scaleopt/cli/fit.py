"""`scaleopt fit`: fit tables of measurements, and decide."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from probes.options import AsJson
from scaleopt.cli.conclude import conclude
from scaleopt.cli.ending import refuse, stop_at_once
from scaleopt.cli.files import made, read_table
from scaleopt.cli.options import Level, Most, Size, Work, workload_of

if TYPE_CHECKING:
    from scaleopt.data.measurements import Measurements


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

    stop_at_once("Stopped. Nothing was changed.")
    workload = workload_of(flops, size)
    # All before a folder is made that a wrong table would leave empty.
    runs = [read_table(table) for table in tables]
    try:
        measured = join_measurements(runs, across=across)
    except MeasurementError as error:
        refuse(str(error))
    # A log's name stands in its context already; a table that was probed has none.
    probed = [path.name for path, run in zip(tables, runs, strict=True) if _probed(run)]
    if probed and len(runs) > 1:
        measured = measured._replace(context={"table": ", ".join(probed)} | measured.context)
    folder = None if out is None else made(out)
    conclude(tables[0], measured, folder, workload, max_devices, level, as_json)


def _probed(run: "Measurements") -> bool:
    """Whether a table is no log's."""
    return "imported" not in run.context
