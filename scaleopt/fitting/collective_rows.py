"""The rows of one collective as cells, and which of them a fold leaves out to be predicted."""

from typing import NamedTuple

import numpy as np
import pandas as pd

PASSES = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}
"""How often the array goes around."""
FEWEST_CELLS = 5
COUNTS = 8
"""How many pairs of N and nodes are told apart; of more, neighbours are one."""
_SIZE_FOLDS = 5
_FINEST, _COARSEST = 1 / 8, 8.0


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
    """The cells of rows of one collective, whose `time_s` may be lacking."""
    names = ["devices", "nodes", "size_bytes"]
    rows = rows.assign(nodes=rows.get("nodes", 1.0))
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
