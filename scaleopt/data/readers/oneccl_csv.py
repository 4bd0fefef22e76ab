"""The CSV of the oneCCL benchmark (`-o`): a line for each operation and size.

message_size is what one rank passes in, dtype_size × #elements/buffer: the full array, its share
for all-gather; what a rank receives for reduce-scatter. Times are in µs, to six digits; the average
is over ranks and lies between the least and the most.

Source: oneCCL, examples/benchmark, store_to_csv.
"""

from collections.abc import Iterable, Mapping

from scaleopt.data.readers.imb import ONECCL_POWERS
from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.printed import all_printed, whole
from scaleopt.data.readers.record import ITEM_BYTES, OPS, Block, Log, Row, Timing, dtype_of
from scaleopt.units import us

NAME = "oneCCL benchmark"
_LESS = 1 - 1e-5
"""What six digits leave open between two times that are the same."""
_NAMES = {
    "#ranks", "collective", "reduction", "dtype", "dtype_size", "#elements/buffer", "message_size",
    "#buffers", "#repetitions", "t_min[usec]", "t_max[usec]", "t_avg[usec]", "stddev[%]",
    "wait_t_avg[usec]",
}  # fmt: skip
_COUNTS = (
    "#ranks", "dtype_size", "#elements/buffer", "message_size", "#buffers", "#repetitions",
)  # fmt: skip
_REDUCTIONS = ("", "sum", "prod", "min", "max", "avg", "none", "custom")
_TIMES = ("t_min[usec]", "t_avg[usec]", "t_max[usec]")


def starts(text: str) -> bool:
    """Whether a line can only be of this format."""
    return text.startswith("#ranks,collective,")


def read_oneccl_csv(log: Log, records: Iterable[tuple[Line, list[str]]]) -> None:
    """Every line as a row of the table of its operation and number of ranks."""
    names: list[str] = []
    blocks: dict[tuple[str, str], Block] = {}
    for line, cells in records:
        log.lines = line.number
        if starts(line.text):
            names = cells if {*cells} == _NAMES and len(cells) == len(_NAMES) else []
            if not names:
                log.skip(line, "a header of other columns than the benchmark's")
        elif not cells:
            log.skip(line, "a quotation that does not end")
        elif len(cells) != len(names):
            log.skip(line, f"{len(cells)} cells where {len(names)} columns are")
        else:
            found = dict(zip(names, cells, strict=True))
            row = _row(log, line, found)
            if row is not None:
                kind = found["collective"], found["#ranks"]
                blocks[kind] = blocks.get(kind) or _block(log, *kind)
                blocks[kind].rows.append(row)
    _report_odd(log, blocks)


def _report_odd(log: Log, blocks: Mapping[tuple[str, str], Block]) -> None:
    """A single row of another number of ranks than the others of its operation is damaged.

    Only so where the others are more than one, or were before something was skipped.
    """
    for (name, _), block in blocks.items():
        others = [(one, len(o.rows)) for (one, _), o in blocks.items() if o is not block]
        beside = [rows for one, rows in others if one == name]
        if len(block.rows) != 1:
            continue
        if beside and (max(beside) > 1 or log.skipped_count):
            log.skip(block.rows.pop().line, f"#ranks is not that of the other rows of {name}")
        elif log.skipped_count and any(rows > 1 for _, rows in others):
            log.skip(block.rows.pop().line, f"a single row of {name} in a file that is damaged")


def _block(log: Log, name: str, ranks: str) -> Block:
    op = OPS.get(name.lower())
    block = Block(ONECCL_POWERS, op=op, devices=whole(ranks), stepped=True)
    block.unknown_op = None if op else name
    log.blocks.append(block)
    return block


def _row(log: Log, line: Line, cells: Mapping[str, str]) -> Row | None:
    """The row of a line whose numbers agree."""
    counts = [count for name in _COUNTS if (count := whole(cells[name])) is not None]
    times = all_printed([cells[name] for name in (*_TIMES, "stddev[%]", "wait_t_avg[usec]")])
    dtype = dtype_of(cells["dtype"])
    if len(counts) < len(_COUNTS) or times is None or counts[0] < 1:
        log.skip(line, f"{', '.join((*_COUNTS, *_TIMES))} are not all numbers of 0 or more")
        return None
    _, item, count, size, *_ = counts
    least, average, most, *_ = times
    if cells["reduction"].strip().lower() not in _REDUCTIONS:
        log.skip(line, f"reduction {cells['reduction']!r} is not one of the benchmark's")
    elif item != ITEM_BYTES.get(dtype) or size != item * count:
        log.skip(line, f"message_size {size} is not {count} of {item} bytes, as {dtype} has")
    elif not 0 < least.value * _LESS <= average.value <= most.value / _LESS:
        log.skip(line, "t_avg is not between t_min and t_max, or is 0")
    else:
        return Row(line, float(size), (Timing("average", average.times(us)),), dtype=dtype)
    return None
