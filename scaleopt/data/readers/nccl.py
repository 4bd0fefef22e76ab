"""nccl-tests and rccl-tests: `size count type [redop] [root]`, then time, algbw and busbw.

`size` is what one device holds of the larger of its two buffers: the full array for all but
all-to-all and send-receive, where N devices hold N of them. algbw = size / time; the bandwidths are
in 10⁹ B/s. The columns changed over the years (no root, `error` for `#wrong`, i_min and i_max per
iteration), so they are read from the header; a table without one is read in the layout that agrees
with its own bandwidths.

Source: nccl-tests, src/common.cu, src/util.cu and doc/PERFORMANCE.md.
"""

import re

from scaleopt.data.readers.device_list import DeviceList
from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.nccl_columns import (
    REDUCTIONS,
    ROUNDINGS,
    agrees,
    found_wrong,
    is_header,
    is_like_a_header,
    is_like_a_row,
    is_whole_header,
    layouts,
    names_of,
    numbers_in,
    roundings,
    row_of,
)
from scaleopt.data.readers.printed import RATES, SECONDS, overlap, printed
from scaleopt.data.readers.record import OPS, Block, Log
from scaleopt.units import GB, us

POWERS = {"all_to_all": 1, "permute": 1}
_PROGRAM = re.compile(r"\b(\w+?)_perf\b")
_AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*(\S+)")
_UNITS = re.compile(r"\(B\).*\(elements\)|\(elements\).*\(\w+\)|\(B\)\s+\(\w+\)\s+\(GB/s\)")
_RUN = re.compile(r"#?\s*nThreads?:?\s+(\d{1,9})\s+nGpus:?\s+(\d{1,9})\b")
_ROW = re.compile(r"\s*[\d,]+\s+[\d,]+\s+[A-Za-z]\w*\s")
_SHORT_ROW = re.compile(r"\s*\d[\d,_]*(?:\s+[\d.]+){3,}\s*")
"""Of a table without count and type, which only some people show."""
_VERSION = re.compile(r"(?:NCCL|RCCL) version\s*:?\s*(\S+)|((?:nccl|rccl)-tests:? [Vv]ersion \S+)")
_FRAMES = ("```", "~~~", "---", "===", "...", "…", "|", "rccl-tests", "Using devices")
_MESSAGES = ("CCL INFO", "CCL WARN", "CCL TRACE", "CCL version", "WARN", "_perf")
_INSIDE = re.compile(r"\d\s+\d+\s+(?:float\w*|half|double|u?int\d+|bfloat16|fp8\w*|char)\s")
_IN_LIST = re.compile(r"\s*#(?!.*place)\s*[^\s.…]")
"""A comment that is none of those between the list of devices and the header."""
_LEFT = 1000
"""Lines of another kind after which a table that has no end is over."""


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
            ("busbw" in text and "(GB/s)" not in text and is_header(text))
            or _RUN.match(text)
            or re.search(r"\b(?:nccl|rccl)-tests:? [Vv]ersion", text)
        )

    @staticmethod
    def bare(text: str) -> bool:
        """Whether a line may be a row of a table without a header."""
        return bool(_ROW.match(text) and layouts(text.split()))

    def read(self, line: Line) -> None:
        """Take one line."""
        text = line.text
        if text.lstrip().startswith("|"):  # a table of markdown
            line = Line(line.number, text.replace("|", " "))
            text = line.text
        if _ROW.match(text) or (self.short and _SHORT_ROW.fullmatch(text)):
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
        if "busbw" in text and is_header(text):
            self._header(line)
        elif "bw" in text and is_like_a_header(text):
            self.log.skip(line, "a header that is damaged")
            self.listing, self.open, self.columns, self.block = False, True, None, None
        elif self.block is None and "GB" in text and _UNITS.search(text) and numbers_in(text) < 3:
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
        if self.listing and _IN_LIST.match(text):
            self.log.skip(line, "neither a device nor what stands above a header")
            self.listed.damaged = True
            return
        if text.startswith("==") and self.open:
            self.log.skip(line, "a separator that does not say what follows")
            self.block, self.told_nodes, self.listed = None, None, DeviceList()
            self.open = False
            return
        row_like = is_like_a_row(text) or (_UNITS.search(text) and numbers_in(text))
        if not row_like and not self.open:
            return
        if text.lstrip().startswith("#"):
            if row_like:
                self.log.skip(line, "a row that is commented out, or damaged")
            elif average := _AVERAGE.search(text):
                self._average(line, average[1])
                self.block, self.open = None, False
            elif "concluded" in text:
                self.block, self.open = None, False
        elif row_like and _INSIDE.search(text):
            self.log.skip(line, "a row that a message was written into")
        elif row_like or not _is_message(text):
            self.log.skip(line, "neither a row nor a message that is known")
            self.others += 1
            if self.others > _LEFT:
                self.block, self.open = None, False

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
        self.roundings = {*ROUNDINGS}
        self.short = False
        """Whether the table shows neither count nor type."""
        self.listed = DeviceList()
        self.open = False
        """Whether there is a table that has not ended."""
        self.listing = False
        """Whether what comes next is the list of devices."""
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
        self.listing = True
        self.listed = DeviceList()
        if across := re.search(r"across (\d{1,9}) nodes", text):
            self.told_nodes = int(across[1])

    def _header(self, line: Line) -> None:
        names = names_of(line.text)
        self.listing, self.open = False, True
        self.columns = tuple(names)
        if not is_whole_header(names):
            self.log.skip(line, "a header of other columns than size count type time algbw busbw …")
            self.columns = None
        self.short = self.columns is not None and "type" not in names
        self.units = []
        self.block = None
        self.skipped = self.log.skipped_count
        self.roundings = {"old"} if "error" in names else {*ROUNDINGS}

    def _units(self, text: str) -> None:
        """Which unit stands under which time and bandwidth."""
        for unit in re.findall(r"\(([^)]*)\)", text):
            if unit.lower() in SECONDS:
                self.units.append(("s", SECONDS[unit.lower()]))
            elif unit.lower() in RATES:
                self.units.append(("B/s", RATES[unit.lower()]))

    def _row(self, line: Line) -> None:
        cells = line.text.split()
        second = next((scale for kind, scale in self.units if kind == "s"), us)
        rate = next((scale for kind, scale in self.units if kind == "B/s"), GB)
        possible = layouts(cells, self.columns)
        made = [(row_of(line, cells, layout, second, rate), layout) for layout in possible]
        rows = [(row, layout) for row, layout in made if row is not None]
        agreeing = [(row, layout) for row, layout in rows if agrees(row)]
        if not rows:
            self.log.skip(line, f"{len(cells)} cells that are not those of a row")
        elif not agreeing:
            self.log.skip(line, "size, time and bandwidth do not agree")
        else:
            row, layout = agreeing[0]
            ways = [roundings(timing.seconds) for timing in row.timings]
            if any(way and not way & self.roundings for way in ways):
                self.log.skip(line, "a time with other decimals than this version prints")
                return
            if found_wrong(cells, layout):
                self.log.note("rows whose results the benchmark found wrong (#wrong is not 0)")
            self._block(cells).rows.append(row)
            self.others, self.open = 0, True

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
                reduces=None if self.short else cells[3:4] != [] and cells[3] in REDUCTIONS,
                rooted=False if cells[4:5] == ["-1"] or cells[3:4] == ["-1"] else None,
                padded=True,
                rounding=roundings,
            )
            self.log.blocks.append(self.block)
        return self.block


def _may_say(text: str) -> bool:
    """Whether a line holds one of the words that every line has that says something."""
    return (  # spelled out, as it is asked of every line of a long log
        "_perf" in text
        or "Rank" in text
        or "bw" in text
        or "ersion" in text
        or "nGpus" in text
        or "node" in text
        or "elements" in text
        or "GB/s" in text
        or "Using devices" in text
    )


def _is_message(text: str) -> bool:
    """Whether a line is of the library, or of what stands around logs in documents."""
    bare = text.strip()
    return not bare or bare.startswith(_FRAMES) or any(word in text for word in _MESSAGES)


def program_of(text: str) -> str | None:
    """The operation that a command names, as all_reduce of `./build/all_reduce_perf -b 8`."""
    found = _PROGRAM.search(text)
    return found[1] if found else None
