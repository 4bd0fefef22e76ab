"""nccom-test of the AWS Neuron SDK: `size(B) count(elems) type time(us) algbw(GB/s) busbw(GB/s)`.

algbw is size over time in 2³⁰ B/s, although it is headed GB/s; the log names neither the operation
(it stands in the command) nor, to more than the digits of busbw/algbw, the number of ranks.

Source: AWS Neuron documentation, NCCOM-TEST user guide, whose example is 33554432 B in 768 µs and
40.69 GB/s.
"""

import re

from scaleopt.data.readers.ends import ends
from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.nccl_columns import agrees
from scaleopt.data.readers.printed import SECONDS, printed, whole
from scaleopt.data.readers.record import ITEM_BYTES, OPS, Block, Log, Row, Timing, dtype_of
from scaleopt.units import GiB

_HEADER = re.compile(r"\s*size\(B\)\s+count\(elems\)\s+type\s+time")
_COMMAND = re.compile(r"\bnccom-test\b(.*)")


class Reader:
    """Reads one log."""

    name = "nccom-test"
    marks = ("size(B)", "nccom-test")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.block: Block | None = None
        self.columns: list[str] = []
        self.op: str | None = None
        self.ranks: int | None = None

    @staticmethod
    def starts(text: str) -> bool:
        """Whether a line can only be of this format."""
        return bool(_HEADER.match(text) or re.search(r"\bnccom-test\s+-", text))

    def read(self, line: Line) -> None:
        """Take one line."""
        text = line.text
        if command := _COMMAND.search(text):
            words = command[1].split()
            self.op = next((OPS[word] for word in words if word in OPS), None)
            ranks = re.search(r"(?:-r|--nworkers)[ =](\d{1,9})\b", command[1])
            self.ranks = int(ranks[1]) if ranks else None
        elif _HEADER.match(text):
            self.columns = text.split()
            self.block = Block(
                {"all_to_all": 1}, op=self.op, devices=self.ranks, columned=ends(text)
            )
            self.log.blocks.append(self.block)
        elif text.startswith("Avg bus bandwidth"):
            self.block = None
        elif self.block is not None and text.lstrip()[:1].isdigit():
            self._row(line, self.block)
        elif self.block is not None and text.strip() and "```" not in text:
            self.log.skip(line, "neither a row nor a message that is known")

    def finish(self) -> None:
        """Nothing is left over at the end."""

    def _row(self, line: Line, block: Block) -> None:
        cells = line.text.split()
        if len(cells) != len(self.columns):
            self.log.skip(line, f"{len(cells)} cells where {len(self.columns)} columns are")
            return
        if not {"size", "count", "type"} <= {name.split("(")[0] for name in self.columns}:
            self.log.skip(line, "the header lacks size, count or type")
            return
        found = dict(zip((re.sub(r"\(.*", "", name) for name in self.columns), cells, strict=True))
        time = next(name for name in self.columns if name.startswith("time"))
        unit = re.search(r"\((\w+)\)", time)
        seconds = printed(found[time.split("(")[0]])
        size, count = whole(found["size"]), whole(found["count"])
        algbw, busbw = printed(found.get("algbw", "")), printed(found.get("busbw", ""))
        if None in (size, count, seconds, algbw, busbw) or unit is None or unit[1] not in SECONDS:
            self.log.skip(line, "a cell is not a number, or the header has no unit of time")
            return
        assert seconds is not None
        assert algbw is not None
        assert busbw is not None
        assert size is not None
        seconds = seconds.times(SECONDS[unit[1]])
        timing = Timing("average", seconds, algbw.times(GiB), busbw.times(GiB))
        row = Row(line, float(size), (timing,), count, dtype_of(found["type"]))
        if row.dtype not in ITEM_BYTES:
            self.log.skip(line, f"{found['type']} is not a data type that is known")
        elif seconds.value <= 0 or not agrees(row):
            self.log.skip(line, "size, count, time and bandwidth do not agree")
        else:
            block.rows.append(row)
