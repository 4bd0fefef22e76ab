"""The table on disk: a CSV that an interrupted run leaves whole, and that is read back unforgiving.

The first line is ``# scaleopt-measurements 1 {context as JSON}``, the second the column names; a
CSV that begins with our column names is a table of which no context is known.
`MeasurementWriter` appends and flushes each row as it is measured, so a crash costs at most the
row being written; `read_measurements` drops such a cut last line with a warning, and refuses
anything else that is wrong, naming file, line, rule and remedy.
"""

import csv
import io
import json
import math
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from scaleopt.data.schema import COLUMNS, NAMED, NAMES, TRAINING, complaint

SCHEMA_VERSION = 1
_MAGIC = "# scaleopt-measurements"
_LONGEST = 4096
"""Bytes of a first line that are looked at."""


class MeasurementError(ValueError):
    """A table of measurements that cannot be used; says where, why and what to do."""


class TruncatedLineWarning(UserWarning):
    """The last line of a table was cut off, as by an interrupted run, and was dropped."""


class Measurements(NamedTuple):
    """A table of rows and the context they were measured in."""

    table: pd.DataFrame
    context: dict[str, Any]


class MeasurementWriter:
    """Appends rows to a table, each handed to the operating system before the next is measured.

    Args:
        path: the file to create; one that exists is refused, so nothing measured is lost.
        context: what was true of the whole run; must be expressible as JSON.
        training: the columns of `train_step` rows that the table needs.
        resume: whether the file is one to go on with: its rows stay, a line that was cut off is
            taken out, and `context` is not written.

    Raises:
        FileExistsError: the file is there already, and is not to be gone on with.
        FileNotFoundError: there is none to go on with.
    """

    def __init__(
        self,
        path: str | Path,
        context: Mapping[str, Any],
        *,
        training: Iterable[str] = (),
        resume: bool = False,
    ) -> None:
        self.path = Path(path)
        self.rows = 0
        self._names = _names_with(training)
        if resume:
            _cut_last_line(self.path)
            self._names = _names_in(self.path)
        try:
            self._file = self.path.open("a" if resume else "x", encoding="utf-8", newline="")
        except FileExistsError:
            raise FileExistsError(taken(path)) from None
        self._csv = csv.DictWriter(self._file, self._names, lineterminator="\n")
        if not resume:
            self._file.write(_first_line(context))
            self._csv.writeheader()
            self._file.flush()

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one row and flush it.

        Raises:
            MeasurementError: a column that does not exist, or a value that may not be there.
        """
        cells = {name: _cell(value) for name, value in row.items()}
        for name in cells.keys() - set(self._names):
            raise MeasurementError(f"{self.path}: {_unknown_column(name)}")
        for name in self._names:
            problem = complaint(NAMED[name], cells.get(name, ""))
            if problem:
                raise MeasurementError(f"{self.path}: row {self.rows + 1} not written: {problem}")
        self._csv.writerow(cells)
        self._file.flush()
        self.rows += 1

    def close(self) -> None:
        """Close the file; every row appended is in it."""
        self._file.close()

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()


def write_measurements(path: str | Path, table: pd.DataFrame, context: Mapping[str, Any]) -> None:
    """Write a whole table to a new file.

    Args:
        path: the file to create.
        table: rows with columns of the schema; those it lacks stay empty.
        context: what was true of the whole run.

    Raises:
        MeasurementError: a column or a value that the schema refuses, with its row.
        FileExistsError: the file is there already.
    """
    with MeasurementWriter(path, context, training=map(str, table.columns)) as writer:
        for row in table.to_dict("records"):
            writer.append({str(name): value for name, value in row.items()})


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
    plain = _names_ours((lines or [cut])[0])
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


def taken(path: str | Path) -> str:
    """The complaint that a file is there already, and what to do."""
    remedy = "choose another --out, move the file away, or go on with it by --resume"
    return f"{path} exists and is not overwritten; {remedy}"


def is_table(path: str | Path) -> bool:
    """Whether a file begins as a table of ours does, and not as another's log.

    Raises:
        OSError: the file cannot be read.
    """
    with Path(path).open("rb") as file:
        start = file.readline(_LONGEST)
    named = _names_ours(start.decode("utf-8-sig", "replace"))
    return start.startswith(_MAGIC.encode()) or named or not start


def _names_with(training: Iterable[str]) -> list[str]:
    """The columns of a table that has these of `train_step` rows."""
    wanted = set(training)
    return [*NAMES, *(column.name for column in TRAINING if column.name in wanted)]


def _names_in(path: Path) -> list[str]:
    """The columns of a table that is there."""
    with path.open(encoding="utf-8", newline="") as file:
        file.readline()
        return next(csv.reader([file.readline()]), [])


def _cut_last_line(path: Path) -> None:
    """Take out a last line that does not end, as an interrupted run leaves it."""
    with path.open("rb+") as file:
        whole = file.read()
        file.truncate(whole.rfind(b"\n") + 1)


def _names_ours(line: str) -> bool:
    """Whether a line names at least two of the columns that every table of ours has."""
    names = {name.strip() for name in line.split(",")}
    return len(names & {column.name for column in COLUMNS if column.required}) > 1


_MEASURE_AGAIN = "measure again with 'scaleopt probe'"


def _first_line(context: Mapping[str, Any]) -> str:
    return f"{_MAGIC} {SCHEMA_VERSION} {json.dumps(dict(context), ensure_ascii=False)}\n"


def _cell(value: object) -> str:
    """A value as the CSV holds it: shortest exact decimal, flags as 0 and 1, missing as empty."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(float(value))
    return str(value)


def _read_first_line(path: str | Path, line: str) -> dict[str, Any]:
    parts = line.rstrip("\r").split(" ", 3)
    if " ".join(parts[:2]) != _MAGIC or len(parts) < 4:
        raise MeasurementError(
            f"{path}:1: not a scaleopt table: the first line must be "
            f"'{_MAGIC} {SCHEMA_VERSION} {{context}}' and is {line[:60]!r}"
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
            raise MeasurementError(f"{where}: {_unknown_column(name)}")
        if names.count(name) > 1:
            raise MeasurementError(f"{where}: column {name!r} stands twice; keep one")
    for column in COLUMNS:
        if column.required and column.name not in names:
            raise MeasurementError(
                f"{where}: column {column.name!r} is missing; every table needs it: "
                f"{column.meaning}"
            )


def _unknown_column(name: str) -> str:
    """The complaint about a column name, which guesses at a wrong unit."""
    quantity = name.rsplit("_", 1)[0]
    for known in NAMED:
        if quantity and quantity == known.rsplit("_", 1)[0] and "_" in name + known:
            return f"column {name!r} is not known; use {known!r}, in SI units"
    return f"column {name!r} is not known; the columns are {', '.join(NAMED)}"


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
    return table.reindex(columns=_names_with(names), fill_value="").apply(_typed)


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
