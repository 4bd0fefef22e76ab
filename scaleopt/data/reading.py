"""A table read back unforgiving: whatever is wrong is refused, naming file, line, rule and remedy.

Only a last line that an interrupted run cut off is dropped, with a warning. A CSV that begins with
our column names is a table of which no context is known.
"""

import csv
import io
import json
import math
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from scaleopt.data.measurements import (
    MAGIC,
    SCHEMA_VERSION,
    MeasurementError,
    Measurements,
    TruncatedLineWarning,
    names_with,
    unknown_column,
)
from scaleopt.data.schema import COLUMNS, NAMED, complaint

LONGEST = 4096
"""Bytes of a first line that are looked at."""
_MEASURE_AGAIN = "measure again with 'scaleopt probe'"


def read_measurements(path: str | Path) -> Measurements:
    """Read a table, refusing whatever is not right in it.

    Args:
        path: a file that `write_measurements` or a probe wrote, or a CSV with these columns.

    Returns:
        The table (numbers as floats, counts as integers, empty cells as NaN) and its context.

    Raises:
        MeasurementError: the first fault, with file, line, rule and remedy.
        FileNotFoundError: there is no such file.

    Warns:
        TruncatedLineWarning: the last line was cut off and was dropped.
    """
    text = Path(path).read_text(encoding="utf-8-sig", errors="replace")
    if not text:
        raise MeasurementError(f"{path}: the file is empty; measure again with 'scaleopt probe'")
    lines = text.split("\n")
    cut = lines.pop()
    plain = names_ours((lines or [cut])[0])
    if plain and cut:  # of a file that was not written row by row
        lines.append(cut)
        cut = ""
    context = {} if plain else _read_first_line(path, (lines or [cut])[0])
    head = 1 if plain else 2
    if len(lines) < head:
        raise MeasurementError(f"{path}:2: the line of column names is missing; {_MEASURE_AGAIN}")
    names = [name.strip() for name in next(csv.reader([lines[head - 1]]), [])]
    _check_names(f"{path}:{head}", names)
    if cut:
        notice = f"{path}:{len(lines) + 1}: the last line was cut off and is dropped: {cut[:60]!r}"
        warnings.warn(notice, TruncatedLineWarning, stacklevel=2)
    table = _read_rows(path, head, names, lines[head:])
    if table.empty:
        raise MeasurementError(f"{path}: the table has no rows; {_MEASURE_AGAIN}")
    return Measurements(table, context)


def is_table(path: str | Path) -> bool:
    """Whether a file begins as a table of ours does, and not as another's log.

    Raises:
        OSError: the file cannot be read.
    """
    with Path(path).open("rb") as file:
        start = file.readline(LONGEST)
    named = names_ours(start.decode("utf-8-sig", "replace"))
    return start.startswith(MAGIC.encode()) or named or not start


def names_ours(line: str) -> bool:
    """Whether a line names at least two of the columns that every table of ours has."""
    names = {name.strip() for name in line.split(",")}
    return len(names & {column.name for column in COLUMNS if column.required}) > 1


def _read_first_line(path: str | Path, line: str) -> dict[str, Any]:
    parts = line.rstrip("\r").split(" ", 3)
    if " ".join(parts[:2]) != MAGIC or len(parts) < 4:
        raise MeasurementError(
            f"{path}:1: not a scaleopt table: the first line must be "
            f"'{MAGIC} {SCHEMA_VERSION} {{context}}' and is {line[:60]!r}"
        )
    if parts[2] != str(SCHEMA_VERSION):
        raise MeasurementError(
            f"{path}:1: schema version {parts[2]} is not known, this release reads "
            f"{SCHEMA_VERSION}; update scaleopt, or measure again"
        )
    try:
        context = json.loads(parts[3])
    except json.JSONDecodeError as error:
        raise MeasurementError(
            f"{path}:1: the context is not JSON ({error}); restore the line, or write {{}}"
        ) from None
    if not isinstance(context, dict):
        raise MeasurementError(f"{path}:1: the context must be a JSON object, such as {{}}")
    return context


def _check_names(where: str, names: list[str]) -> None:
    for name in names:
        if name not in NAMED:
            raise MeasurementError(f"{where}: {unknown_column(name)}")
        if names.count(name) > 1:
            raise MeasurementError(f"{where}: column {name!r} stands twice; keep one")
    for column in COLUMNS:
        if column.required and column.name not in names:
            raise MeasurementError(
                f"{where}: column {column.name!r} is missing; every table needs it: "
                f"{column.meaning}"
            )


def _read_rows(path: str | Path, head: int, names: list[str], lines: list[str]) -> pd.DataFrame:
    reader = csv.reader(io.StringIO("\n".join(lines)))
    records: list[list[str]] = []
    for record in reader:
        number = reader.line_num + head
        if len(record) != len(names):
            raise MeasurementError(
                f"{path}:{number}: {len(record)} cells where {len(names)} columns are; "
                "mend or delete the line"
            )
        for name, text in zip(names, record, strict=True):
            problem = complaint(NAMED[name], text)
            if problem:
                raise MeasurementError(f"{path}:{number}: {problem}")
        records.append(record)
    table = pd.DataFrame(records, columns=pd.Index(names), dtype=str)
    return table.reindex(columns=names_with(names), fill_value="").apply(_typed)


def _typed(cells: "pd.Series[str]") -> "pd.Series[Any]":
    """A column of text as the type its schema gives it."""
    column = NAMED[str(cells.name)]
    if column.kind in ("text", "op", "method", "choice"):
        return cells
    numbers = pd.Series([float(text) if text else math.nan for text in cells], dtype=float)
    if column.kind == "flag":
        return numbers.fillna(0).astype(bool)
    whole = column.kind == "whole" and bool(numbers.notna().all())
    return numbers.astype(int) if whole else numbers
