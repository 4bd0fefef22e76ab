"""The table of a newer all_reduce_bench.py: payload, busbw and algbw, and no time.

    The average bandwidth of all_reduce over 8 ranks (5 warmups / 20 trials):

    | payload |    busbw   |    algbw   |
    | ------: | ---------: | ---------: |
    |    1MiB |  39.93GBps |  22.82GBps |

The time is the payload over algbw, to the digits of that; algbw is a mean over trials, in 10⁹ B/s.

Source: ml-engineering, network/benchmarks/all_reduce_bench.py.
"""

import re

from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.printed import Printed, byte_count, printed
from scaleopt.data.readers.record import Block, Log, Row, Timing
from scaleopt.units import GB

_HEADER = re.compile(r"\s*\|\s*payload\s*\|\s*busbw\s*\|\s*algbw\s*\|\s*")
_ROW = re.compile(r"\s*\|\s*(\S+)\s*\|\s*(\S+)GBps\s*\|\s*(\S+)GBps\s*\|\s*")
_RANKS = re.compile(r"bandwidth of all_reduce over (\d{1,9}) ranks")
_SHORTEST = 1e-3
"""GB/s: a rate that is printed as 0.00 divides nothing."""


class Reader:
    """Reads one log."""

    name = "torch all_reduce_bench (table)"
    marks = ("payload", "bandwidth of all_reduce")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.block: Block | None = None
        self.ranks: int | None = None

    @staticmethod
    def starts(text: str) -> bool:
        """Whether a line can only be of this format."""
        return bool(_HEADER.fullmatch(text) or _RANKS.search(text))

    def read(self, line: Line) -> None:
        """Take one line."""
        text = line.text
        if ranks := _RANKS.search(text):
            self.ranks, self.block = int(ranks[1]), None
        elif _HEADER.fullmatch(text):
            self.block = Block({}, op="all_reduce", devices=self.ranks, stepped=True, step=2.0)
            self.log.blocks.append(self.block)
            self.ranks = None
        elif self.block is not None and (row := _ROW.fullmatch(text)):
            self._row(line, self.block, row)
        elif self.block is not None and not set(text) <= set("|-: "):
            if "|" in text or "Bps" in text:
                self.log.skip(line, "not payload, busbw and algbw")
            else:
                self.block = None

    def finish(self) -> None:
        """Nothing is left over at the end."""

    def _row(self, line: Line, block: Block, cells: "re.Match[str]") -> None:
        size, busbw, algbw = byte_count(cells[1]), printed(cells[2]), printed(cells[3])
        if (
            not size
            or busbw is None
            or algbw is None
            or algbw.value < _SHORTEST
            or "i" not in cells[1]
        ):
            self.log.skip(line, "a payload or a bandwidth that is no number, or 0")
            return
        ends = (size / (rate * GB) for rate in (algbw.value, algbw.high, algbw.low))
        timing = Timing("mean of trials", Printed(*ends), algbw.times(GB), busbw.times(GB))
        block.rows.append(Row(line, size, (timing,), dtype="float32"))
        self.log.note("times: payload over algbw, to its digits, as the table has no times")
