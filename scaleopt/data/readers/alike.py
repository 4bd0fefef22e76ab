"""What the rows of a printed table share; one that does not share it is damaged.

Some benchmarks print a size and a time, and nothing that a damaged digit would contradict. But they
print sizes in even steps, times with as many decimals in every row, and columns that end in the
same place. Each is held against what most rows of the table do, and only where most rows do it:
a table that was pasted without its spaces, or of sizes that were chosen freely, passes.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeVar

from scaleopt.data.readers.ends import ends, shortened
from scaleopt.data.readers.printed import Printed
from scaleopt.data.readers.record import KEPT, Block, Log, Row

_MOST = 0.5
"""More than this share of the rows must agree before the others are odd."""
_Value = TypeVar("_Value")


def alike(log: Log, block: Block) -> list[Row]:
    """The rows of a table without the odd ones, which are reported; so are rows that lack.

    Args:
        log: where they are reported.
        block: a table; of sizes and columns only what its benchmark prints evenly is looked at.
    """
    rows = _begun(log, block) if block.stepped else block.rows
    traits: list[tuple[str, list[Any], Any]] = []
    if len(rows) > 2:
        times = [len(row.timings) for row in rows]
        traits.append(("times in a row", times, usual(times)))
    if block.rounding:
        ways = [[block.rounding(timing.seconds) for timing in row.timings] for row in rows]
        every = [way for row in ways for way in row]
        way = _most_common([one for own in every for one in own], len(every))
        if len(every) > 2 and way is not None:
            traits.append(("decimals", [all(way in own for own in row) for row in ways], True))
        elif log.skipped_count:  # too few rows are left to tell, and damage is known of
            traits.append(("decimals", [all(row) for row in ways], True))
    if units := [row.rate_units for row in rows if row.rate_units is not None]:
        unit = _most_common([one for own in units for one in own], len(units))
        fitting = [unit in (row.rate_units or {unit}) for row in rows]
        traits.append(("units of its rates", fitting, None if unit is None else True))
    if block.columned:
        places = [ends(row.line.text) for row in rows]
        # where too few rows are left to tell, those of the header's names do
        most = usual([*places, block.columned]) or (block.columned if log.skipped_count else None)
        traits.append(("ends of its columns", places, most))
    if block.padded:
        lacks = shortened([row.line.text for row in rows])
        traits.append(("ends of its columns", [not it for it in lacks], True))
    kept = []
    for place, row in enumerate(rows):
        odd = [name for name, values, value in traits if value not in (None, values[place])]
        if odd:
            log.skip(row.line, f"other {odd[0]} than the rest of its table has")
        elif _other_type(rows, place):
            log.skip(row.line, f"{row.dtype} between rows of another type")
        else:
            kept.append(row)
    return _in_step(log, kept, block.step) if block.stepped else kept


def _begun(log: Log, block: Block) -> list[Row]:
    """The rows without one of size 0 right below a row that was skipped: sizes begin with it."""
    above = {it.line + 1 for it in log.skipped if it.text[:1].isdigit()}
    wrong = [row for row in block.rows if row.size == 0 and row.line.number in above]
    for row in wrong:
        log.skip(row.line, "a size of 0 below another row")
    return [row for row in block.rows if row not in wrong]


def usual(values: Sequence[_Value]) -> _Value | None:
    """What most of the values are; None where there is no such one.

    >>> usual([2, 2, 3]), usual([1, 2, 3]), usual([])
    (2, None, None)
    """
    return _most_common(values, len(values))


def _most_common(values: Sequence[_Value], of: int) -> _Value | None:
    for value, times in Counter(values).most_common(1):
        return value if times > _MOST * of else None
    return None


def last_digit(seconds: Printed) -> int:
    """The unit of the last digit of a time, as an order of magnitude.

    >>> last_digit(Printed(16.5, 16.45, 16.55))
    -1
    """
    return round(math.log10(seconds.high - seconds.low))


def as_many_decimals(seconds: Printed) -> set[int]:
    """The rounding of a benchmark that always prints as many decimals."""
    return {last_digit(seconds)}


def _other_type(rows: list[Row], place: int) -> bool:
    """Whether a row's data type is none that a row beside it has, and those are alike."""
    if len(rows) < 3:
        return False
    beside = rows[max(place - 1, 0) : place] + rows[place + 1 : place + 2]
    beside += rows[2:3] * (place == 0) + rows[-3:-2] * (place == len(rows) - 1)
    others = {row.dtype for row in beside}
    return len(others) == 1 and rows[place].dtype not in others


def _in_step(log: Log, rows: list[Row], told: float | None) -> list[Row]:
    """The rows without those whose size is out of the steps of the others.

    Args:
        log: where they are reported.
        rows: of a table.
        told: the step, where the benchmark has one alone.
    """
    step = told or _step([row.size for row in rows if row.size > 0])
    phases = [_phase(row.size, step) for row in rows if step and row.size > 0]
    phase = usual(phases)
    if told and log.skipped_count and len(phases) == 1:
        phase = _phase(1.0, told)  # where one is left of a damaged table, as sizes are by default
    if phases and phase is None and told:
        for row in rows:
            log.skip(row.line, f"its table's sizes are not all steps of {told:g} apart")
        return []
    on = [row for row in rows if not (step and row.size > 0) or _phase(row.size, step) == phase]
    for row in rows if phase is not None else ():
        if row not in on:
            log.skip(
                row.line, f"size {row.size:g} is not steps of {step:g} from its table's others"
            )
    rising = [None if a.size < b.size else False for a, b in pairwise(rows)]
    if step is None or phase is None:
        return _without(log, rows, [None, *rising, None])
    inner = [_gap(log, before, after, step) for before, after in pairwise(on)]
    if True not in inner and len(on) == len(rows) and not log.skipped_count:
        inner = rising  # a few sizes that someone picked out
    return _without(log, on, [None, *inner, None])


def _phase(size: float, step: float) -> float:
    """What is left of a size's logarithm over whole steps; equal for sizes that are steps apart."""
    return round((math.log(size, step) + _CLOSE) % 1, 4)


_CLOSE = 1e-6
"""By how much a logarithm may be rounded."""


def _without(log: Log, rows: list[Row], gaps: list[bool | None]) -> list[Row]:
    """The rows without those that follow neither way; gaps are before each, and after the last."""
    kept = []
    for place, row in enumerate(rows):
        around = gaps[place : place + 2]
        if False in around and True not in around:
            log.skip(row.line, f"size {row.size:g} is out of the steps of its table's sizes")
        else:
            if around == [False, True] and gaps[place - 1] is not False:
                before = rows[place - 1]
                log.skip(row.line, f"no size between {before.size:g} and {row.size:g} above this")
            kept.append(row)
    return kept


def _gap(log: Log, before: Row, after: Row, step: float) -> bool | None:
    """Whether a size is one step above that before; None where nothing can be said.

    So it is after a size of 0, and where as many lines were reported between as steps lack.
    """
    if before.size == 0:
        return None
    steps = round(math.log(after.size / before.size, step)) if after.size else 0
    between = range(before.line.number + 1, after.line.number)
    reported = sum(
        skipped.line in between and skipped.text[:1].isdigit() for skipped in log.skipped
    )
    if steps > 1 and (steps == reported + 1 or log.skipped_count > KEPT):
        return None
    return steps == reported + 1


def _step(sizes: list[float]) -> float | None:
    """The ratio that sizes go up by, where some follow one another so."""
    rises = Counter(after / before for before, after in pairwise(sizes) if after > before)
    for step, times in rises.most_common(1):
        return step if times > 1 else None
    return None
