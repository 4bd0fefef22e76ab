"""OSU micro-benchmarks: `# OSU MPI Allreduce Latency Test`, then size and latencies in µs.

`Size` is what one rank passes in the call: the full array for all-reduce, broadcast, reduce and
reduce-scatter; a rank's share for all-gather; what goes to each single peer for all-to-all. The
time is the average over ranks and iterations; `-f` adds the least and the most of the ranks, which
must enclose it. The log holds no rank count: it is the launcher's to say, or the caller's.

Source: OSU micro-benchmarks 7, c/mpi/collective and c/util/osu_util_mpi.c.
"""

import re

from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.printed import Printed, printed, whole
from scaleopt.data.readers.record import ITEM_BYTES, Block, Log, Row, Timing, dtype_of
from scaleopt.units import us

_TITLE = re.compile(
    r"#?\s*OSU\b.*?\b(?:MPI|NCCL|RCCL|XCCL|UPC\+*)(?:-[A-Z]+)*\s+(.*?)\s+Test\b(.*)"
)
_HEADER = re.compile(r"#?\s*Size\s+.*(?:Latency|Bandwidth|Overall|MB/s|\(us\))", re.IGNORECASE)
POWERS = {"all_gather": 1, "all_to_all": 2, "permute": 1}
_OPS = {
    "Allreduce": "all_reduce", "Allgather": "all_gather", "Allgatherv": "all_gather",
    "Reduce_scatter": "reduce_scatter", "Reduce_scatter_block": "reduce_scatter",
    "All-to-All": "all_to_all", "Alltoall": "all_to_all", "Broadcast": "broadcast",
    "Bcast": "broadcast", "Reduce": "reduce", "Latency": "send",
}  # fmt: skip
_VERSION = re.compile(r"\s*(?:v?(\d{1,4})(?:\.\d+)*\w*)?\s*")
_COMMENT = re.compile(r"#\s*(?:Size|Overall|Datatype|Send|Rank|Pairs|Window|\[)|#\s*$")
_COLUMN = re.compile(r"\S+(?: \S+)*")


class Reader:
    """Reads one log."""

    name = "OSU micro-benchmarks"
    marks = ("OSU",)

    def __init__(self, log: Log) -> None:
        self.log = log
        self.block: Block | None = None
        self.columns: list[str] = []
        self.dtype = ""
        self.seventh = False
        """Whether the version is 7 or later."""

    @staticmethod
    def starts(text: str) -> bool:
        """Whether a line can only be of this format."""
        return _TITLE.match(text) is not None

    def read(self, line: Line) -> None:
        """Take one line."""
        text = line.text
        if title := _TITLE.match(text):
            self._title(title[1])
            version = _VERSION.fullmatch(title[2])
            self.seventh = version is not None and int(version[1] or 0) >= 7
            if version is None:
                self.log.skip(line, "after the title stands more than a version")
            self.log.facts["benchmark"] = text.strip("# ").strip()
        elif datatype := re.match(r"#\s*Datatype:\s*(\w+)", text):
            self.dtype = dtype_of(datatype[1])
            if self.dtype not in ITEM_BYTES:
                self.log.skip(line, f"{datatype[1]} is not a data type that is known")
                self.dtype = ""
        elif _HEADER.match(text):
            self.columns = _COLUMN.findall(re.sub(r"^#?\s*", "", text).replace("\t", "  "))
            if self.seventh and not self.dtype:
                self.log.skip(line, "no data type above, which this version prints")
        elif self.block is None:
            return
        elif not self.columns and text.strip() and not _COMMENT.match(text):
            self.log.skip(line, "neither a header nor a message that is known")
        elif text[:1].isdigit() or text.lstrip()[:1].isdigit():
            self._row(line)
        elif re.match(r"\s*\{\"|START OF", text):
            self.block = None
        elif (not text.lstrip().startswith("#") or re.fullmatch(r"\s*#[\s#\d.,]+", text)) and any(
            printed(cell) for cell in text.replace("#", " ").split()
        ):
            self.log.skip(line, "neither a row nor a message that is known")

    def finish(self) -> None:
        """Nothing is left over at the end."""

    def _title(self, title: str) -> None:
        name = re.sub(r"(?:\s+Personalized Exchange)?(?:\s+Latency)?$", "", title)
        known = _OPS.get(name)
        self.columns, self.dtype = [], ""
        self.block = Block(
            POWERS, op=known, unknown_op=None if known else title, stepped=True, columned=True,
            decimals=True,
            devices=2 if known == "send" else None,
        )  # fmt: skip
        self.log.blocks.append(self.block)

    def _row(self, line: Line) -> None:
        cells = line.text.split()
        size = whole(cells[0])
        numbers = [printed(cell) for cell in cells[1:]]
        names = self.columns[1:]
        if size is None or len(numbers) != len(names) or not numbers:
            self.log.skip(line, f"{len(cells)} cells where {len(names) + 1} columns are")
            return
        found: dict[str, Printed] = {}
        for name, number in zip(names, numbers, strict=True):
            if number is None or number.value < 0:
                self.log.skip(line, f"{name} is not a number of 0 or more")
                return
            found[name.lower()] = number.times(us)
        average = next(
            (
                found[n]
                for n in found
                if n in ("avg latency(us)", "latency (us)", "latency(us)", "avg(us)")
            ),
            None,
        )
        if average is None:
            self.log.skip(line, f"no average latency among the columns {', '.join(names)}")
            return
        least = next((found[n] for n in found if n.startswith("min")), average)
        most = next((found[n] for n in found if n.startswith("max")), average)
        if average.value <= 0 or least.low > average.high or average.low > most.high:
            self.log.skip(line, "the average is not between the least and the most")
            return
        assert self.block is not None
        row = Row(line, float(size), (Timing("average", average),), dtype=self.dtype)
        self.block.rows.append(row)
