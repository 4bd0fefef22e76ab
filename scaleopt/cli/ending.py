"""How a command ends early: refused, or stopped by Ctrl-C."""

import os
import signal
from typing import NoReturn

import typer

from probes.measure import INTERRUPTED, UNUSABLE


def refuse(message: str) -> NoReturn:
    """End the command with an error."""
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(UNUSABLE)


def stop_at_once(message: str) -> None:
    """From here on Ctrl-C ends the command with a word: nothing more is in need of keeping.

    A KeyboardInterrupt that unwinds through the compiler's own threads ends in a crash instead.
    """

    def stop(number: int, frame: object) -> None:
        typer.echo(f"\n{message}", err=True)
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, stop)
