"""The table on disk: a CSV that an interrupted run leaves whole.

The first line is ``# scaleopt-measurements 1 {context as JSON}``, the second the column names.
`MeasurementWriter` appends and flushes each row as it is measured, so a crash costs at most the
row being written; `scaleopt.data.reading` reads it.
"""

import csv
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from scaleopt.data.schema import NAMED, NAMES, TRAINING, complaint

SCHEMA_VERSION = 1
MAGIC = "# scaleopt-measurements"


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
        self._names = names_with(training)
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
            raise MeasurementError(f"{self.path}: {unknown_column(name)}")
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


def taken(path: str | Path) -> str:
    """The complaint that a file is there already, and what to do."""
    remedy = "choose another --out, move the file away, or go on with it by --resume"
    return f"{path} exists and is not overwritten; {remedy}"


def names_with(training: Iterable[str]) -> list[str]:
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


def _first_line(context: Mapping[str, Any]) -> str:
    return f"{MAGIC} {SCHEMA_VERSION} {json.dumps(dict(context), ensure_ascii=False)}\n"


def _cell(value: object) -> str:
    """A value as the CSV holds it: shortest exact decimal, flags as 0 and 1, missing as empty."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(float(value))
    return str(value)


def unknown_column(name: str) -> str:
    """The complaint about a column name, which guesses at a wrong unit."""
    quantity = name.rsplit("_", 1)[0]
    for known in NAMED:
        if quantity and quantity == known.rsplit("_", 1)[0] and "_" in name + known:
            return f"column {name!r} is not known; use {known!r}, in SI units"
    return f"column {name!r} is not known; the columns are {', '.join(NAMED)}"
