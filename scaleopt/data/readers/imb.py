"""Intel MPI Benchmarks and the oneCCL benchmark, which print alike: one table a benchmark.

`#bytes` is what one rank passes in the call: the full array for all-reduce, broadcast, reduce and
IMB's reduce-scatter; a rank's share for all-gather; what goes to each single peer for all-to-all;
oneCCL's reduce-scatter counts what a rank receives. t_min ≤ t_avg ≤ t_max must hold; the time is
t_avg, over ranks. PingPong prints half the round trip as t, and Mbytes/sec that agrees with it.

Source: Intel MPI Benchmarks, src_c/IMB_output.c and the user guide; oneCCL, examples/benchmark.
"""

import re

from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.printed import overlap, printed, whole
from scaleopt.data.readers.record import ITEM_BYTES, OPS, Block, Log, Row, Timing, dtype_of
from scaleopt.units import MB, MiB, us

_BENCHMARK = re.compile(r"#\s*Benchmarking:?\s+(?:Multi-)?(\S.*?)\s*$")
_PROCESSES = re.compile(r"#\s*#processes\s*[=:]\s*(\d+)")
_HEADER = re.compile(r"\s*#bytes\s+")
POWERS = {"all_gather": 1, "all_to_all": 2, "permute": 1}
_COLUMN = {
    "#bytes": "size", "#elem_count": "count", "#repetitions": "repetitions", "t[usec]": "average",
    "t_min[usec]": "least", "t_max[usec]": "most", "t_avg[usec]": "average",
    "mbytes/sec": "rate", "stddev[%]": "spread", "wait_t_avg[usec]": "wait",
}  # fmt: skip
_TABLE_ROW = re.compile(r"\s*#?\s*\d+(?:\s+[\d.]+){2,}\s*")
_FINISHED = re.compile(r"#\s*All (?:processes|done)|#\s*Benchmarking|Application \d+ resources")


class Reader:
    """Reads one log."""

    name = "Intel MPI Benchmarks"

    def __init__(self, log: Log) -> None:
        self.log = log
        self.block: Block | None = None
        self.columns: list[str] = []
        self.op, self.processes, self.groups = "", None, False
        self.dtype = ""

    @staticmethod
    def starts(text: str) -> bool:
        """Whether a line can only be of this format."""
        return bool(
            re.search(r"Intel\(?R?\)? MPI Benchmarks?", text)
            or re.match(r"\s*#bytes\s+(?:#|t\[)", text)
            or _BENCHMARK.match(text)
        )

    def read(self, line: Line) -> None:
        """Take one line."""
        text = line.text
        if benchmark := _BENCHMARK.match(text):
            self.op, self.processes, self.block = benchmark[1], None, None
        elif processes := _PROCESSES.match(text):
            self.processes = int(processes[1])
            self.block = None
        elif re.search(r"MPI Benchmarks? +\S+.*part", text):
            self.log.facts["benchmark"] = text.strip("# ").strip()
        elif dtype := re.match(r"#?\s*(?:MPI_Datatype for reductions|dtype)\s*:\s*(\w+)", text):
            self.dtype = dtype_of(dtype[1])
        elif _HEADER.match(text):
            self._header(line)
        elif self.block is None:
            if _TABLE_ROW.fullmatch(text):
                self.log.skip(line, "a row of numbers below no header that is known")
        elif text.lstrip()[:1].isdigit():
            self._row(line)
        elif _FINISHED.match(text):
            self.block = None
        elif text.strip() and any(printed(cell) for cell in text.replace("#", " ").split()):
            self.log.skip(line, "neither a row nor a message that is known")

    def finish(self) -> None:
        """Nothing is left over at the end."""

    def _header(self, line: Line) -> None:
        names = [_COLUMN.get(name.lower(), name) for name in line.text.split()]
        known = OPS.get(self.op.lower())
        send = known == "send"
        self.columns = names
        if "count" in names:
            self.log.facts.setdefault("benchmark", "oneCCL benchmark")
        self.block = Block(
            {**POWERS, "reduce_scatter": 1} if "count" in names else POWERS,
            op=known,
            unknown_op=None if known or not self.op else self.op,
            steps_in_size=True,
            devices=2 if send else self.processes,
        )
        self.log.blocks.append(self.block)

    def _row(self, line: Line) -> None:
        cells = line.text.split()
        if len(cells) != len(self.columns):
            self.log.skip(line, f"{len(cells)} cells where {len(self.columns)} columns are")
            return
        found = dict(zip(self.columns, map(printed, cells), strict=True))
        size = whole(cells[0])
        bad = [name for name, number in found.items() if number is None or number.value < 0]
        if size is None or bad or found.get("average") is None:
            self.log.skip(line, f"{', '.join(bad) or 'size'} is not a number of 0 or more")
            return
        average = found["average"]
        assert average is not None
        average = average.times(us)
        least = (found.get("least") or found["average"]).times(us)  # pyright: ignore
        most = (found.get("most") or found["average"]).times(us)  # pyright: ignore
        if average.value <= 0 or least.low > average.high or average.low > most.high:
            self.log.skip(line, "t_avg is not between t_min and t_max, or is 0")
            return
        rate = found.get("rate")
        if rate is not None and rate.value > 0 and "least" not in found:
            ends = (size / average.high, size / max(average.low, 1e-12))
            if not any(overlap(rate.times(unit), *ends) for unit in (MB, MiB)):
                self.log.skip(line, "Mbytes/sec is not size over time")
                return
        count = whole(cells[self.columns.index("count")]) if "count" in self.columns else None
        if count and (size % count or size // count not in (1, 2, 4, 8)):
            self.log.skip(line, "#bytes is not #elem_count elements")
            return
        dtype = self.dtype if ITEM_BYTES.get(self.dtype) and not count else ""
        assert self.block is not None
        self.block.rows.append(Row(line, float(size), (Timing("average", average),), dtype=dtype))
