"""The files a command reads and the folder it writes; what is wrong with them ends it."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from scaleopt.cli.ending import refuse

if TYPE_CHECKING:
    from scaleopt.data.measurements import Measurements


def read_table(path: Path) -> "Measurements":
    """The table, or a benchmark's log as one; what is to be said goes to standard error."""
    from scaleopt.data.measurements import MeasurementError
    from scaleopt.data.reading import is_table, read_measurements

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            if is_table(path):
                measured = read_measurements(path)
            else:
                from scaleopt.data.readers.read import read_log

                measured = read_log(path)
        except (MeasurementError, OSError) as error:
            refuse(sentence(error))
    for warning in warned:
        typer.echo(f"note: {warning.message}", err=True)
    if "imported" in measured.context:
        for text in import_summary(path, measured):
            typer.echo(text, err=True)
    return measured


def check_new(out: Path) -> None:
    """Refuse a file that cannot be written, before what goes into it takes its time."""
    if out.exists():
        refuse(f"{out} exists and is not overwritten; choose another --out")
    if not out.parent.is_dir():
        refuse(
            f"there is no folder {out.parent} for {out.name}, so the file {out} cannot be "
            "written; make it, or choose another --out"
        )


def sentence(error: Exception) -> str:
    """An error as a sentence: what the system says of a file without its number."""
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"there is no file {error.filename}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename} cannot be read or written ({error.strerror})"
    return str(error)


def import_summary(path: Path, measured: "Measurements") -> list[str]:
    """What was read of a log: format, rows, operations, sizes, devices, skipped lines, notes."""
    from scaleopt.units import format_si

    table, context = measured
    found = context["imported"]
    sizes = sorted(table["size_bytes"].dropna().unique())
    span = f"{format_si(sizes[0], 'B')} to {format_si(sizes[-1], 'B')}" if sizes else "none"
    said = [
        f"{path}: {found['format']}, {len(table)} rows",
        f"  operations: {', '.join(dict.fromkeys(table['op']))}",
        f"  sizes: {len(sizes)}, {span}",
        f"  devices: {', '.join(str(n) for n in sorted(table['devices'].unique()))}",
        f"  skipped lines: {found['skipped']} of {found['lines']}",
    ]
    said += [
        f"    line {it['line']}: {it['why']}: {it['text']}" for it in found["skipped_lines"][:5]
    ]
    if found["skipped"] > 5:
        said += [f"    … and {found['skipped'] - 5} more"]
    return said + [f"  note: {note}" for note in context["notes"]]


def made(folder: Path) -> Path:
    """The folder, new."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        refuse(f"{folder} exists and is not overwritten; choose another --out")
    except OSError as error:
        refuse(f"the folder {folder} cannot be made ({error.strerror}); choose another --out")
    return folder
