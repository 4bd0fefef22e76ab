"""`read_log`: find the format of a log by its content, read it in one pass, settle it."""

import re
from pathlib import Path
from typing import Any

import pandas as pd

from scaleopt.data.measurements import MeasurementError, Measurements
from scaleopt.data.readers import imb, nccl, nccom, osu, torch_bench
from scaleopt.data.readers.lines import Line, lines
from scaleopt.data.readers.record import OPS, Log
from scaleopt.data.readers.settle import BUS, Given, UnsaidError, settle
from scaleopt.data.schema import NAMES

_TEXT = (nccom.Reader, nccl.Reader, osu.Reader, imb.Reader, torch_bench.Reader)
KNOWN = ", ".join(reader.name for reader in _TEXT)
_EARLY = 2000
"""Lines above the first that tells the format, which its reader sees as well."""
_LAUNCH = re.compile(
    r"\b(?:mpirun|mpiexec(?:\.hydra)?|srun|aprun|jsrun|orterun|prun)\b.*?"
    r"\s(?:-np|-n|--np|--ntasks)[= ](\d+)\b"
)
_TASKMAP = re.compile(r'"taskmap":\s*\{"version":\s*1,\s*"map":\s*\[\[0,(\d+),(\d+),1\]\]')


def read_log(
    path: str | Path,
    *,
    devices: int | None = None,
    nodes: int | None = None,
    op: str | None = None,
) -> Measurements:
    """The rows of a benchmark's log as a table of measurements.

    The format is found by content. What the log does not say and the table needs is asked for;
    what is inferred is said in the context under `notes`, and every line that could not be used is
    counted there, the first of them with number, text and reason.

    Args:
        path: of the log.
        devices: N, in place of what the log says.
        nodes: hosts, in place of what the log says.
        op: the operation, in place of what the log says.

    Returns:
        The table, size_bytes [B] of the full array and time_s [s], and the context.

    Raises:
        MeasurementError: no format that is known, no row, or something the log does not say.
        FileNotFoundError: there is no such file.
    """
    path = Path(path)
    if op is not None and op not in BUS:
        raise MeasurementError(f"op {op!r} is not one of {', '.join(BUS)}")
    for name, number in (("devices", devices), ("nodes", nodes)):
        if number is not None and number < 1:
            raise MeasurementError(f"{name} is {number}; it must be 1 or more")
    log, found = _read_lines(path)
    if not found:
        raise MeasurementError(f"{path}: no format that is known: {KNOWN}")
    try:
        rows = settle(log, Given(devices, nodes, op, _hint(path)))
    except UnsaidError as error:
        raise MeasurementError(f"{path}: {error}") from None
    names = ", ".join(reader.name for reader in found)
    if not rows:
        first = (
            f"; the first of {log.skipped_count} lines skipped: {log.skipped[0]}"
            if log.skipped
            else ""
        )
        raise MeasurementError(
            f"{path}: looks like {names}, and has no row that can be read{first}; "
            f"the formats that are known are {KNOWN}"
        )
    return Measurements(pd.DataFrame(rows).reindex(columns=list(NAMES)), _context(path, log, names))


def _read_lines(path: Path) -> tuple[Log, list[Any]]:
    """Every line given to the reader whose format was seen last."""
    log = Log()
    readers: dict[type, Any] = {}
    current = None
    early: list[Line] = []
    for line in lines(path):
        log.lines = line.number
        _launch(log, line.text)
        kind = next((kind for kind in _TEXT if kind.starts(line.text)), None)
        if kind is None and current is None and nccl.Reader.bare(line.text):
            kind = nccl.Reader
        if kind is not None and not isinstance(current, kind):
            current = readers[kind] = readers.get(kind) or kind(log)
            for before in early:  # a command or a list of devices may stand above
                current.read(before)
            early = []
        if current is not None:
            current.read(line)
        elif len(early) < _EARLY:
            early.append(line)
    for reader in readers.values():
        reader.finish()
    return log, list(readers.values())


def _launch(log: Log, text: str) -> None:
    """Ranks and nodes that a launcher's command or job record says."""
    if match := _LAUNCH.search(text):
        log.launched = int(match[1])
    elif match := _TASKMAP.search(text):
        log.launched_nodes = int(match[1])
        log.launched = int(match[1]) * int(match[2])


def _hint(path: Path) -> str | None:
    """The operation that a file's name holds, where it is one alone."""
    name = re.sub(r"all[_-](reduce|gather)", r"all\1", path.name.lower())
    name = re.sub(r"all[_-]to[_-]all", "alltoall", re.sub(r"reduce[_-]scatter", "redsct", name))
    named = {OPS[word] for word in re.split(r"[^a-z0-9]+", name) if word in OPS}
    return named.pop() if len(named) == 1 else None


def _context(path: Path, log: Log, names: str) -> dict[str, Any]:
    return {
        "imported": {
            "file": path.name,
            "format": names,
            "lines": log.lines,
            "skipped": log.skipped_count,
            "skipped_lines": [skipped._asdict() for skipped in log.skipped],
        },
        "notes": [text if n == 1 else f"{text} ({n} times)" for text, n in log.notes.items()],
        **log.facts,
    }
