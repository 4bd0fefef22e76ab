"""The files a command reads and the folder it writes; what is wrong with them ends it."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from scaleopt.cli.ending import refuse

if TYPE_CHECKING:
    from scaleopt.data.measurements import Measurements


def read_table(path: Path) -> "Measurements":
    """The table, its warnings said on standard error, its faults ending the command."""
    from scaleopt.data.measurements import MeasurementError, read_measurements

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            measured = read_measurements(path)
        except (MeasurementError, OSError) as error:
            refuse(str(error))
    for warning in said:
        typer.echo(f"note: {warning.message}", err=True)
    return measured


def made(folder: Path) -> Path:
    """The folder, new."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        refuse(f"{folder} exists and is not overwritten; choose another --out")
    except OSError as error:
        refuse(f"the folder {folder} cannot be made ({error.strerror}); choose another --out")
    return folder
