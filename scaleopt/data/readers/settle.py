"""Blocks of rows as our table: which operation, how many devices, bytes of the full array.

What the log says comes first, what the caller says overrides it. The number of devices that a log
does not say follows from busbw/algbw where exactly one fits every row, and then a note says so.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import Any, NamedTuple

from scaleopt.data.readers.alike import alike
from scaleopt.data.readers.gathered import FULL
from scaleopt.data.readers.printed import overlap
from scaleopt.data.readers.record import ITEM_BYTES, Block, Log, Row, Timing

BUS = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
    "permute": lambda n: 1 / n,
    "send": lambda n: 1.0,
}
"""Bytes over one device's link, of a full array of 1: as `so.bus_bandwidth`, without JAX."""
_ROOTED = ("broadcast", "reduce")
_SHARED = ("all_gather", "reduce_scatter", "all_to_all")
"""Operations whose element count may be that of one device's share."""
_SAY_DEVICES = "say how many with devices=… (scaleopt import --devices)"
_SAY_OP = "say which operation with op=… (scaleopt import --op)"
_ROUND = 1e-9
"""What reckoning in floats may add to a bound."""
MOST_DEVICES = 65536


class Given(NamedTuple):
    """What the caller says of the log."""

    devices: int | None = None
    nodes: int | None = None
    op: str | None = None
    hint: str | None = None
    """An operation that the file's name holds."""


class UnsaidError(ValueError):
    """The log does not say something that the table needs."""


def settle(log: Log, given: Given) -> None:
    """Gather the rows of every block; those that contradict themselves are skipped."""
    unsaid = []
    for block in log.blocks:
        try:
            log.gathered.add(_settled(log, block, given))
        except UnsaidError as error:
            unsaid.append((block, error))
    if unsaid and not log.gathered:
        raise unsaid[0][1]
    for block, error in unsaid:  # what other tables say is not lost for one that is damaged
        _report(log, block, str(error))


def settle_full(log: Log, given: Given) -> None:
    """Settle blocks that have grown long, before the rest of the log is read."""
    for block in log.blocks:
        if len(block.rows) >= FULL:
            log.gathered.add(_settled(log, block, given))


def _report(log: Log, block: Block, why: str) -> None:
    for row in block.rows:
        log.skip(row.line, why)
    block.rows.clear()


def _settled(log: Log, block: Block, given: Given) -> list[dict[str, Any]]:
    """The rows of a block, which it has no more."""
    if block.unknown_op and not given.op:
        _report(log, block, f"of {block.unknown_op}, which the table has no operation for")
    if not block.rows:
        return []
    op, devices = block.run = block.run or _run(log, block, given)
    nodes = given.nodes or block.nodes or log.launched_nodes
    if nodes is None and devices == 1:
        nodes = 1
    if given.nodes and given.nodes > devices:
        raise UnsaidError(
            f"nodes is {given.nodes}, and the table at line {block.rows[0].line.number} is of "
            f"{devices} devices; give the hosts that they are on"
        )
    if nodes is not None and nodes > devices:
        log.note(f"nodes: {nodes} for {devices} devices cannot be, and is left out")
        nodes = None
    table = []
    for row in alike(log, block):
        full = row.size * float(devices) ** block.powers.get(op, 0)
        wrong = _contradiction(row, op, full, devices)
        if wrong:
            log.skip(row.line, wrong)
            continue
        table += [
            {
                "op": op,
                "devices": devices,
                "nodes": nodes,
                "size_bytes": full,
                "time_s": timing.seconds.value,
                "dtype": row.dtype,
                "label": timing.label,
            }
            for timing in row.timings
        ]
    block.rows.clear()
    return table


def _run(log: Log, block: Block, given: Given) -> tuple[str, int]:
    """The operation and the number of devices."""
    where = f"the table at line {block.rows[0].line.number}"
    told = given.devices or block.devices
    op = given.op or block.op
    if op in _ROOTED and block.rooted is False and not given.op:
        raise UnsaidError(f"{where} is of {op} as the log says, and its column root has none")
    fits = {name: _devices_that_fit(block, name) for name in ([op] if op else _possible_ops(block))}
    if not op:
        likely = [
            name
            for name, (low, high) in fits.items()
            if (low <= told <= high if told else max(low, block.least_devices) <= high)
        ]
        if len(likely) == 1:
            op, why = likely[0], "busbw/algbw and the columns"
        elif given.hint in likely:
            op, why = given.hint, "the file's name, with which the bandwidths agree"
        else:
            raise UnsaidError(
                f"{where} does not say which operation it is of; its rows fit "
                f"{', '.join(likely) or 'none that is known'}: {_SAY_OP}"
            )
        log.note(f"operation {op}: from {why}, as the log does not say")
    low, high = fits[op]
    if given.devices:
        _check_given(log, block, where, op, given.devices, fits[op])
        return op, given.devices
    if told and low <= told <= high:
        return op, told
    if told:
        fitting = f"those of {low}" if low == high else "none" if low > high else f"{low} to {high}"
        raise UnsaidError(
            f"{where} is of {told} devices as the log says, and its bandwidths are not ({fitting} "
            f"of {op} would be): {_SAY_DEVICES}"
        )
    low = max(low, block.least_devices)
    if low == high:
        log.note(f"devices {low}: from busbw/algbw, as the log does not say")
        return op, low
    launched = (log.launched or 0) * block.per_process
    if low <= launched <= high:
        log.note(f"devices {launched}: from the launcher's command or job record")
        return op, launched
    if low > high:
        raise UnsaidError(
            f"{where}: no number of devices fits the printed bandwidths of {op}; "
            f"{_SAY_DEVICES}, or {_SAY_OP}"
        )
    span = f"{low} to {high}" if high < MOST_DEVICES else f"{low} or more"
    raise UnsaidError(
        f"{where} does not say how many devices took part (as far as it tells: {span}); "
        f"{_SAY_DEVICES}"
    )


def _check_given(
    log: Log, block: Block, where: str, op: str, devices: int, fits: tuple[int, int]
) -> None:
    """Refuse a number of devices that the bandwidths contradict; say one that the log does."""
    low, high = fits
    if low <= high and not low <= devices <= high:
        span = f"{low}" if low == high else f"{low} to {high}"
        raise UnsaidError(
            f"{where} has the bandwidths of {op} on {span} devices, and not on the {devices} that "
            "are given; leave devices=… (--devices) out, or give their number"
        )
    launched = (log.launched or 0) * block.per_process
    told = block.devices or launched or devices
    if told != devices:
        log.note(f"devices {devices}: as given, in place of the {told} that the log says")


def _possible_ops(block: Block) -> list[str]:
    """The operations that the columns allow: reduction, root, and count of the whole or a share."""
    reducing = ("all_reduce", "reduce_scatter", "reduce")
    last = max(block.rows, key=lambda row: row.size)
    whole = last.elements is None or last.elements * ITEM_BYTES.get(last.dtype, 1) == last.size
    return [
        name
        for name in BUS
        if name != "send"
        and (block.reduces is None or (name in reducing) == block.reduces)
        and (block.rooted is None or (name in _ROOTED) == block.rooted)
        and (name not in _SHARED or not whole or block.devices == 1)
    ]


def _devices_that_fit(block: Block, op: str) -> tuple[int, int]:
    """The least and the most devices that the busbw of the most rows allow."""
    spans: Counter[tuple[int, int]] = Counter()
    power = block.powers.get(op, 0)
    for row in block.rows:
        for timing in row.timings:
            if timing.busbw is None or row.size == 0 or timing.busbw.low <= 0:
                continue
            low, high = row.size / timing.seconds.high, row.size / max(timing.seconds.low, 1e-12)
            if timing.algbw is not None and timing.algbw.low > 0:
                low, high = max(low, timing.algbw.low), min(high, timing.algbw.high)
            spans[_solve(op, power, timing.busbw.low / high, timing.busbw.high / low)] += 1
    if not spans:
        return 1, MOST_DEVICES
    # A damaged row must not decide: the range that most rows' ranges hold, if it is most of them.
    ends = {end for low, high in spans if low <= high for end in (low, high)}
    score = {end: sum(n for (low, high), n in spans.items() if low <= end <= high) for end in ends}
    most = max(score.values(), default=0)
    if 2 * most <= spans.total():
        return 2, 1
    best = [end for end in ends if score[end] == most]
    return min(best), max(best)


def _solve(op: str, power: int, low: float, high: float) -> tuple[int, int]:
    """The whole numbers N whose busbw per size and second lies between the bounds; else (2, 1)."""

    def factor(n: int) -> float:
        return BUS[op](n) * float(n) ** power

    numbers = range(1, MOST_DEVICES + 1)
    first = bisect_left(numbers, low * (1 - _ROUND), key=factor)
    last = bisect_right(numbers, high * (1 + _ROUND), key=factor)
    return (first + 1, last) if first < last else (2, 1)


def _contradiction(row: Row, op: str, full: float, devices: int) -> str | None:
    """What is wrong between the numbers of a row."""
    if row.elements is not None and row.size:
        bytes_of_count = row.elements * ITEM_BYTES.get(row.dtype, 1)
        shares = devices if op in _SHARED else 1
        if row.size not in (bytes_of_count, bytes_of_count * shares):
            return f"count × element size is {bytes_of_count}, and size {row.size:g}"
    for timing in row.timings:
        if timing.busbw is not None and not _bus_agrees(timing, op, full, devices):
            return f"busbw does not agree with size, time, {devices} devices and {op}"
    return None


def _bus_agrees(timing: Timing, op: str, full: float, devices: int) -> bool:
    factor = BUS[op](devices) * full
    low, high = factor / timing.seconds.high, factor / max(timing.seconds.low, 1e-12)
    return timing.busbw is None or overlap(timing.busbw, low, high)
