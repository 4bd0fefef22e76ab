"""What readers hand on: the rows of a block as printed, and what was skipped and why."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from scaleopt.data.readers.gathered import Gathered
from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.printed import Printed

KEPT = 100
"""How many skipped lines keep their text; all are counted."""

DTYPES = {
    "float": "float32", "half": "float16", "double": "float64", "fp32": "float32",
    "fp16": "float16", "fp64": "float64", "bf16": "bfloat16", "char": "int8", "fp8": "float8",
    "fp8_e4m3": "float8_e4m3", "fp8_e5m2": "float8_e5m2", "f8e4m3": "float8_e4m3",
    "f8e5m2": "float8_e5m2", "mpi_float": "float32", "mpi_char": "int8", "mpi_int": "int32",
}  # fmt: skip
ITEM_BYTES = {
    "int8": 1, "uint8": 1, "float8": 1, "float8_e4m3": 1, "float8_e5m2": 1, "float16": 2,
    "bfloat16": 2, "int16": 2, "uint16": 2, "float32": 4, "int32": 4, "uint32": 4,
    "float64": 8, "int64": 8, "uint64": 8,
}  # fmt: skip

OPS = {
    "all_reduce": "all_reduce", "allreduce": "all_reduce", "allr": "all_reduce",
    "all_gather": "all_gather", "allgather": "all_gather", "allg": "all_gather",
    "allgatherv": "all_gather", "reduce_scatter": "reduce_scatter",
    "reducescatter": "reduce_scatter", "redsct": "reduce_scatter", "redscat": "reduce_scatter",
    "reduce_scatter_block": "reduce_scatter", "psum_scatter": "reduce_scatter",
    "alltoall": "all_to_all", "all_to_all": "all_to_all", "a2a": "all_to_all",
    "broadcast": "broadcast", "bcast": "broadcast", "reduce": "reduce",
    "sendrecv": "permute", "ppermute": "permute", "permute": "permute",
    "pingpong": "send", "latency": "send", "pt2pt": "send", "send": "send",
}  # fmt: skip
"""The names that benchmarks give the operations."""


class Skipped(NamedTuple):
    """A line that was not taken for a row, and why."""

    line: int
    text: str
    why: str


class Timing(NamedTuple):
    """One time of a row, as printed, in SI, and the bandwidths printed beside it."""

    label: str
    seconds: Printed
    algbw: Printed | None = None
    busbw: Printed | None = None


class Row(NamedTuple):
    """A row as printed: its size in the sense of its benchmark."""

    line: Line
    size: float
    timings: tuple[Timing, ...]
    elements: int | None = None
    dtype: str = ""
    rate_units: frozenset[float] | None = None
    """[B/s]: the units that its rate can have been printed in, which its table has in common."""


@dataclass
class Block:
    """The rows under one header, and what is known of the run they are of."""

    powers: dict[str, int]
    """What its sizes are: the full array is the size times N to the power for its operation."""
    op: str | None = None
    unknown_op: str | None = None
    """An operation that the log names and our table does not have."""
    devices: int | None = None
    least_devices: int = 1
    nodes: int | None = None
    per_process: int = 1
    """Devices of one launched process."""
    reduces: bool | None = None
    rooted: bool | None = None
    rows: list[Row] = field(default_factory=list)
    stepped: bool = False
    """Whether its benchmark goes through sizes in even steps."""
    step: float | None = None
    """The ratio of those steps, where the benchmark knows no other."""
    run: tuple[str, int] | None = None
    """Its operation and N, once settled."""
    columned: tuple[int, ...] | None = None
    """Where the names of its columns end, where its benchmark prints columns of fixed width."""
    padded: bool = False
    """Whether its benchmark pads cells to columns, which long cells push to the right."""
    rounding: Callable[[Printed], Collection[Hashable]] | None = None
    """The ways of rounding that a time can be printed in, where its benchmark has such."""


@dataclass
class Log:
    """All that was read of a log."""

    blocks: list[Block] = field(default_factory=list)
    gathered: Gathered = field(default_factory=Gathered)
    skipped: list[Skipped] = field(default_factory=list)
    skipped_count: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    facts: dict[str, str] = field(default_factory=dict)
    """Versions and devices, as the log writes them."""
    launched: int | None = None
    launched_nodes: int | None = None
    lines: int = 0

    def skip(self, line: Line, why: str) -> None:
        """Count a line that could not be used."""
        self.skipped_count += 1
        if len(self.skipped) < KEPT:
            self.skipped.append(Skipped(line.number, line.text.strip()[:200], why))

    def note(self, text: str) -> None:
        """Something the reader of the table should know, said once."""
        self.notes[text] += 1


def dtype_of(text: str) -> str:
    """A dtype's usual name.

    >>> dtype_of("half"), dtype_of("bfloat16")
    ('float16', 'bfloat16')
    """
    return DTYPES.get(text.lower(), text.lower())
