"""nccl-tests and rccl-tests: `size count type [redop] [root]`, then time, algbw and busbw.

`size` is what one device holds of the larger of its two buffers: the full array for all but
all-to-all and send-receive, where N devices hold N of them. algbw = size / time; the bandwidths are
in 10⁹ B/s. The columns changed over the years (no root, `error` for `#wrong`, i_min and i_max per
iteration), so they are read from the header; a table without one is read in the layout that agrees
with its own bandwidths.

Source: nccl-tests, src/common.cu, src/util.cu and doc/PERFORMANCE.md.
"""

import math
import re

from scaleopt.data.readers.device_list import DeviceList
from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.printed import RATES, SECONDS, Printed, overlap, printed, whole
from scaleopt.data.readers.record import ITEM_BYTES, OPS, Block, Log, Row, Timing, dtype_of
from scaleopt.units import GB, us

POWERS = {"all_to_all": 1, "permute": 1}
_PROGRAM = re.compile(r"\b(\w+?)_perf\b")
_HEADER = {"size", "count", "type", "algbw", "busbw"}
_AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*(\S+)")
_UNITS = re.compile(r"\(B\).*\(elements\)|\(elements\).*\(\w+\)")
_RUN = re.compile(r"#?\s*nThreads?:?\s+(\d{1,9})\s+nGpus:?\s+(\d{1,9})\b")
_ROW = re.compile(r"\s*[\d,]+\s+[\d,]+\s+[A-Za-z]\w*\s")
_VERSION = re.compile(r"(?:NCCL|RCCL) version\s*:?\s*(\S+)|((?:nccl|rccl)-tests:? [Vv]ersion \S+)")
_FRAMES = ("```", "~~~", "---", "===", "...", "…", "|", "rccl-tests", "Using devices")
_MESSAGES = ("CCL INFO", "CCL WARN", "CCL TRACE", "CCL version", "WARN", "_perf")
_INSIDE = re.compile(r"\d\s+\d+\s+(?:float\w*|half|double|u?int\d+|bfloat16|fp8\w*|char)\s")
_NUMBERS = re.compile(r"(?<!\S)[-+]?\d[\d.,]*(?:[eE][-+]?\d+)?(?!\S)")
_REDUCTIONS = ("sum", "prod", "max", "min", "avg", "mulsum")
_LEFT = 1000
"""Lines of another kind after which a table that has no end is over."""
_ROUNDINGS = {"old": (2, 4), "new": (4, 5)}
"""To how many digits before the point a time in µs has two decimals, and to how many one."""
_KNOWN = {
    "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "wrong", "error",
    "i_min", "i_max", "i_p99", "i_cv%", "timestamp",
}  # fmt: skip
_FRONT = ("size", "count", "type", "redop", "root")


class Reader:
    """Reads one log."""

    name = "nccl-tests"
    marks = ("busbw", "nThread", "-tests")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.block: Block | None = None
        self._new_run()

    @staticmethod
    def starts(text: str) -> bool:
        """Whether a line can only be of this format."""
        return bool(
            ("busbw" in text and "(GB/s)" not in text and _is_header(text))
            or _RUN.match(text)
            or re.search(r"\b(?:nccl|rccl)-tests:? [Vv]ersion", text)
        )

    @staticmethod
    def bare(text: str) -> bool:
        """Whether a line may be a row of a table without a header."""
        return bool(_ROW.match(text) and _layouts(text.split()))

    def read(self, line: Line) -> None:
        """Take one line."""
        text = line.text
        if _ROW.match(text):
            self._row(line)
        elif not (_may_say(text) and self._said(line)):
            self._unknown(line)

    def _said(self, line: Line) -> bool:
        """Whether a line says something of the run or the table."""
        text = line.text
        if program := program_of(text):
            self._program(program, text)
        if version := _VERSION.search(text):
            self.log.facts["nccl" if version[1] else "benchmark"] = version[1] or version[2]
        if "busbw" in text and _is_header(text):
            self._header(line)
        elif self.block is None and "GB" in text and _UNITS.search(text) and _numbers(text) < 3:
            self._units(text)
        elif run := _RUN.match(text):
            self._new_run()
            self.per_process = int(run[1]) * int(run[2])
        elif "Using devices" in text:
            self._devices_follow(text)
        elif self.listed.add(text):
            if self.listed.kind:
                self.log.facts["device_kind"] = self.listed.kind
        elif separator := re.match(r"=+\s*(\d{1,9})[- ]nodes?\s*=+", text.strip()):
            self.block, self.listed = None, DeviceList()
            self.told_nodes, self.per_process = int(separator[1]), None
        else:
            return False
        return True

    def _unknown(self, line: Line) -> None:
        """A line that is neither a row nor says anything: reported where it may have been a row."""
        text = line.text
        row_like = text.count(".") > 1 and _is_like_a_row(text)
        if not row_like and self.block is None:
            return
        if text.lstrip().startswith("#"):
            if row_like:
                self.log.skip(line, "a row that is commented out, or damaged")
            elif average := _AVERAGE.search(text):
                self._average(line, average[1])
                self.block = None
            elif "concluded" in text:
                self.block = None
        elif row_like and _INSIDE.search(text):
            self.log.skip(line, "a row that a message was written into")
        elif row_like or not _is_message(text):
            self.log.skip(line, "neither a row nor a message that is known")
            self.others += 1
            if self.others > _LEFT:
                self.block = None

    def _average(self, line: Line, text: str) -> None:
        """Hold the average of all bus bandwidths, printed below a table, against its rows."""
        told, block = printed(text), self.block
        if block is None or told is None or block.run is not None:
            return
        if self.skipped < self.log.skipped_count:
            return  # rows are known to lack
        rates = [timing.busbw for row in block.rows for timing in row.timings]
        if None in rates or len(rates) != 2 * len(block.rows):
            return  # it is also of times that this table was printed without
        scale = next((scale for kind, scale in self.units if kind == "B/s"), GB)
        low = sum(rate.low for rate in rates if rate) / len(rates)
        high = sum(rate.high for rate in rates if rate) / len(rates)
        if not overlap(told.times(scale), low, high):
            self.log.skip(line, "is not the average of the table: a row lacks, or is damaged")

    def finish(self) -> None:
        """Nothing is left over at the end."""

    def _new_run(self) -> None:
        self.block = None
        self.others = 0
        """Lines since the last row that are neither rows nor messages."""
        self.skipped = 0
        """Lines that were skipped before the table."""
        self.columns: tuple[str, ...] | None = None
        self.units: list[tuple[str, float]] = []
        self.roundings = {*_ROUNDINGS}
        self.listed = DeviceList()
        self.per_process: int | None = None
        self.told_nodes: int | None = None
        if not hasattr(self, "op"):
            self.op: str | None = None

    def _program(self, name: str, text: str) -> None:
        """The program names the operation, and so begins another run."""
        if "concluded" not in text:
            self.op = name
            self.block = None

    def _devices_follow(self, text: str) -> None:
        self.listed = DeviceList()
        if across := re.search(r"across (\d{1,9}) nodes", text):
            self.told_nodes = int(across[1])

    def _header(self, line: Line) -> None:
        names = _names(line.text)
        self.columns = tuple(names)
        counts = [names.count(name) for name in ("time", "algbw", "busbw")]
        unknown = [name for name in names if name not in _KNOWN]
        if max(counts) > min(counts) or min(counts) < 1 or unknown:
            self.log.skip(line, "a header of other columns than size count type time algbw busbw …")
            self.columns = None
        self.units = []
        self.block = None
        self.skipped = self.log.skipped_count
        self.roundings = {"old"} if "error" in names else {*_ROUNDINGS}

    def _units(self, text: str) -> None:
        """Which unit stands under which time and bandwidth."""
        for unit in re.findall(r"\(([^)]*)\)", text):
            if unit.lower() in SECONDS:
                self.units.append(("s", SECONDS[unit.lower()]))
            elif unit.lower() in RATES:
                self.units.append(("B/s", RATES[unit.lower()]))

    def _row(self, line: Line) -> None:
        cells = line.text.split()
        layouts = _layouts(cells, self.columns)
        rows = [row for layout in layouts if (row := self._cells(line, cells, layout)) is not None]
        agreeing = [row for row in rows if agrees(row)]
        if not rows:
            self.log.skip(line, f"{len(cells)} cells that are not {self._expected()}")
        elif not agreeing:
            self.log.skip(line, "size, time and bandwidth do not agree")
        else:
            self._block(cells).rows.append(agreeing[0])
            self.others = 0

    def _expected(self) -> str:
        return " ".join(self.columns or (*_FRONT, "time", "algbw", "busbw"))

    def _block(self, cells: list[str]) -> Block:
        if self.block is None:
            known = OPS.get(self.op or "")
            listed = self.listed
            nodes = self.told_nodes or listed.nodes
            if listed.devices is not None and listed.devices == self.per_process:
                nodes = 1
            if nodes is None and listed.least:
                self.log.note("nodes: the list of devices is shortened, or not alike on all hosts")
            self.block = Block(
                POWERS,
                op=known,
                unknown_op=self.op if self.op and not known else None,
                devices=listed.devices,
                least_devices=max(listed.least, 1),
                nodes=nodes,
                per_process=self.per_process or 1,
                reduces=any(cell in _REDUCTIONS for cell in cells[3:4]),
                rooted=self._root(cells),
                rounding=_roundings,
            )
            self.log.blocks.append(self.block)
        return self.block

    def _root(self, cells: list[str]) -> bool | None:
        """Whether the operation has a root, where the columns say so."""
        place = 4 if cells[3:4] and not printed(cells[3]) else 3
        root = whole(cells[place].lstrip("-")) if len(cells) in (13, 11, 9, 8) else None
        return None if root is None else not cells[place].startswith("-")

    def _cells(self, line: Line, cells: list[str], layout: tuple[str, ...]) -> Row | None:
        """The row that cells are in one layout; None where a cell is not what it has to be."""
        size, count = whole(cells[0]), whole(cells[1])
        if size is None or count is None:
            return None
        dtype = dtype_of(cells[2])
        if dtype not in ITEM_BYTES:
            return None
        times, algbws, busbws = [], [], []
        scales = [scale for kind, scale in self.units if kind == "s"] or [us]
        rates = [scale for kind, scale in self.units if kind == "B/s"] or [GB]
        for name, cell in zip(layout, cells, strict=False):
            number = printed(cell)
            if name in ("time", "algbw", "busbw"):
                if number is None or number.value < 0 or (name == "time" and number.value == 0):
                    return None
                scale = scales[0] if name == "time" else rates[0]
                {"time": times, "algbw": algbws, "busbw": busbws}[name].append(number.times(scale))
            elif not _plausible(name, cell):
                return None
            if name == "wrong" and number is not None and number.value != 0:
                self.log.note("rows whose results the benchmark found wrong (#wrong is not 0)")
        labels = ("out-of-place", "in-place")
        timings = [Timing(*timing) for timing in zip(labels, times, algbws, busbws, strict=False)]
        row = Row(line, float(size), tuple(timings), count, dtype)
        ways = [_roundings(timing.seconds) for timing in row.timings]
        return None if any(way and not way & self.roundings for way in ways) else row


def _names(text: str) -> list[str]:
    """The names of the columns that a line may head."""
    names = [name.strip("#*").replace("cputime", "time") for name in text.split()]
    return [name for name in names if name]


def _is_header(text: str) -> bool:
    return {*_names(text)} >= {*_HEADER, "time"}


def _may_say(text: str) -> bool:
    """Whether a line holds one of the words that every line has that says something."""
    return (  # spelled out, as it is asked of every line of a long log
        "_perf" in text
        or "Rank" in text
        or "busbw" in text
        or "ersion" in text
        or "nGpus" in text
        or "node" in text
        or "elements" in text
        or "Using devices" in text
    )


def _is_message(text: str) -> bool:
    """Whether a line is of the library, or of what stands around logs in documents."""
    bare = text.strip()
    return not bare or bare.startswith(_FRAMES) or any(word in text for word in _MESSAGES)


def _roundings(seconds: Printed) -> set[str]:
    """The ways in which a time can have been rounded; none for any other."""
    digits = len(str(int(seconds.value / us)))
    decimals = round(-math.log10((seconds.high - seconds.low) / us))
    return {
        way
        for way, (with_two, with_one) in _ROUNDINGS.items()
        if decimals == (2 if digits <= with_two else 1 if digits <= with_one else 0)
        or decimals < 0  # as 1.2e+07
    }


def _plausible(name: str, cell: str) -> bool:
    """Whether a cell may stand in its column."""
    if name == "redop":
        return cell in (*_REDUCTIONS, "none")
    if name == "root":
        return re.fullmatch(r"-?\d{1,6}", cell) is not None
    if name in ("wrong", "error"):
        return printed(cell) is not None or cell.upper() == "N/A"
    return True


def program_of(text: str) -> str | None:
    """The operation that a command names, as all_reduce of `./build/all_reduce_perf -b 8`."""
    found = _PROGRAM.search(text)
    return found[1] if found else None


def agrees(row: Row) -> bool:
    """Whether every algbw is size over time, and the size a multiple of the count's bytes."""
    item = (row.elements or 0) * ITEM_BYTES.get(row.dtype, 1)
    if (item == 0) != (row.size == 0) or (item and row.size % item):
        return False
    return all(
        timing.algbw is None
        or overlap(
            timing.algbw, row.size / timing.seconds.high, row.size / max(timing.seconds.low, 1e-12)
        )
        for timing in row.timings
    )


def _layouts(cells: list[str], header: tuple[str, ...] | None = None) -> list[tuple[str, ...]]:
    """Every layout that has as many columns as there are cells, the header's alone where known."""
    if header is not None:
        bare = tuple(name for name in header if name not in ("redop", "root", "timestamp"))
        stamped = "timestamp" in header
        kinds = [
            tuple(name for name in header if name not in left and name != "timestamp")
            for left in ((), ("redop",), ("root",), ("redop", "root"))
        ]
        lengths = {len(kind): kind for kind in reversed(kinds)} | {len(bare): bare}
        found = [lengths[n] for n in (len(cells), len(cells) - 2 * stamped) if n in lengths]
        return found[:1]
    groups = (("time", "algbw", "busbw", "wrong"), ("time", "algbw", "busbw"))
    fronts = (_FRONT, _FRONT[:4], _FRONT[:3])
    return [
        front + group * repeats
        for front in fronts
        for group in groups
        for repeats in (2, 1)
        if len(front) + repeats * len(group) == len(cells)
    ]


def _is_like_a_row(text: str) -> bool:
    """Whether six cells of a line or more are numbers, two of them with decimals."""
    numbers = _NUMBERS.findall(text)
    return len(numbers) > 5 and sum("." in number for number in numbers) > 1


def _numbers(text: str) -> int:
    """How many cells of a line are numbers."""
    return len(_NUMBERS.findall(text))
