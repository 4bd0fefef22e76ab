"""The columns of nccl-tests: which a header names, and the row that cells make in a layout.

    size count type [redop] [root], then once or twice: time algbw busbw [#wrong]

A table whose header is gone is read in the layout that agrees with its own bandwidths. Times are
rounded to the room that there is for them, in one of two ways.
"""

import math
import re
from collections.abc import Iterator

from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.printed import Printed, overlap, printed, whole
from scaleopt.data.readers.record import ITEM_BYTES, Row, Timing, dtype_of
from scaleopt.units import us

FRONT = ("size", "count", "type", "redop", "root")
REDUCTIONS = ("sum", "prod", "max", "min", "avg", "mulsum")
NUMBERS = re.compile(r"(?<!\S)[-+]?\d[\d.,]*(?:[eE][-+]?\d+)?(?!\S)")
_GROUP = ("time", "algbw", "busbw", "wrong")
_KNOWN = {
    *FRONT, *_GROUP, "error", "i_min", "i_max", "i_p99", "i_cv%", "timestamp",
}  # fmt: skip
_LIKE = 3
"""More names of columns than this make a line a header, though others be damaged."""
ROUNDINGS = {"old": (2, 4), "new": (4, 5)}
"""To how many digits before the point a time in µs has two decimals, and to how many one."""
_SHORTEST = 1e-12
"""Seconds: a time that is printed as 0.00 is not divided by."""


def names_of(text: str) -> list[str]:
    """The names of the columns that a line may head."""
    names = [name.strip("#*").replace("cputime", "time") for name in text.split()]
    return [name for name in names if name]


def is_header(text: str) -> bool:
    """Whether a line names the columns; some leave count and type out of what they show."""
    return {*names_of(text)} >= {"size", "time", "algbw", "busbw"}


def is_like_a_header(text: str) -> bool:
    """Whether a line is a header but for a name or two."""
    names = names_of(text)
    return text.lstrip().startswith("#") and len({*names} & {*_KNOWN}) > _LIKE


def is_whole_header(names: list[str]) -> bool:
    """Whether only columns that are known are named, and as many of time, algbw and busbw."""
    counts = {names.count(name) for name in ("time", "algbw", "busbw")}
    return len(counts) == 1 and {*names} <= _KNOWN


def layouts(cells: list[str], header: tuple[str, ...] | None = None) -> list[tuple[str, ...]]:
    """Every layout that has as many columns as there are cells, the header's alone where known."""
    if header is not None:
        stamped = "timestamp" in header
        kinds = [
            tuple(name for name in header if name not in left and name != "timestamp")
            for left in (("redop", "root"), ("root",), ("redop",), ())
        ]
        lengths = {len(kind): kind for kind in kinds}
        return [lengths[n] for n in (len(cells), len(cells) - 2 * stamped) if n in lengths][:1]
    return [
        front + group * repeats
        for front in (FRONT, FRONT[:4], FRONT[:3])
        for group in (_GROUP, _GROUP[:3])
        for repeats in (2, 1)
        if len(front) + repeats * len(group) == len(cells)
    ]


def row_of(
    line: Line, cells: list[str], layout: tuple[str, ...], second: float, rate: float
) -> Row | None:
    """The row that cells are in one layout; None where a cell is not what it has to be.

    Args:
        line: where they stand.
        cells: of the line.
        layout: the names of their columns.
        second: unit of the times [s].
        rate: unit of the bandwidths [B/s].
    """
    named = list(zip(layout, cells, strict=False))
    front = dict(reversed(named))
    size, count = whole(front["size"]), whole(front.get("count", ""))
    dtype = dtype_of(front["type"]) if "type" in front else ""
    if size is None or (count is None) != ("count" not in front):
        return None
    if ("type" in front and dtype not in ITEM_BYTES) or not all(_plausible(*one) for one in named):
        return None
    times = list(_numbers_of("time", named, second))
    rates = (list(_numbers_of(name, named, rate)) for name in ("algbw", "busbw"))
    if not all(time.value > 0 for time in times):
        return None
    labels = ("out-of-place", "in-place")
    timings = [Timing(*timing) for timing in zip(labels, times, *rates, strict=False)]
    return Row(line, float(size), tuple(timings), count, dtype)


def _numbers_of(column: str, named: list[tuple[str, str]], unit: float) -> Iterator[Printed]:
    for name, cell in named:
        number = printed(cell) if name == column else None
        if number is not None:
            yield number.times(unit)


def _plausible(name: str, cell: str) -> bool:
    """Whether a cell may stand in its column."""
    if name in ("time", "algbw", "busbw"):
        number = printed(cell)
        return number is not None and number.value >= 0
    if name == "redop":
        return cell in (*REDUCTIONS, "none")
    if name == "root":
        return re.fullmatch(r"-?\d{1,6}", cell) is not None
    if name in ("wrong", "error"):
        return printed(cell) is not None or cell.upper() == "N/A"
    return True


def found_wrong(cells: list[str], layout: tuple[str, ...]) -> bool:
    """Whether the benchmark counts results of a row that are wrong."""
    counts = [printed(cell) for name, cell in zip(layout, cells, strict=False) if name == "wrong"]
    return any(count is not None and count.value != 0 for count in counts)


def agrees(row: Row) -> bool:
    """Whether every algbw is size over time, and the size a multiple of the count's bytes."""
    item = (row.elements or 0) * ITEM_BYTES.get(row.dtype, 1)
    if row.elements is not None and ((item == 0) != (row.size == 0) or (item and row.size % item)):
        return False
    return all(
        timing.algbw is None
        or overlap(
            timing.algbw,
            row.size / timing.seconds.high,
            row.size / max(timing.seconds.low, _SHORTEST),
        )
        for timing in row.timings
    )


def roundings(seconds: Printed) -> set[str]:
    """The ways in which a time can have been rounded; none for any other."""
    digits = len(str(int(seconds.value / us)))
    decimals = round(-math.log10((seconds.high - seconds.low) / us))
    return {
        way
        for way, (with_two, with_one) in ROUNDINGS.items()
        if decimals == (2 if digits <= with_two else 1 if digits <= with_one else 0)
        or decimals < 0  # as 1.2e+07
    }


def numbers_in(text: str) -> int:
    """How many cells of a line are numbers."""
    return len(NUMBERS.findall(text))


def is_like_a_row(text: str) -> bool:
    """Whether six cells of a line or more are numbers, two of them with decimals."""
    if text.count(".") < 2:
        return False
    numbers = NUMBERS.findall(text)
    return len(numbers) > 5 and sum("." in number for number in numbers) > 1
