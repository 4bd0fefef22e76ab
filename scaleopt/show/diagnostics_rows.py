"""Rows beside what a fit says of them: what the pictures of residuals and predictions draw."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scaleopt.data.schema import TRAINING
from scaleopt.fitting.ranges import check_level
from scaleopt.fitting.result import Fit
from scaleopt.units import format_si

if TYPE_CHECKING:
    from scaleopt.fitting.collective_result import CollectiveFit

_STEP = ("devices", "nodes", "flops", "size_bytes", "moved_bytes", "injected_s", "method", "dtype")
_CELL = (*_STEP, *(column.name for column in TRAINING))
"""The columns that repeats of one cell have in common."""
WORK = {"size_bytes": ("size", "B"), "flops": ("work", "FLOP")}
"""What is done in a row: how an axis calls it, and its unit."""


def rows_against(
    fit: "Fit[Any] | CollectiveFit", table: pd.DataFrame | None, level: float
) -> pd.DataFrame:
    """Rows with what the fit says of them.

    Args:
        fit: a `Fit` of any model, or a `CollectiveFit`.
        table: rows to hold it against; those it was fitted to unless given.
        level: the share of measurements within the range.

    Returns:
        The rows with `predicted_s`, the range `low_s` to `high_s`, `ratio` (measured over
        predicted), `inside`, `outlier` (without a say in the fit) and `cell_ratio`, the median of
        the row's cell.

    Raises:
        ValueError: a fit that failed, no row of a kind that was fitted, or no table where a fit
            keeps no rows.
        TypeError: something else than such a fit.
    """
    check_level(level)
    refuse(fit)
    if table is None:
        if not isinstance(fit, Fit):
            raise ValueError(
                "a CollectiveFit does not keep its rows; give them as the second argument: the "
                "table that it was fitted to, or another of the same machine"
            )
        rows = fit.rows.assign(outlier=_outliers(fit))
    else:
        rows = _of_fitted_kinds(fit, table).assign(outlier=False)
    time, low, high = _stated(fit, table is None, rows, level)
    rows = rows.assign(predicted_s=time, low_s=low, high_s=high, ratio=rows["time_s"] / time)
    rows["inside"] = (rows["time_s"] >= low) & (rows["time_s"] <= high)
    cell = ["op", *(name for name in _CELL if name in rows)]
    rows["cell_ratio"] = rows.groupby(cell, dropna=False)["ratio"].transform("median")
    return rows


def refuse(fit: Any) -> None:
    """Raise on what no diagnostic can be drawn of."""
    if not isinstance(fit, Fit):
        from scaleopt.fitting.collective_result import CollectiveFit

        if not isinstance(fit, CollectiveFit):
            raise TypeError(
                f"{type(fit).__name__} has no rows of a kind to draw; give what so.fit, "
                "so.calibrate or so.fit_collective returns"
            )
    if fit.failure:
        raise ValueError(f"there is nothing to draw, since the fit failed: {fit.failure}")


def worst_cell(rows: pd.DataFrame) -> str:
    """The cell whose median is furthest from its prediction, in words."""
    row = rows.iloc[int(np.argmax(np.abs(np.log(rows["cell_ratio"].to_numpy(float)))))]
    return f"{row['cell_ratio']:.2f} × predicted {_where(row)}"


def varied(rows: pd.DataFrame) -> list[str]:
    """The columns that say what is done in these rows and differ among them."""
    counts = {name: rows[name][rows[name] > 0].nunique() for name in WORK if name in rows}
    found = [name for name, count in counts.items() if count]
    several = [name for name in found if counts[name] > 1]
    # Work and bytes that go hand in hand say the same twice.
    if len(several) == 2 and len(rows[several].drop_duplicates()) == counts[several[0]]:
        return several[:1]
    return several or found[:1]


def _where(row: pd.Series) -> str:
    words = [
        format_si(float(row[name]), unit)
        for name, (_, unit) in WORK.items()
        if name in row and row[name] > 0
    ]
    return (
        f"{'at ' if words else ''}{' and '.join(words)}{' ' if words else ''}on {row['devices']:g}"
    )


def _of_fitted_kinds(fit: "Fit[Any] | CollectiveFit", table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the kinds that were fitted."""
    if not isinstance(fit, Fit):
        kinds = {group.op for group in fit.groups}
        known = table["size_bytes"] > 0
    else:
        kinds = {noise.name for noise in fit.noise}
        known = True
    rows = table[table["op"].isin(kinds) & known]
    if rows.empty:
        found = ", ".join(sorted(map(str, table["op"].unique())))
        raise ValueError(f"no row is of a kind that was fitted ({', '.join(kinds)}): {found}")
    return rows


def _stated(
    fit: "Fit[Any] | CollectiveFit", fitted: bool, rows: pd.DataFrame, level: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The time that the fit predicts for each row, and the range that it states."""
    if fitted and isinstance(fit, Fit) and _rests_on_likeness(fit):
        # It predicts a row from the rows like it, and one that was fitted is most like itself:
        # only what the constants alone miss says how good they are.
        time = rows["predicted_s"].to_numpy(float)
        reach = np.exp(fit.noise[0].spread(level))
        return time, time / reach, time * reach
    if fitted and isinstance(fit, Fit):
        return fit.predict(level=level, **fit.columns)
    return fit.predict(rows, level=level)


def _rests_on_likeness(fit: Fit[Any]) -> bool:
    """Whether a fit predicts training steps from the rows like them."""
    if all(noise.name != "train_step" for noise in fit.noise):
        return False
    from scaleopt.fitting.train_step import TrainStepFit

    return isinstance(fit, TrainStepFit)


def _outliers(fit: Fit[Any]) -> np.ndarray:
    """Which fitted rows have no say: as many of each kind as the fit counts, the furthest off."""
    off = np.abs(np.log((fit.rows["time_s"] / fit.rows["predicted_s"]).to_numpy(float)))
    kind, marked = fit.rows["op"].to_numpy(str), np.zeros(len(off), bool)
    for noise in fit.noise:
        places = np.flatnonzero(kind == noise.name)
        furthest = places[np.argsort(off[places], kind="stable")]
        marked[furthest[len(furthest) - noise.outliers :]] = True
    return marked
