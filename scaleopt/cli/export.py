"""`scaleopt export`: a fit as the constants of another tool."""

from pathlib import Path
from typing import Annotated

import typer

from scaleopt.cli.ending import refuse, stop_at_once
from scaleopt.cli.files import check_new, read_table, sentence
from scaleopt.cli.options import Level


def export(
    format_: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT", help="xla, nccl, calculon, astra-sim, taccl, simai, skypilot or json."
        ),
    ],
    table: Annotated[Path, typer.Argument(help="A table, or a benchmark's log.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write; must not exist.")
    ] = None,
    level: Level = 0.95,
) -> None:
    """Fit a table, and write its constants as another tool reads them."""
    from scaleopt.fitting.calibrate import calibrate
    from scaleopt.show.export import registry

    stop_at_once("Stopped.")
    try:
        registry.check_format(format_)
    except ValueError as error:
        refuse(str(error))
    if out is not None:
        check_new(out)
    try:
        measured = read_table(table)
        context = measured.context
        if "imported" not in context:
            context = {"table": table.name} | context
        made = registry.exported(calibrate(measured.table), format_, level=level, context=context)
    except ValueError as error:
        refuse(f"{table}: {error}")
    if out is None:
        typer.echo(made.text, nl=False)
    else:
        try:
            with out.open("x", encoding="utf-8") as file:
                file.write(made.text)
        except OSError as error:
            refuse(sentence(error))
    for unsaid in made.unsaid:
        # Comments that stand on the terminal have said it.
        if out is not None or unsaid not in made.text:
            typer.echo(f"not expressed: {unsaid}", err=True)
