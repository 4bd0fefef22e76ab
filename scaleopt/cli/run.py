"""`scaleopt run`: measure, fit, and decide."""

from pathlib import Path
from typing import Annotated

import typer

from probes.measure import Alone, measure
from probes.options import AsJson, Devices, Quick, effort_of
from scaleopt.cli.conclude import conclude
from scaleopt.cli.ending import stop_at_once
from scaleopt.cli.files import made, read_table
from scaleopt.cli.options import Level, Most, Size, Work, workload_of


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
    workload = workload_of(flops, size)
    folder = made(out or _new_folder())
    table = folder / "measurements.csv"
    try:
        measure(table, Alone(devices), effort_of(quick), quiet=as_json)
    finally:
        if not any(folder.iterdir()):
            folder.rmdir()  # nothing was measured, so the name stays free
    stop_at_once(f"Stopped. What was measured is kept; go on with: scaleopt fit {table}")
    conclude(table, read_table(table), folder, workload, max_devices, level, as_json)


def _new_folder() -> Path:
    """A folder named after the moment."""
    from probes.timing import timestamp

    moment = timestamp()[:19].replace("-", "").replace(":", "").replace("T", "-")
    return Path(f"scaleopt-run-{moment}")
