"""What the rows of a printed table share; one that does not share it is damaged.

Some benchmarks print a size and a time, and nothing that a damaged digit would contradict. But they
print sizes in even steps, times with as many decimals in every row, and columns that end in the
same place. Each is held against what most rows of the table do, and only where most rows do it:
a table that was pasted without its spaces, or of sizes that were chosen freely, passes.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

from scaleopt.data.readers.record import Block, Log, Row

_MOST = 0.6
"""The share of rows that must agree before the others are odd."""
_CELL = re.compile(r"\S+")
_Value = TypeVar("_Value")


def alike(log: Log, block: Block) -> list[Row]:
    """The rows of a table without the odd ones, which are reported; so are rows that lack.

    Args:
        log: where they are reported.
        block: a table; of sizes and columns only what its benchmark prints evenly is looked at.
    """
    rows = block.rows
    if len(rows) < 3:
        return rows
    timings = usual([len(row.timings) for row in rows])
    ends = usual([_ends(row) for row in rows]) if block.columned else None
    decimals = usual([_decimals(row) for row in rows]) if block.decimals else None
    gaps = _gaps(rows) if block.stepped else [None] * (len(rows) + 1)
    kept = []
    for place, row in enumerate(rows):
        around = gaps[place : place + 2]
        if timings is not None and len(row.timings) != timings:
            log.skip(row.line, f"{len(row.timings)} times where its table has {timings} in a row")
        elif _other_type(rows, place):
            log.skip(row.line, f"{row.dtype} between rows of another type")
        elif ends is not None and _ends(row) != ends:
            log.skip(row.line, "its columns do not end where those of its table end")
        elif decimals is not None and _decimals(row) != decimals:
            log.skip(row.line, "the time has other decimals than the rest of its table")
        elif False in around and True not in around:
            log.skip(row.line, f"size {row.size:g} is out of the steps of its table's sizes")
        else:
            if around == [False, True] and gaps[place - 1] is not False:
                _report_lack(log, rows[place - 1], row)
            kept.append(row)
    return kept


def usual(values: Sequence[_Value]) -> _Value | None:
    """What most of the values are; None where there is no such one.

    >>> usual([2, 2, 3]), usual([1, 2, 3])
    (2, None)
    """
    value, times = Counter(values).most_common(1)[0]
    return value if times > _MOST * len(values) else None


def _other_type(rows: list[Row], place: int) -> bool:
    """Whether a row's data type is none that a row beside it has, and those are alike."""
    beside = rows[max(place - 1, 0) : place] + rows[place + 1 : place + 2]
    beside += rows[2:3] * (place == 0) + rows[-3:-2] * (place == len(rows) - 1)
    others = {row.dtype for row in beside}
    return len(others) == 1 and rows[place].dtype not in others


def _ends(row: Row) -> tuple[int, ...]:
    """Where the cells end; the first, where the table begins at the left, has no place to keep."""
    ends = [cell.end() for cell in _CELL.finditer(row.line.text)]
    return tuple(ends if row.line.text[:1].isspace() else (0, *ends[1:]))


def _decimals(row: Row) -> int:
    """The unit of the last digit of a row's first time, as an order of magnitude."""
    seconds = row.timings[0].seconds
    return round(math.log10(seconds.high - seconds.low))


def _gaps(rows: list[Row]) -> list[bool | None]:
    """Whether each size is the usual step above that before; None where nothing can be said.

    One more than there are rows: before the first and after the last is nothing.
    """
    step = _step([row.size for row in rows if row.size > 0])
    if step is None:  # then they rise at least
        return [None, *(None if a.size < b.size else False for a, b in pairwise(rows)), None]
    inner = [
        None if before.size == 0 else after.size == before.size * step
        for before, after in pairwise(rows)
    ]
    return [None, *inner, None]


def _step(sizes: list[float]) -> float | None:
    """The ratio that sizes go up by, where most of them are powers of it apart."""
    rises = [(after / before, after) for before, after in pairwise(sizes) if after > before]
    if not rises:
        return None
    (step, times), *_ = Counter(ratio for ratio, _ in rises).most_common(1)
    start = next(after for ratio, after in rises if ratio == step)
    powers = [math.log(size / start, step) for size in sizes]
    on = sum(abs(power - round(power)) < 1e-6 for power in powers)  # the logarithm's rounding
    return step if times > 1 and on > _MOST * len(sizes) else None


def _report_lack(log: Log, before: Row, row: Row) -> None:
    """Report that sizes lack between two rows, unless a line between them was reported."""
    between = range(before.line.number + 1, row.line.number)
    if not any(skipped.line in between for skipped in log.skipped):
        log.skip(row.line, f"no row of a size between {before.size:g} and {row.size:g} above this")
