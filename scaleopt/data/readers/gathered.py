"""The rows that readers make, until they are a table: those of a long log kept as columns."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from scaleopt.data.measurements import MeasurementError
from scaleopt.data.schema import COLUMNS, NAMES

FULL = 50_000
"""Rows that are kept as they are made; more are packed into columns, a tenth of the memory."""
MOST = 10_000_000
"""Rows of one file: as columns, somewhat over a gigabyte."""


class Gathered:
    """Rows of the schema, added one after another."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._packed: list[pd.DataFrame] = []
        self._count = 0

    def __len__(self) -> int:
        """How many rows there are."""
        return self._count

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Take rows.

        Raises:
            MeasurementError: there are more than any table of measurements is worth.
        """
        for row in rows:
            self.rows.append(row)
            self._count += 1
            if len(self.rows) >= FULL:
                self._packed.append(_typed(self.rows))
                self.rows = []
                if self._count > MOST:
                    raise MeasurementError(
                        f"more than {MOST} rows in one file; import a part of it"
                    )

    def table(self) -> pd.DataFrame:
        """The rows with every column of the schema, typed as a table read from disk is."""
        parts = [*self._packed, _typed(self.rows)] if self.rows else self._packed
        table = pd.concat(parts, ignore_index=True)
        for column in COLUMNS:
            if column.kind == "whole" and table[column.name].notna().all():
                table[column.name] = table[column.name].astype(int)
        return table


def _typed(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows as columns: text, flags and numbers."""
    table = pd.DataFrame(rows).reindex(columns=list(NAMES))
    for column in COLUMNS:
        cells = table[column.name]
        if column.kind in ("text", "op", "method"):
            table[column.name] = cells.astype(object).fillna("").astype(str)
        elif column.kind == "flag":
            table[column.name] = False
        else:
            table[column.name] = cells.astype(float)
    return table
