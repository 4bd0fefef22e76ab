"""What an observation takes, from the columns of a table: one naming for fits, forecasts, plans."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from scaleopt.data.schema import operations

COLUMN_OF = {
    "devices": "devices",
    "nodes": "nodes",
    "flops": "flops",
    "size": "size_bytes",
    "moved_bytes": "moved_bytes",
    "injected": "injected_s",
}
"""Which column a model's argument is filled from."""


def columns_of(table: pd.DataFrame, names: Iterable[str]) -> dict[str, np.ndarray]:
    """What a model takes, for each row of a table.

    Args:
        table: rows as `read_measurements` returns them.
        names: of the model's arguments; `operations` is read from `method`.

    Returns:
        A column for each name; a size, work or injected time that a row does not have is 0.

    Raises:
        ValueError: a column that the table lacks.
    """
    found: dict[str, np.ndarray] = {}
    for name in names:
        column = COLUMN_OF.get(name, name)
        if name == "operations":
            method = table["method"].to_numpy(object, na_value="") if "method" in table else ()
            count = {each: operations(each) for each in {*method}}
            found[name] = np.array([count[each] for each in method] or [1] * len(table))
        elif name == "op":
            found[name] = kinds_of(table) if column in table else np.full(len(table), "step")
        elif column in table:
            values = table[column]
            values = (values if values.dtype.kind in "fiu" else values.astype(float)).to_numpy(
                float
            )
            found[name] = np.where(np.isnan(values), 0.0, values)
        elif name == "injected":
            found[name] = np.zeros(len(table))
        else:
            raise ValueError(f"the table has no column {column!r}, which the model needs; add it")
    return found


def kinds_of(table: pd.DataFrame) -> np.ndarray:
    """The op of each row, "" where it has none: NumPy compares it in no time, pandas does not."""
    return table["op"].to_numpy(object, na_value="")


def check_columns(columns: Mapping[str, Any]) -> None:
    """Refuse to predict a row that cannot be: no device, or less than no work.

    Args:
        columns: by argument of the model; those that are not of `COLUMN_OF` may be anything.

    Raises:
        ValueError: devices below 1, or another number below 0 or none.

    >>> check_columns({"devices": [1, 2], "size": 1e6})
    """
    for name in COLUMN_OF.keys() & columns.keys():
        values = np.atleast_1d(np.asarray(columns[name], float))
        least, rule = (1.0, "from 1 up") if name == "devices" else (0.0, "0 or more")
        wrong = ~((values >= least) & np.isfinite(values))
        if wrong.any():
            raise ValueError(f"{name} is {values[wrong][0]:g}; it must be a number {rule} (SI)")
