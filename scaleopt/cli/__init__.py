"""The command line: `scaleopt run`, or its parts `probe` and `fit`; one file a command.

Exit codes: 0 well; 2 wrong usage; 3 an input or a machine that does not allow what was asked;
4 a fit that failed; 5 a plan whose limits nothing keeps; 130 stopped by Ctrl-C. Nothing heavy is
imported before a command needs it.
"""

import gc
from typing import Annotated

import typer

from probes.__main__ import probe
from scaleopt import __version__
from scaleopt.cli.export import export
from scaleopt.cli.fit import fit
from scaleopt.cli.imports import import_logs
from scaleopt.cli.next import next_
from scaleopt.cli.plan import plan
from scaleopt.cli.run import run

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its panels cost help a tenth of a second
    help="Measure a few devices, fit a scaling law, decide how many to use.",
)
app.command("run")(run)
app.command("probe")(probe)
app.command("import")(import_logs)
app.command("fit")(fit)
app.command("next")(next_)
app.command("plan")(plan)
app.command("export")(export)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


_MEASURING = ("run", "probe")


def _collect_nothing(context: typer.Context) -> None:
    """Look for no garbage until the command ends, nor for what it leaves.

    Modules are a million objects that live as long as the command: to go through them while they
    load, and once more at the end, takes two thirds of a second.
    """
    gc.disable()
    context.call_on_close(gc.enable)
    context.call_on_close(gc.freeze)


@app.callback()
def main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Measure a few devices, fit a scaling law, decide how many to use."""
    if context.invoked_subcommand not in _MEASURING:
        _collect_nothing(context)
