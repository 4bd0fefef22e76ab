"""The options of measuring on a command line, and the effort they ask for."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from probes.plan import Effort

_PATIENT, _MANY = 5.0, 1000
"""Times the usual seconds that a wanted precision may take; rounds that it or a budget may buy."""
_RUN = 30.0
"""Seconds of a budget that a run is worth starting for."""

Devices = Annotated[
    int | None,
    typer.Option(
        "--devices", "-n", min=1, help="How many devices; on CPU more than cores are allowed."
    ),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Fewer sizes and rounds: seconds of measuring.")
]
Everything = Annotated[
    bool,
    typer.Option("--all", help="Every collective, memory, dispatch and transfers too: minutes."),
]
Processes = Annotated[
    int | None,
    typer.Option(
        "--processes", "-p", min=1, help="Start so many processes here; each has one CPU device."
    ),
]
Coordinator = Annotated[
    str | None,
    typer.Option(
        "--coordinator",
        metavar="HOST:PORT",
        help="Where the first of several processes, started one by one, is to be met by all.",
    ),
]
ProcessId = Annotated[
    int | None, typer.Option("--process-id", min=0, help="Which of them this is, from 0.")
]
NumProcesses = Annotated[
    int | None, typer.Option("--num-processes", min=1, help="How many of them there are.")
]
Patience = Annotated[
    float,
    typer.Option(min=1, help="Seconds without any movement until a process is taken to hang."),
]
Budget = Annotated[
    str | None,
    typer.Option(help="Seconds for all of it, such as '60 s'; fewer sizes where they are short."),
]
Precision = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        max=1.0,
        help="Stop once medians are known this well: 0.05 for ± 5 % at 95 % confidence.",
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the table of an interrupted run.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be measured and how long it takes.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs, nothing else.")]


def effort_of(
    quick: bool, everything: bool = False, budget: str | None = None, precision: float | None = None
) -> "Effort":
    """How much to measure, as the options say."""
    import math
    from dataclasses import replace

    from probes.plan import QUICK, SURVEY, THOROUGH

    effort = QUICK if quick else SURVEY if everything else THOROUGH
    if precision is not None:
        seconds = _PATIENT * effort.seconds
        effort = replace(effort, precision=precision, seconds=seconds, most_rounds=_MANY)
    if budget is None:
        return effort
    from scaleopt.units import parse

    try:
        seconds = parse(budget, "s")
    except ValueError as error:
        raise typer.BadParameter(f"--budget: {error}") from None
    if not 0 < seconds < math.inf:
        raise typer.BadParameter(f"--budget {budget}: it must be above 0 s")
    runs = min(effort.runs, max(int(seconds // _RUN), 1))
    return replace(effort, budget=seconds, seconds=math.inf, most_rounds=_MANY, runs=runs)
