"""From timed collectives of one machine to a link that predicts them, with honest bands.

Each collective (and type, where the table has several) is fitted with protocols of its own, and
what its link misses by size and N is kept as a habit of the library. How many protocols there are
is what predicts held-out rows best: every fifth size left out in turn, and the largest N. Those
held-out misses are also the bands, so they include what the model is wrong about; beyond the
measured N they widen by what one more doubling has cost.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import special

from scaleopt.fitting.collective_habits import Kernel, learnt, most_likely, places_in, recalled
from scaleopt.fitting.collective_link import PIECES, Numbers, link_of, numbers_of
from scaleopt.fitting.collective_prior import lent, prior, sent_at_once, starts
from scaleopt.fitting.collective_result import (
    DEGREES,
    CollectiveFit,
    CollectiveGroup,
    log_prediction,
    named,
)
from scaleopt.fitting.collective_rows import (
    FEWEST_CELLS,
    PASSES,
    Cells,
    Fold,
    cells_of,
    folds_of,
    kinds_of,
    readied,
    thinned,
)
from scaleopt.fitting.collective_search import SHAPES, missed_by_law, search
from scaleopt.fitting.fit import check_rows
from scaleopt.fitting.result import plain

_NUMBERS = ["time_s", "devices", "size_bytes"]
_MOST_FOLDS = 7
_MOST_HABITS = 1000
"""Cells whose habits are kept; the law is fitted to fewer."""
_DOUBLING = 0.2
"""How far a prediction one doubling beyond the rows is off, where the rows do not tell."""
_DOUBLING_WEIGHT = 2.0


def fit_collective(table: pd.DataFrame) -> CollectiveFit:
    """Fit the collectives of one machine, each with as many protocols as the rows support.

    Minimises Huber's loss of log measured − log predicted of a `LinkEnvelope`, with weak log-normal
    priors on how its messages (at most ∝ N^0.9) and β (constant) grow with N and on what a protocol
    costs besides. What the link then misses at near sizes and counts is added to its time.

    Args:
        table: rows with `op`, `devices`, `size_bytes` [B] of the full array and `time_s` [s];
            `dtype` and `nodes` where known. Rows of size 0 are left out.

    Returns:
        The fit; `failure` says why where there are too few rows.

    Raises:
        ValueError: a missing column or cell, a time that is not positive, no known collective.
        TypeError: something that is not a table.

    >>> from scaleopt.models.collectives import all_reduce_time
    >>> works = [(n, m) for n in (2, 4, 8) for m in (1e3, 1e5, 1e7, 1e9)]
    >>> table = pd.DataFrame(works, columns=["devices", "size_bytes"]).assign(op="all_reduce")
    >>> table["time_s"] = [float(all_reduce_time(m, n, 5e-6, 1e-11)) for n, m in works]
    >>> found = fit_collective(table).predict(devices=8, size=1e8)
    >>> bool(found.low < all_reduce_time(1e8, 8, 5e-6, 1e-11) < found.high)
    True

    Source: the model of `LinkEnvelope`; M. Stone, "Cross-validatory choice and assessment of
    statistical predictions", JRSS B 36, 1974.
    """
    if not isinstance(table, pd.DataFrame):
        raise TypeError(
            f"fit_collective takes a table, not {type(table).__name__}; "
            "give read_measurements(path).table"
        )
    check_rows(table, [])
    rows = table[table["op"].isin(PASSES)]
    if rows.empty:
        raise ValueError(f"no row of a collective ({', '.join(PASSES)}); found {set(table['op'])}")
    check_rows(rows, _NUMBERS)
    rows = rows.assign(**{name: pd.to_numeric(rows[name]) for name in _NUMBERS})
    rows = readied(rows[(rows["size_bytes"] > 0) & (rows["devices"] > 1)])
    rows["time_s"] /= rows["operations"]
    unused = len(table) - len(rows)
    notes = [f"Rows of another kind, of size 0 or of one device ({unused}) are not used."]
    notes = notes if unused else []
    parts, untold = [], []
    for op, dtypes, part in kinds_of(rows):
        cells = cells_of(part, op)
        if len(cells.size) < FEWEST_CELLS or len(np.unique(cells.size)) < 3:
            untold.append((op, dtypes))
            notes.append(
                f"{named(op, dtypes)} has too few rows to tell a latency from a bandwidth; measure "
                f"at least {FEWEST_CELLS} cells of N and size, with 3 sizes or more"
            )
        else:
            parts.append((op, dtypes, part, cells))
    # Those at one N come last: how they grow with N is what others like them do.
    parts.sort(key=lambda each: len(np.unique(each[-1].devices)) < 2)
    groups: list[CollectiveGroup] = []
    for op, dtypes, part, cells in parts:
        others = [
            (group.u, group.pieces)
            for group in groups
            if group.fewest < group.most and sent_at_once(group.op) == sent_at_once(op)
        ]
        alone = len(np.unique(cells.devices)) < 2
        if alone:
            source = "that of the machine's other collectives" if others else "the prior's"
            notes.append(
                f"{named(op, dtypes)} has one N ({cells.devices[0]:g}): how it grows with N is "
                f"{source}, not the rows'. Time it at another N."
            )
        groups.append(_fitted(op, dtypes, part, cells, others if alone else []))
    failure = None if groups else "; ".join(notes)
    return CollectiveFit(tuple(groups), tuple(untold), tuple(notes), failure)


def _fitted(
    op: str,
    dtypes: tuple[str, ...],
    part: pd.DataFrame,
    cells: Cells,
    others: list[tuple[np.ndarray, int]],
) -> CollectiveGroup:
    """Fit one group with every number of protocols, all cells and every fold of them."""
    every, cells = thinned(cells, _MOST_HABITS), thinned(cells, SHAPES[1])
    folds = folds_of(cells)
    everything = np.zeros(len(cells.size), bool)
    # Lanes that no fold needs repeat the whole, so that every group has one shape.
    left_out = [fold.left_out for fold in folds]
    left_out = [everything, *left_out, *[everything] * (_MOST_FOLDS - len(folds))]
    numbers = range(1, PIECES + 1)
    priors = [lent(prior(cells, op, pieces), others) for pieces in numbers]
    lanes = [each for each in priors for _ in left_out]
    begun = [
        starts(each, pieces, len(left_out)) for pieces, each in zip(numbers, priors, strict=True)
    ]
    whole = search(cells, np.ones((len(lanes), len(cells.size))), lanes, np.concatenate(begun))
    best = _best(*whole)
    weight = ~np.tile(left_out, (PIECES, 1))
    u = search(cells, weight, lanes, np.repeat(best, len(left_out), axis=0))[0]
    miss = missed_by_law(cells, u)
    u = u.reshape(PIECES, len(left_out), -1)
    miss = miss.reshape(PIECES, len(left_out), -1)
    places = places_in(cells)
    tried = {pieces: _held_out(places, each, folds) for pieces, each in enumerate(miss, start=1)}
    held = {
        pieces: float(np.mean([np.mean(np.abs(m)) for m, _ in each]))
        for pieces, (_, each) in tried.items()
    }
    pieces = min(held, key=held.__getitem__)
    kernel, misses = tried[pieces]
    inside = [m / d for (m, d), fold in zip(misses, folds, strict=True) if not fold.doublings]
    inflation = _deviation(np.concatenate(inside)) if inside else 1.0
    steps = [
        np.sqrt(max(_deviation(m) ** 2 - np.mean(d**2), 0.0)) / fold.doublings
        for (m, d), fold in zip(misses, folds, strict=True)
        if fold.doublings
    ]
    seen = float(np.sum(np.square(steps)))
    doubling = np.sqrt((seen + _DOUBLING_WEIGHT * _DOUBLING**2) / (len(steps) + _DOUBLING_WEIGHT))
    best = u[pieces - 1, 0]
    # The law has few numbers, and few cells tell them; the habits are as many as the cells.
    habits = learnt(kernel, places_in(every), every.log_time - log_prediction(best, every))
    link = plain(link_of(Numbers(*map(np.exp, numbers_of(best))), pieces))
    per_node = float(np.max(cells.devices / cells.nodes)) if cells.nodes.max() > 1 else np.inf
    group = CollectiveGroup(
        op=op,
        dtypes=dtypes,
        link=link,
        pieces=pieces,
        u=best,
        habits=habits,
        rows=len(part),
        error=np.nan,
        held_out=held,
        inflation=max(inflation, 1.0),
        repeats=_repeats(part),
        doubling=float(doubling),
        fewest=float(cells.devices.min()),
        most=float(cells.devices.max()),
        per_node=per_node,
    )
    predicted, _ = group.log_prediction(part)
    return replace(group, error=float(np.mean(np.abs(np.exp(predicted) / part["time_s"] - 1))))


def _repeats(rows: pd.DataFrame) -> float:
    """The standard deviation, as a log, of repeats of one cell; 0 where there are none."""
    log_time = pd.Series(np.log(rows["time_s"].to_numpy(float)), rows.index)
    cells = log_time.groupby([rows[name] for name in ("devices", "nodes", "size_bytes")])
    count = cells.transform("size").to_numpy()
    away = (cells.transform("median") - log_time).to_numpy()
    repeated = count > 1
    if not repeated.any():
        return 0.0
    return _deviation(away[repeated] * np.sqrt(count[repeated] / (count[repeated] - 1)))


def _best(u: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """(pieces, parameters): of each number of pieces the start that ended lowest."""
    loss = np.where(np.isnan(loss), np.inf, loss).reshape(PIECES, -1)
    return u.reshape(*loss.shape, -1)[np.arange(PIECES), loss.argmin(axis=1)]


def _held_out(
    places: np.ndarray, miss: np.ndarray, folds: list[Fold]
) -> tuple[Kernel, list[tuple[np.ndarray, np.ndarray]]]:
    """How habits go together, and of each fold's cells the miss and what was expected of it."""
    kernel = most_likely(places, miss[0])
    missed = []
    for fold, each in zip(folds, miss[1:], strict=False):
        out = fold.left_out
        habit, deviation = recalled(learnt(kernel, places[~out], each[~out]), places[out])
        missed.append((each[out] - habit, deviation))
    return kernel, missed


def _deviation(miss: np.ndarray) -> float:
    """The standard deviation that 90 % of the misses say."""
    return float(np.quantile(np.abs(miss), 0.9) / special.stdtrit(DEGREES, 0.95))
