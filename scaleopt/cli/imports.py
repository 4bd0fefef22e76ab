"""`scaleopt import`: the logs of other benchmarks as one table."""

from pathlib import Path
from typing import Annotated

import typer

from scaleopt.cli.ending import refuse
from scaleopt.cli.files import check_new, import_summary, sentence


def import_logs(
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG...", help="Logs of nccl-tests, OSU, IMB …; CSV, JSON, Parquet."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The table to write; must not exist.")],
    maps: Annotated[
        list[str] | None,
        typer.Option("--map", help="A column of ours = one of the file's, as time_s=time_us:us."),
    ] = None,
    devices: Annotated[
        int | None, typer.Option(min=1, help="How many devices, in place of what the log says.")
    ] = None,
    nodes: Annotated[
        int | None, typer.Option(min=1, help="How many hosts, in place of what the log says.")
    ] = None,
    op: Annotated[
        str | None, typer.Option(help="The operation, in place of what the log says.")
    ] = None,
    across: Annotated[
        bool, typer.Option("--across", help="Join logs that were not measured alike.")
    ] = False,
) -> None:
    """Read the logs of other benchmarks into a table that fit understands."""
    from scaleopt.data.join import join_measurements
    from scaleopt.data.measurements import MeasurementError, write_measurements
    from scaleopt.data.readers.read import read_log

    mapping = dict(_pair(text) for text in maps or [])
    check_new(out)
    runs = []
    try:
        for log in logs:
            run = read_log(log, devices=devices, nodes=nodes, op=op, mapping=mapping)
            typer.echo("\n".join(import_summary(log, run)))
            runs.append(run)
        table, context = join_measurements(runs, across=across)
        write_measurements(out, table, context)
    except (MeasurementError, OSError) as error:
        refuse(sentence(error))
    typer.echo(f"{len(table)} rows written to {out}")


def _pair(text: str) -> tuple[str, str]:
    """A mapping as it was typed."""
    name, equals, source = text.partition("=")
    if not equals or not name or not source:
        raise typer.BadParameter(f"--map {text}: write COLUMN=THEIRS, as devices=num_gpus")
    return name, source
