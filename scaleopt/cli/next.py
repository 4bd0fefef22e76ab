"""`scaleopt next`: what to measure next, for the device-seconds it takes."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from probes.options import AsJson
from scaleopt.cli.conclude import FIT_FAILED
from scaleopt.cli.ending import refuse, stop_at_once
from scaleopt.cli.files import read_table
from scaleopt.cli.options import Most, Size, Work, workload_of

if TYPE_CHECKING:
    import pandas as pd

TARGETS = ("devices", "time")
_HARDLY = 0.9
"""Share of a deviation from which on what is left is hardly less."""
_CELL = ["op", "devices", "flops", "size_bytes"]


def next_(
    tables: Annotated[
        list[Path],
        typer.Argument(
            metavar="TABLE...", help="Tables that scaleopt probe wrote, on one machine."
        ),
    ],
    flops: Work = None,
    size: Size = None,
    max_devices: Most = None,
    target: Annotated[
        str,
        typer.Option(
            help="What to sharpen: 'devices', the best number of them, or 'time', that of a step "
            "on --max-devices."
        ),
    ] = "devices",
    count: Annotated[int, typer.Option(min=1, help="How many measurements to choose.")] = 10,
    across: Annotated[
        bool, typer.Option("--across", help="Join tables that were not measured alike.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say which measurements sharpen the answer most for their device-seconds."""
    from scaleopt.data.join import join_measurements
    from scaleopt.data.measurements import MeasurementError
    from scaleopt.fitting.calibrate import calibrate
    from scaleopt.fitting.design import next_measurement
    from scaleopt.planning.devices.choice import measured_workload
    from scaleopt.planning.devices.optimum import optimal_devices

    stop_at_once("Stopped. Nothing was changed.")
    if target not in TARGETS:
        raise typer.BadParameter(f"--target {target}: choose one of {', '.join(TARGETS)}")
    workload = workload_of(flops, size)
    try:
        table, _ = join_measurements([read_table(path) for path in tables], across=across)
        fitted = calibrate(table)
    except (MeasurementError, ValueError) as error:
        refuse(str(error))
    workload = workload or measured_workload(table)
    if workload is None:
        refuse("the tables have no steps on several devices; give --flops and --size of yours")
    if fitted.failure:
        typer.echo(f"error: the fit failed: {fitted.failure}", err=True)
        raise typer.Exit(FIT_FAILED)
    most = max_devices or int(table["devices"].max())
    aims = {
        "devices": lambda step: optimal_devices(step, *workload),
        "time": lambda step: step(most, *workload),
    }
    try:
        chosen = next_measurement(
            fitted, candidates(table, workload, most), target=aims[target], count=count
        )
    except ValueError as error:
        refuse(str(error))
    lines = summed_up(chosen)
    if as_json:
        typer.echo(json.dumps(lines.to_dict(orient="records"), indent=2))
    else:
        typer.echo(described(lines, target, most, chosen))


def candidates(table: "pd.DataFrame", workload: tuple[float, float], most: int) -> "pd.DataFrame":
    """The cells of the table, and the workload's own step, on every power of two up to the most."""
    import pandas as pd

    from scaleopt.fitting.calibrate import KINDS

    cells = table[table["op"].isin(KINDS)].reindex(columns=_CELL).drop_duplicates()
    own = pd.DataFrame([("step", 1, *workload)], columns=pd.Index(_CELL))
    kinds = pd.concat([cells, own], ignore_index=True).drop(columns="devices").drop_duplicates()
    counts = [2**power for power in range(most.bit_length()) if 2**power <= most]
    devices = pd.DataFrame({"devices": sorted({*counts, most})})
    spread = kinds.merge(devices, how="cross")
    sensible = (spread["op"] != "all_reduce") | (spread["devices"] > 1)
    return pd.concat([cells, spread[sensible]])[_CELL].drop_duplicates().reset_index(drop=True)


def summed_up(chosen: "pd.DataFrame") -> "pd.DataFrame":
    """A row a cell, in the order in which each was chosen first, with how often it was."""
    cells = chosen.groupby(_CELL, dropna=False, sort=False)
    return cells.agg(
        times=("cost_s", "size"), predicted_s=("predicted_s", "first"), cost_s=("cost_s", "sum")
    ).reset_index()


def described(lines: "pd.DataFrame", target: str, most: int, chosen: "pd.DataFrame") -> str:
    """The choice as a person reads it."""
    from scaleopt.units import format_si

    said = [f"{'measure':<12}{'devices':>8}{'work':>14}{'size':>12}{'times':>7}{'each':>12}"]
    for row in lines.to_dict(orient="records"):
        work = format_si(row["flops"], "FLOP") if row["flops"] > 0 else "–"
        size = format_si(row["size_bytes"], "B") if row["size_bytes"] > 0 else "–"
        each = format_si(row["predicted_s"], "s")
        said.append(
            f"{row['op']:<12}{row['devices']:>8g}{work:>14}{size:>12}{row['times']:>7}{each:>12}"
        )
    aim = "the best number of devices" if target == "devices" else f"the time on {most} devices"
    cost = float(chosen["cost_s"].sum())
    now, then = float(chosen["deviation_before"].iloc[0]), float(chosen["deviation"].iloc[-1])
    unit = "1" if target == "devices" else "s"
    before, after = (f"± {format_si(each, unit).removesuffix(' 1')}" for each in (now, then))
    said.append(
        f"Together {format_si(cost, 's')} of devices; {aim} is known to {before} now, and is then "
        f"known to about {after} (one standard deviation)."
    )
    if then > _HARDLY * now:
        said.append(
            "That is hardly sharper, though these tell most for what they cost. Ask for more of "
            "them with --count."
        )
    return "\n".join(said)
