"""`scaleopt plan`: the best devices, batch and split of a training run, from a TOML file."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from probes.options import AsJson
from scaleopt.cli.ending import refuse, stop_at_once
from scaleopt.cli.files import check_new, sentence

if TYPE_CHECKING:
    from scaleopt.planning.searching.search import Tiles

INFEASIBLE = 5
"""Exit code where nothing keeps every limit."""


def plan(
    file: Annotated[
        Path, typer.Argument(metavar="RUN.TOML", help="Model, run and offers; see examples/.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A CSV of the best configurations; must not exist."),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="How many of them.")] = 100,
    pareto: Annotated[
        bool, typer.Option("--pareto", help="Write the Pareto front of time, cost, memory instead.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Choose devices, batch and sharding for a training run."""
    from scaleopt.planning.asking.wish_list import plan_from_file

    stop_at_once("Stopped.")
    if out is not None:
        check_new(out)
    try:
        found = plan_from_file(file, watch=iter if as_json else _progress)
        if out is not None:
            listed = found.pareto() if pareto else found.table(rows)
            with out.open("x", encoding="utf-8") as file_:
                listed.to_csv(file_, index=False)
    except (ValueError, TypeError, OSError) as error:
        refuse(sentence(error))
    if as_json:
        typer.echo(json.dumps(found.record(), indent=2, allow_nan=False))
    else:
        typer.echo(found.explain())
    if found.best is None:
        raise typer.Exit(INFEASIBLE)


def _progress(tiles: "Tiles") -> "Tiles":
    """A line that counts, on a terminal alone, and nothing for what is done in a moment."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield from tiles
        return
    columns = SpinnerColumn(), TextColumn("{task.completed:,} layouts"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("", total=None)
        for tile, true in tiles:
            yield tile, true
            shown.advance(task, true)
