"""The rows of one collective as cells, and which of them a fold leaves out to be predicted."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from scaleopt.fitting.columns import columns_of

PASSES = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}
"""How often the array goes around."""
FEWEST_CELLS = 5
COUNTS = 8
"""How many pairs of N and nodes are told apart; of more, neighbours are one."""
_SIZE_FOLDS = 5
_ALIKE = 0.015
"""Types whose cells differ by less in the median are one."""
_FINEST, _COARSEST = 1 / 64, 8.0


def readied(table: pd.DataFrame, per_node: float = np.inf) -> pd.DataFrame:
    """Rows with an op, a dtype and nodes for each, "" where not told, and their operations.

    Args:
        table: rows with `devices`.
        per_node: how many devices fill a node, where a row does not say its nodes and no other
            row does.
    """
    blank = pd.Series("", index=table.index)
    text = {name: table.get(name, blank).fillna("").astype(str) for name in ("op", "dtype")}
    nodes = pd.to_numeric(table.get("nodes", blank), errors="coerce")
    full = (table["devices"] / nodes).max()
    share = table["devices"].to_numpy(float) / (per_node if np.isnan(full) else full)
    inferred = pd.Series(np.maximum(np.ceil(share), 1.0), table.index)
    nodes = nodes.fillna(inferred).astype(float)
    wrong = (nodes < 1) | (nodes > table["devices"])
    if wrong.any():
        row = table.index[wrong][0]
        raise ValueError(
            f"row {row}: nodes is {nodes[row]:g} of {table.loc[row, 'devices']:g} devices; each "
            "node holds one or more: mend it or drop the column"
        )
    chained = columns_of(table, ["operations"])["operations"]
    return table.assign(**text, nodes=nodes, operations=chained)


def kinds_of(rows: pd.DataFrame) -> list[tuple[str, tuple[str, ...], pd.DataFrame]]:
    """The op, dtypes and rows of each group: types that take the same time share one.

    Data that are only moved take as long whatever they are; data that are added do not.
    """
    kinds = []
    for op, part in rows.groupby("op", sort=False):
        cell = part.groupby(["dtype", "devices", "nodes", "size_bytes"])["time_s"].median()
        shared: dict[str, list[str]] = {}
        for dtype in part["dtype"].unique():
            alike = [first for first in shared if _apart(cell[first], cell[dtype]) < _ALIKE]
            shared.setdefault(alike[0] if alike else dtype, []).append(dtype)
        for types in shared.values():
            kinds.append((str(op), tuple(types), part[part["dtype"].isin(types)]))
    return kinds


def _apart(one: pd.Series, other: pd.Series) -> float:
    """The median |log| ratio of common cells; infinite where there are few."""
    ratio = (one / other).dropna().to_numpy(float)
    return float(np.median(np.abs(np.log(ratio)))) if len(ratio) >= FEWEST_CELLS else np.inf


class Cells(NamedTuple):
    """Medians of the repeats at each N, nodes and size; (cells,) each."""

    devices: np.ndarray
    nodes: np.ndarray
    size: np.ndarray
    """M [B]; in an all-to-all the part of one device."""
    passes: np.ndarray
    log_time: np.ndarray
    place: np.ndarray
    """Which of at most COUNTS pairs of N and nodes, in their order."""


class Fold(NamedTuple):
    """What a fit without some cells is asked to predict."""

    left_out: np.ndarray
    doublings: float
    """How far beyond the N kept the farthest left out is; 0 where only sizes are left out."""


def cells_of(rows: pd.DataFrame, op: str) -> Cells:
    """The cells of rows of one collective."""
    names = ["devices", "nodes", "size_bytes"]
    rows = rows.assign(log_time=np.log(rows["time_s"].to_numpy(float)))
    median = rows.groupby(names, sort=True)["log_time"].median().reset_index()
    pair = median.groupby(names[:2], sort=True).ngroup().to_numpy()
    place = pair * min(COUNTS, pair.max() + 1) // (pair.max() + 1)
    return places_of(median, op)._replace(log_time=median["log_time"].to_numpy(), place=place)


def places_of(rows: pd.DataFrame, op: str) -> Cells:
    """Rows as cells without a time."""
    devices, size = (rows[name].to_numpy(float) for name in ("devices", "size_bytes"))
    size = size / devices if op == "all_to_all" else size
    nothing = np.zeros(len(rows))
    nodes = rows["nodes"].to_numpy(float)
    return Cells(devices, nodes, size, nothing + PASSES[op], nothing, nothing.astype(int))


def thinned(cells: Cells, most: int) -> Cells:
    """At most so many cells: of neighbouring sizes of one N, the first of each stretch."""
    stretch = _FINEST
    kept = np.arange(len(cells.size))
    octave = np.log2(np.maximum(cells.size, 1.0))
    while len(kept) > most and stretch <= _COARSEST:
        places = np.stack([cells.devices, cells.nodes, np.round(octave / stretch)])
        kept, stretch = np.unique(places, axis=1, return_index=True)[1], 2 * stretch
    kept = kept[np.linspace(0, len(kept) - 1, min(most, len(kept))).astype(int)]
    return Cells(*(each[kept] for each in cells))


def blocks_of(cells: Cells, most: int = 4096) -> Iterator[Cells]:
    """The cells in blocks that fit into memory at once."""
    for start in range(0, len(cells.size), most):
        yield Cells(*(each[start : start + most] for each in cells))


def folds_of(cells: Cells) -> list[Fold]:
    """Sizes left out in turn, then the largest N, then the two largest."""
    place = np.unique(cells.size, return_inverse=True)[1]
    folds = [Fold(place % _SIZE_FOLDS == fold, 0.0) for fold in range(_SIZE_FOLDS)]
    counts = np.unique(cells.devices)[::-1]
    folds += [
        Fold(cells.devices > below, float(np.log2(counts[0] / below))) for below in counts[1:3]
    ]
    return [
        fold for fold in folds if fold.left_out.any() and (~fold.left_out).sum() >= FEWEST_CELLS - 1
    ]
