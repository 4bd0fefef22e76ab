"""The DeepSpeed communication benchmark (`ds_bench`): a table for each operation.

`Size` is what one rank passes in: the full array for all-reduce and broadcast, its share for
all-gather, its buffer for all-to-all; `Description` has it exactly, as elements × bytes of one.
Throughput is twice size over time for all-reduce, N times for all-gather; BusBW is the usual one.

Source: DeepSpeedExamples, benchmarks/communication/utils.py, get_bw and print_header.
"""

import re

from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.printed import SECONDS, byte_count, overlap, printed
from scaleopt.data.readers.record import OPS, Block, Log, Row, Timing
from scaleopt.units import GB, us

_TITLE = re.compile(r"- Performance of (\w+) on (\d{1,9}) devices -")
_HEADER = re.compile(r"\s*Size \(Bytes\)\s+Description\s+Duration(?: \((\w+)\))?\s+.*\((\w+)\)")
_ROW = re.compile(
    r"\s*([\d.]+(?: ?[KMGT]?B)?)\s+(\d{1,18})x(\d{1,2})\s+(\d+\.\d{3})(?: (us|ms|s))?"
    r"\s+(\d+\.\d{3})\s+(\d+\.\d{3})\s*$"
)
_CELLS = (2, 4, 6, 7)
"""Groups of a row that begin a column, after the first."""
_WORDS = re.compile(r"(?<=\s)(?:Description|Duration|Throughput|BusBW)\b")
POWERS = {"all_gather": 1, "all_to_all": 1}


class Reader:
    """Reads one log."""

    name = "DeepSpeed communication benchmark"
    marks = ("Performance of",)

    def __init__(self, log: Log) -> None:
        self.log = log
        self.block: Block | None = None
        self.raw_unit: str | None = None
        self.starts_at: list[int] | None = None
        """Where the header's columns begin, with which the rows' are in line."""
        self.rate = GB / 8

    @staticmethod
    def starts(text: str) -> bool:
        """Whether a line can only be of this format."""
        return _TITLE.search(text) is not None

    def read(self, line: Line) -> None:
        """Take one line."""
        text = line.text
        if title := _TITLE.search(text):
            op = OPS.get(title[1])
            unknown = None if op else title[1]
            self.block = Block(POWERS, op=op, unknown_op=unknown, devices=int(title[2]))
            self.log.blocks.append(self.block)
        elif header := _HEADER.match(text):
            self.starts_at = _starts(text)
            self.raw_unit = header[1]
            self.rate = GB if header[2] == "GBps" else GB / 8
        elif self.block is None:
            return
        elif row := _ROW.match(text):
            self._row(line, self.block, row)
        elif re.match(r"\s*[\d.]+\s", text) or re.search(r"\s\d+x\d+\s", text):
            self.log.skip(line, "not size, description, duration, throughput and bandwidth")

    def finish(self) -> None:
        """Nothing is left over at the end."""

    def _row(self, line: Line, block: Block, match: re.Match[str]) -> None:
        begins = [match.start(place) for place in _CELLS]
        if self.starts_at is not None and begins != self.starts_at:
            self.log.skip(line, "its cells do not begin where the header's do")
            return
        size = int(match[2]) * int(match[3])
        shown = byte_count(match[1])
        unit = match[5] or self.raw_unit
        seconds, rate, bus = printed(match[4]), printed(match[6]), printed(match[7])
        if seconds is None or rate is None or bus is None or shown is None or unit is None:
            self.log.skip(line, "a cell is not a number with a unit")
            return
        seconds = seconds.times(SECONDS.get(unit, us))
        # The size is shown in two decimals of its unit, so 0.005 in 1 at the most.
        if not 0.995 * size <= shown <= 1.005 * size or int(match[3]) not in (1, 2, 4, 8):
            self.log.skip(line, f"{match[1]} is not {match[2]} elements of {match[3]} bytes")
            return
        factor = {"all_reduce": 2, "all_gather": block.devices or 1}.get(block.op or "", 1) * size
        if seconds.value <= 0 or not overlap(
            rate.times(self.rate), factor / seconds.high, factor / max(seconds.low, 1e-12)
        ):
            self.log.skip(line, "throughput is not size over duration")
            return
        timing = Timing("average", seconds, None, bus.times(self.rate))
        block.rows.append(Row(line, float(size), (timing,)))


def _starts(header: str) -> list[int] | None:
    """Where the columns after the first begin; None where the header was not padded to them."""
    found = [match.start() for match in _WORDS.finditer(header)]
    return found if len(found) == len(_CELLS) and header.count("   ") > 1 else None
