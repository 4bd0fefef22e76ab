"""Intel MPI Benchmarks and the oneCCL benchmark, which print alike: one table a benchmark.

`#bytes` is what one rank passes in the call: the full array for all-reduce, broadcast, reduce and
IMB's reduce-scatter; a rank's share for all-gather; what goes to each single peer for all-to-all;
oneCCL's reduce-scatter counts what a rank receives. t_min ≤ t_avg ≤ t_max must hold; the time is
t_avg, over ranks. PingPong prints half the round trip as t, and Mbytes/sec that agrees with it.

Source: Intel MPI Benchmarks, src_c/IMB_output.c and the user guide; oneCCL, examples/benchmark.
"""

import re
from collections.abc import Mapping

from scaleopt.data.readers.alike import as_many_decimals
from scaleopt.data.readers.ends import ends
from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.printed import Printed, all_printed, overlap, whole
from scaleopt.data.readers.record import ITEM_BYTES, Block, Log, Row, Timing, dtype_of
from scaleopt.units import MB, MiB, us

_BANNER = re.compile(r"Intel\(?R?\)? MPI Benchmarks? +\S")
_COLUMNS = re.compile(r"\s*#bytes\s+(?:#|t\[)")
_DTYPE = re.compile(r"#?\s*(?:MPI_Datatype for reductions|dtype|datatype)\s*:\s*(\w+)")
_BENCHMARK = re.compile(r"#\s*Benchmarking:?\s+(?:Multi-)?(\S.*?)\s*$")
_PROCESSES = re.compile(r"#\s*#processes\s*[=:]\s+(\d{1,9})\s*(?:;.*)?")
_HEADER = re.compile(r"\s*#bytes\s+")
POWERS = {"all_gather": 1, "all_to_all": 2, "permute": 1}
ONECCL_POWERS = {**POWERS, "reduce_scatter": 1}
_COLUMN = {
    "#bytes": "size", "#elem_count": "count", "#repetitions": "repetitions", "t[usec]": "average",
    "t_min[usec]": "least", "t_max[usec]": "most", "t_avg[usec]": "average",
    "mbytes/sec": "rate", "stddev[%]": "spread", "wait_t_avg[usec]": "wait",
    "t_ovrl[usec]": "overlapped", "t_pure[usec]": "pure", "t_cpu[usec]": "cpu",
    "overlap[%]": "overlap", "defects": "defects", "msg/sec": "messages",
}  # fmt: skip
_OPS = {
    "Allreduce": "all_reduce", "Allgather": "all_gather", "Allgatherv": "all_gather",
    "Reduce_scatter": "reduce_scatter", "Reduce_scatter_block": "reduce_scatter",
    "Alltoall": "all_to_all", "Bcast": "broadcast", "Reduce": "reduce", "Sendrecv": "permute",
    "PingPong": "send",
    # oneCCL's names
    "allreduce": "all_reduce", "allgather": "all_gather", "allgatherv": "all_gather",
    "reduce_scatter": "reduce_scatter", "alltoall": "all_to_all", "bcast": "broadcast",
    "broadcast": "broadcast", "reduce": "reduce",
}  # fmt: skip
_REDUCTIONS = ("all_reduce", "reduce_scatter", "reduce")
_SHORTEST = 1e-6
"""µs: a time that is printed as 0.00 is not divided by."""
_TABLE_ROW = re.compile(r"\s*#?\s*\d+(?:\s+[\d.]+){2,}\s*")
_FINISHED = re.compile(r"#\s*All (?:processes|done)|#\s*Benchmarking|Application \d+ resources")


class Reader:
    """Reads one log."""

    name = "Intel MPI Benchmarks"
    marks = ("MPI Benchmark", "#bytes", "Benchmarking")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.block: Block | None = None
        self.columns: list[str] = []
        self.op, self.processes, self.groups = "", None, False
        self.dtype = ""
        self.step: float | None = None

    @staticmethod
    def starts(text: str) -> bool:
        """Whether a line can only be of this format."""
        return bool(
            ("MPI Benchmark" in text and _BANNER.search(text))
            or _COLUMNS.match(text)
            or _BENCHMARK.match(text)
        )

    def read(self, line: Line) -> None:
        """Take one line."""
        text = line.text
        if self.block is not None and text.lstrip()[:1].isdigit():
            self._row(line)
        elif benchmark := _BENCHMARK.match(text):
            self.op, self.processes, self.block = benchmark[1], None, None
        elif processes := _PROCESSES.fullmatch(text):
            self.processes = int(processes[1])
            self.block = None
        elif "MPI Benchmark" in text and _BANNER.search(text):
            self.log.facts["benchmark"] = text.strip("# ").strip()
            self.step = 2.0
        elif "lengths were user defined" in text:
            self.step = None
        elif "type" in text and (dtype := _DTYPE.match(text)):
            self.dtype = dtype_of(dtype[1])
            if self.dtype not in ITEM_BYTES:
                self.log.skip(line, f"{dtype[1]} is not a data type that is known")
                self.dtype = ""
        elif _HEADER.match(text):
            self._header(line)
        elif self.block is None:
            if _TABLE_ROW.fullmatch(text):
                self.log.skip(line, "a row of numbers below no header that is known")
                self.op, self.processes = "", None  # they were of its table
        elif _FINISHED.match(text):
            self.block = None
        elif any(letter.isdigit() for letter in text):
            self.log.skip(line, "neither a row nor a message that is known")

    def finish(self) -> None:
        """Nothing is left over at the end."""

    def _header(self, line: Line) -> None:
        cells = line.text.split()
        self.columns = names = [_COLUMN.get(name.lower(), "") for name in cells]
        op, processes, self.block = self.op, self.processes, None
        self.op, self.processes = "", None  # another table has its own
        if "" in names or len({*names}) < len(names):
            self.log.skip(line, "a header with a column that is not known, or one twice")
            return
        if "repetitions" not in names or ("least" in names) != ("most" in names):
            self.log.skip(line, "a header without #repetitions, t_min or t_max")
            return
        known = _OPS.get(op)
        if not self.dtype and ("count" in names or (self.step and known in _REDUCTIONS)):
            self.log.skip(line, "no data type above, which this benchmark prints")
        send = known == "send"
        if "count" in names:
            self.log.facts.setdefault("benchmark", "oneCCL benchmark")
        self.block = Block(
            ONECCL_POWERS if "count" in names else POWERS,
            op=known,
            unknown_op=None if known or not op else op,
            stepped=True,
            step=self.step,
            columned=ends(line.text),
            rounding=as_many_decimals,
            devices=2 if send else processes,
        )
        self.log.blocks.append(self.block)

    def _row(self, line: Line) -> None:
        assert self.block is not None
        cells = line.text.split()
        numbers, size = all_printed(cells), whole(cells[0])
        if len(cells) != len(self.columns):
            self.log.skip(line, f"{len(cells)} cells where {len(self.columns)} columns are")
        elif numbers is None or size is None:
            self.log.skip(line, "its cells are not all numbers of 0 or more")
        else:
            found = dict(zip(self.columns, numbers, strict=True))
            units = _units(found, size)
            reason = _contradiction(found, size, ITEM_BYTES.get(self.dtype), units)
            if reason is not None:
                self.log.skip(line, reason)
                return
            dtype = self.dtype if "count" in found or self.block.op in _REDUCTIONS else ""
            timing = Timing("average", found["average"].times(us))
            self.block.rows.append(Row(line, float(size), (timing,), dtype=dtype, rate_units=units))


def _contradiction(
    found: Mapping[str, Printed], size: int, item: int | None, units: frozenset[float] | None
) -> str | None:
    """What is wrong between the numbers of a row."""
    if "average" not in found:
        return "there is no column t_avg or t"
    average = found["average"]
    least, most = found.get("least", average), found.get("most", average)
    if average.value <= 0 or least.low > average.high or average.low > most.high:
        return "t_avg is not between t_min and t_max, or is 0"
    if units is not None and not units:
        return "Mbytes/sec is not size over time"
    if count := found.get("count"):
        items = (item,) if item else (1, 2, 4, 8)
        if size not in [count.value * bytes_of_one for bytes_of_one in items]:
            return "#bytes is not #elem_count elements"
    return None


def _units(found: Mapping[str, Printed], size: int) -> frozenset[float] | None:
    """The units [B/s] that a row's Mbytes/sec can be printed in; None of a row without it.

    It counts what a rank sends, receives or both, over t_max; older ones in 2²⁰ B.
    """
    if "rate" not in found:
        return None
    most = found.get("most", found["average"])
    bounds = (size / most.high / us, size / max(most.low, _SHORTEST) / us)
    units = [unit / ways for unit in (MB, MiB) for ways in (1, 2, 4)]
    return frozenset(it for it in units if overlap(found["rate"].times(it), *bounds))
