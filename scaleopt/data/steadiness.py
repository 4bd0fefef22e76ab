"""Whether a machine was the same from the first row to the last: drift, throttling, two modes.

Each time is compared with the median of its cell (same operation, devices, sizes and program), so
that all cells of an operation tell of the machine together. Rounds come in time order: a trend of
their medians is a drift. A cell whose times part into two well-separated groups has two modes, and
its median is then of one of them.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

_CELL = ("op", "devices", "nodes", "flops", "size_bytes", "moved_bytes", "method", "dtype", "label")
_LEAST_ROUNDS, _LEAST_SAMPLES = 5, 12
_TREND_CHANCE, _TREND = 0.005, 0.05
_APART, _SEPARATION, _MINORITY = 1.25, 4.5, 0.15
_CELLS_SHARE = 0.1


class Modes(NamedTuple):
    """The two groups that a cell's times part into."""

    ratio: float
    """Median of the slower over that of the faster."""
    minority: float
    """The smaller group's share."""


def unsteady(table: pd.DataFrame) -> list[str]:
    """What changed while the rows were measured, a sentence for each operation and kind of change.

    Args:
        table: rows with op, devices and time_s; trends need `round`.

    Returns:
        The sentences; none for a steady machine.

    >>> rows = [("matmul", 1, number, 1e-3 * (1 + 0.05 * number)) for number in range(10)] * 2
    >>> table = pd.DataFrame(rows, columns=["op", "devices", "round", "time_s"])
    >>> unsteady(table)
    ['matmul: times rise by 45 % from first to last round; let it cool, or quiet, and repeat']
    """
    if table.empty:
        return []
    keys = [name for name in _CELL if name in table]
    inside = [*keys, "run"] if "run" in table else keys  # two runs are not two modes of one
    within = table.groupby(inside, dropna=False, sort=False).ngroup()
    cells = table.groupby(keys, dropna=False, sort=False).ngroup()
    log = pd.Series(np.log(table["time_s"].to_numpy(float)), index=table.index)
    residual = log - log.groupby(cells).transform("median")
    said = []
    for op, rows in residual.groupby(table["op"], sort=False):
        if "round" in table:
            said += _trend(str(op), rows, table.loc[rows.index, "round"])
        said += _modes(str(op), [group.to_numpy() for _, group in rows.groupby(within[rows.index])])
    return said


def _trend(op: str, residual: pd.Series, rounds: pd.Series) -> list[str]:
    """A sentence on a drift of the rounds' medians."""
    medians = residual.groupby(rounds).median()
    number = medians.index.to_numpy(float)
    if len(medians) < _LEAST_ROUNDS:
        return []
    early, late = np.triu_indices(len(medians), 1)
    rise = np.subtract(*medians.to_numpy(float)[[late, early]])
    slope = float(np.median(rise / (number[late] - number[early])))  # Theil and Sen's
    change = float(np.expm1(slope * (number[-1] - number[0])))
    if abs(change) <= _TREND:
        return []
    # Loaded where a trend would matter: it takes half a second.
    from scipy.stats import kendalltau

    if not kendalltau(number, medians).pvalue < _TREND_CHANCE:
        return []
    if change > 0:
        verb, remedy = "rise", "let it cool, or quiet, and repeat"
    else:
        verb, remedy = "fall", "it was still warming up, so repeat"
    return [f"{op}: times {verb} by {100 * abs(change):.0f} % from first to last round; {remedy}"]


def _modes(op: str, cells: list[np.ndarray]) -> list[str]:
    """A sentence on the cells that have two modes, where they are more than a few."""
    judged = [cell for cell in cells if len(cell) >= _LEAST_SAMPLES]
    found = [modes for modes in map(two_modes, judged) if modes is not None]
    if not found or len(found) < _CELLS_SHARE * len(judged):
        return []
    ratio = float(np.median([modes.ratio for modes in found]))
    minority = 100 * float(np.median([modes.minority for modes in found]))
    return [
        f"{op}: two modes in {len(found)} of {len(judged)} cells, {ratio:.2g} times apart, the "
        f"rarer {minority:.0f} % of the samples: a median is of one of them"
    ]


def two_modes(log_times: np.ndarray) -> Modes | None:
    """The two groups that times part into; None where they are one.

    The split leaves the least variance within the groups (Otsu's); it counts where the groups are
    further apart than a normal's halves by chance, in units of their own spread (Ashman's D).

    Args:
        log_times: natural logarithms of one cell's times.

    Source: N. Otsu, IEEE Trans. SMC 9, 1979; K. M. Ashman et al., Astronomical Journal 108, 1994.
    """
    ordered = np.sort(log_times)
    least = max(int(np.ceil(_MINORITY * len(ordered))), 2)
    splits = range(least, len(ordered) - least + 1)
    within = [np.var(ordered[:n]) * n + np.var(ordered[n:]) * (len(ordered) - n) for n in splits]
    if not within:
        return None
    split = splits[int(np.argmin(within))]
    fast, slow = ordered[:split], ordered[split:]
    ratio = float(np.exp(np.median(slow) - np.median(fast)))
    spread = np.sqrt((np.var(fast, ddof=1) + np.var(slow, ddof=1)) / 2)
    if ratio < _APART or np.mean(slow) - np.mean(fast) < _SEPARATION * spread:
        return None
    return Modes(ratio, min(split, len(ordered) - split) / len(ordered))
