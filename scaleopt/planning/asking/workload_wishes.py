"""A workload that is no transformer, from the `[workload]` table of a TOML file.

    [workload]
    kind = "data_parallel"         # or "halo", "matmul"
    sample_flops = "24.6 GFLOP"    # the arguments of the class that the kind is

The unit of each entry is that of the argument's annotation. Messages are tables of their own:
`messages = [{operation = "all_reduce", size = "1 MB", times = 2}]`.
"""

from typing import Any, get_type_hints

from scaleopt.models.data_parallel import DataParallel
from scaleopt.models.halo import Halo
from scaleopt.models.sharded_matmul import ShardedMatmul
from scaleopt.models.workload import OPERATIONS, Message, Workload
from scaleopt.planning.asking.given import is_number
from scaleopt.planning.asking.written import made, quantities, table_of

KINDS: dict[str, Any] = {"data_parallel": DataParallel, "halo": Halo, "matmul": ShardedMatmul}
"""What `kind` may be."""
_MESSAGES = ("messages", "sample_messages")


def workload_of(written: dict[str, Any]) -> Workload:
    """The workload that a table describes.

    Raises:
        ValueError: a kind that is not known, or what the kind does not take.
    """
    written = dict(written)
    kind = written.pop("kind", None)
    listed = ", ".join(map(repr, KINDS))
    if kind is None:
        raise ValueError(f"[workload] has no kind; it is one of {listed}")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"[workload] has kind = {kind!r}; known are {listed}")
    if "grid" in written:
        grid = written["grid"]
        if not isinstance(grid, list) or not all(map(is_number, grid)):
            raise ValueError(f"[workload]: grid is {grid!r}; give its sides, as [512, 512, 512]")
        written["grid"] = tuple(grid)
    for name in _MESSAGES:
        if name in written:
            entries = written[name] if isinstance(written[name], list) else [written[name]]
            written[name] = tuple(_message(entry, name) for entry in entries)
    return made(KINDS[kind], quantities(written, _units(KINDS[kind]), "[workload]"), "[workload]")


def _message(written: dict[str, Any], name: str) -> Message:
    where = f"[workload] {name}"
    table_of(written, where)
    if written.get("operation") not in OPERATIONS:
        raise ValueError(f"{where}: operation is one of {', '.join(OPERATIONS)}")
    return made(Message, quantities(written, _units(Message), where), where)


def _units(kind: Any) -> dict[str, str]:
    """The unit of each argument; "" for counts, and for what is no quantity."""
    hints = get_type_hints(kind, include_extras=True)
    units = {name: getattr(hint, "__metadata__", ("1",))[0] for name, hint in hints.items()}
    return {name: "" if unit == "1" else unit for name, unit in units.items()}
