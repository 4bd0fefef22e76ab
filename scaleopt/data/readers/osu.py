"""OSU micro-benchmarks: `# OSU MPI Allreduce Latency Test`, then size and latencies in µs.

`Size` is what one rank passes in the call: the full array for all-reduce, broadcast, reduce and
reduce-scatter; a rank's share for all-gather; what goes to each single peer for all-to-all. The
time is the average over ranks and iterations; `-f` adds the least and the most of the ranks, which
must enclose it. The log holds no rank count: it is the launcher's to say, or the caller's.

Source: OSU micro-benchmarks 7, c/mpi/collective and c/util/osu_util_mpi.c.
"""

import re

from scaleopt.data.readers.alike import as_many_decimals, last_digit
from scaleopt.data.readers.ends import ends
from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.printed import all_printed, whole
from scaleopt.data.readers.record import ITEM_BYTES, Block, Log, Row, Timing, dtype_of
from scaleopt.units import us

_TITLE = re.compile(
    r"#?\s*OSU\b.*?\b(?:MPI|NCCL|RCCL|XCCL|UPC\+*)(?:-[A-Z]+(?: MANAGED)?)*\s+(.*?)\s+Test\b(.*)"
)
_HEADER = re.compile(r"#?\s*Size\s+.*(?:Latency|Bandwidth|Overall|MB/s|\(us\))", re.IGNORECASE)
POWERS = {"all_gather": 1, "all_to_all": 2, "permute": 1}
_OPS = {
    "Allreduce": "all_reduce", "Allgather": "all_gather", "Allgatherv": "all_gather",
    "Reduce_scatter": "reduce_scatter", "Reduce_scatter_block": "reduce_scatter",
    "All-to-All": "all_to_all", "Alltoall": "all_to_all", "Broadcast": "broadcast",
    "Bcast": "broadcast", "Reduce": "reduce", "Latency": "send",
}  # fmt: skip
_COLUMNS = {
    "size": "size", "latency(us)": "average", "avglatency(us)": "average", "avglat(us)": "average",
    "minlatency(us)": "least", "minlat(us)": "least", "maxlatency(us)": "most",
    "maxlat(us)": "most", "iterations": "iterations",
    **{f"p{n}taillat(us)": f"p{n}" for n in range(1, 100)},
    # of non-blocking operations and of bandwidth, which have no average latency
    **dict.fromkeys(
        ("overall(us)", "compute(us)", "coll.init(us)", "mpi_test(us)", "mpi_wait(us)",
         "purecomm.(us)", "overlap(%)", "bandwidth(mb/s)", "mb/s", "messages/s"), "other",
    ),
}  # fmt: skip
_VERSION = re.compile(r"\s*v?(\d{1,4})\.(\d{1,4})(?:\.\d+)*\w*\s*")
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
        self.typed = False
        """Whether the version prints a data type."""

    @staticmethod
    def starts(text: str) -> bool:
        """Whether a line can only be of this format."""
        return _TITLE.match(text) is not None

    def read(self, line: Line) -> None:
        """Take one line."""
        text = line.text
        if self.block is not None and self.columns and text.lstrip()[:1].isdigit():
            self._row(line)
        elif title := _TITLE.match(text):
            self._title(title[1])
            version = _VERSION.fullmatch(title[2])
            number = (int(version[1] or 0), int(version[2] or 0)) if version else (0, 0)
            self.typed = number > (7, 0)
            if version is None:
                self.log.skip(line, "after the title stands no version, or more")
            self.log.facts["benchmark"] = text.strip("# ").strip()
        elif datatype := re.match(r"#\s*Datatype:\s*(\w+)", text):
            self.dtype = dtype_of(datatype[1])
            if self.dtype not in ITEM_BYTES:
                self.log.skip(line, f"{datatype[1]} is not a data type that is known")
                self.dtype = ""
        elif _HEADER.match(text):
            self._header(line)
            if self.typed and not self.dtype:
                self.log.skip(line, "no data type above, which this version prints")
        elif self.block is None:
            return
        elif not self.columns and text.strip() and not _COMMENT.match(text):
            self.log.skip(line, "neither a header nor a message that is known")
        elif re.match(r"\s*\{\"|START OF", text):
            self.block = None
        elif any(letter.isdigit() for letter in text) and (
            not text.lstrip().startswith("#") or re.fullmatch(r"\s*#[\s#\d.,]+", text)
        ):
            self.log.skip(line, "neither a row nor a message that is known")

    def finish(self) -> None:
        """Nothing is left over at the end."""

    def _title(self, title: str) -> None:
        name = re.sub(r"(?:\s+Personalized Exchange)?(?:\s+Latency)?$", "", title)
        known = _OPS.get(name)
        self.columns, self.dtype = [], ""
        self.block = Block(
            POWERS,
            op=known,
            unknown_op=None if known else title,
            devices=2 if known == "send" else None,
            stepped=True,
            step=2.0,
            rounding=as_many_decimals,
        )
        self.log.blocks.append(self.block)

    def _header(self, line: Line) -> None:
        shown = _COLUMN.findall(line.text.lstrip("# ").replace("\t", "  "))
        self.columns = [_COLUMNS.get(name.lower().replace(" ", ""), "") for name in shown]
        known = [name for name in self.columns if name != "other"]
        if "" in self.columns or len({*known}) < len(known):
            self.log.skip(line, "a header with a column that is not known, or one twice")
            self.columns = []
            self.block = None
        elif self.block is not None and self.block.op == "send" and {"least", "most"} & {*known}:
            self.log.skip(line, "columns of a collective under the title of a message between two")
            self.columns = []
            self.block = None
        elif self.block is not None:
            self.block.columned = ends(line.text, _COLUMN)

    def _row(self, line: Line) -> None:
        assert self.block is not None
        cells = line.text.split()
        size, numbers = whole(cells[0]), all_printed(cells[1:])
        if len(cells) != len(self.columns):
            self.log.skip(line, f"{len(cells)} cells where {len(self.columns)} columns are")
        elif size is None or numbers is None:
            self.log.skip(line, "its cells are not all numbers of 0 or more")
        else:
            found = dict(zip(self.columns[1:], numbers, strict=True))
            average = found.get("average")
            if average is None:
                self.log.skip(line, "there is no column of average latencies")
                return
            least, most = found.get("least", average), found.get("most", average)
            if len({last_digit(one) for one in (least, average, most)}) > 1:
                self.log.skip(line, "latencies with different decimals")
                return
            if average.value <= 0 or least.low > average.high or average.low > most.high:
                self.log.skip(line, "the average is not between the least and the most")
                return
            timing = Timing("average", average.times(us))
            self.block.rows.append(Row(line, float(size), (timing,), dtype=self.dtype))
