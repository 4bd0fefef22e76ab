"""`read_log`: find the format of a log by its content, read it in one pass, settle it."""

import re
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from scaleopt.data.measurements import MeasurementError, Measurements
from scaleopt.data.readers import (
    deepspeed,
    documents,
    extrap,
    imb,
    mapped,
    microbenchmarks_older,
    nccl,
    nccom,
    oneccl_csv,
    osu,
    torch_bench,
    torch_table,
)
from scaleopt.data.readers.lines import Line, blocks, clean, lines, records
from scaleopt.data.readers.record import OPS, Log
from scaleopt.data.readers.settle import BUS, Given, UnsaidError, settle, settle_full
from scaleopt.data.reading import LONGEST, is_table, names_ours

_TEXT = (
    nccom.Reader,
    nccl.Reader,
    osu.Reader,
    imb.Reader,
    deepspeed.Reader,
    torch_bench.Reader,
    torch_table.Reader,
)
KNOWN = (
    "nccl-tests and rccl-tests (text, JSON), OSU micro-benchmarks, Intel MPI Benchmarks, oneCCL "
    "benchmark (text, CSV), nccom-test, DeepSpeed communication benchmark, torch "
    "all_reduce_bench (text, table), accelerator-microbenchmarks (JSON, JSON lines, TSV), Extra-P "
    "(text, JSON), and any CSV, JSON or Parquet with a mapping of its columns "
    "(--map devices=num_gpus --map time_s=time_us:us)"
)
"""The formats, as an error names them."""
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip"}
_VERSIONS = ("nccl",)
"""Of what is said of a log, that which logs must have in common to be joined."""
_START = 65536
_EARLY = 2000
"""Lines above the first that tells the format, the last of which its reader sees as well."""
_LAUNCHER = re.compile(r"\b(?:mpirun|mpiexec|srun|aprun|jsrun|orterun|prun)\b")
_RANKS = re.compile(r"\s(?:-np|-n|--np|--ntasks)[= ](\d{1,9})\b")
_LAUNCHERS = ("mpirun", "mpiexec", "srun", "aprun", "jsrun", "orterun", "prun", "taskmap")
_TASKMAP = re.compile(r'"taskmap":\s*\{"version":\s*1,\s*"map":\s*\[\[0,(\d{1,9}),(\d{1,9}),1\]\]')


def read_log(
    path: str | Path,
    *,
    devices: int | None = None,
    nodes: int | None = None,
    op: str | None = None,
    mapping: Mapping[str, str] | None = None,
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
        mapping: for a CSV, JSON or Parquet of another kind: a column of ours to one of the
            file's, with its unit where that is not SI, as {"time_s": "time_us:us"}.

    Returns:
        The table, size_bytes [B] of the full array and time_s [s], and the context.

    Raises:
        MeasurementError: no format that is known, no row, or something the log does not say.
        FileNotFoundError: there is no such file.
    """
    found = read_rows(Path(path), devices=devices, nodes=nodes, op=op, mapping=mapping)
    return Measurements(found.log.gathered.table(), _context(Path(path), found.log, found.formats))


class Found(NamedTuple):
    """What was read of a file, before it is a table."""

    log: Log
    formats: str


def _no_log(path: Path) -> str:
    """What a file is that has no known format, and what to do with it."""
    if is_table(path):
        return "this is a table of measurements already, and no log; fit it as it is"
    with path.open("rb") as file:
        start = file.readline(LONGEST).decode("utf-8-sig", "replace").strip()
    for mark in (";", "\t"):
        if names_ours(start.replace(mark, ",")):
            return f"a table whose cells are divided by {mark!r}; divide them by commas"
    return f"no format that is known: {KNOWN}"


def read_rows(
    path: Path,
    *,
    devices: int | None = None,
    nodes: int | None = None,
    op: str | None = None,
    mapping: Mapping[str, str] | None = None,
) -> Found:
    """The rows of a log, as `read_log` has them, and everything that was said of it."""
    if op is not None and op not in BUS:
        raise MeasurementError(f"op {op!r} is not one of {', '.join(BUS)}")
    for name, number in (("devices", devices), ("nodes", nodes)):
        if number is not None and number < 1:
            raise MeasurementError(f"{name} is {number}; it must be 1 or more")
    given = Given(devices, nodes, op, _hint(path))
    log = Log()
    try:
        formats = _read(log, path, given, mapping)
        if not formats:
            raise MeasurementError(f"{path}: {_no_log(path)}")
        settle(log, given)
    except UnsaidError as error:
        raise MeasurementError(f"{path}: {error}") from None
    names = ", ".join(formats)
    if not log.gathered:
        first = f": line {log.skipped[0].line}, {log.skipped[0].why}" if log.skipped else ""
        known = "" if mapping else f"; the formats that are known are {KNOWN}"
        raise MeasurementError(
            f"{path}: looks like {names}, and has no row that can be read "
            f"({log.skipped_count} lines skipped{first}){known}"
        )
    return Found(log, names)


def _read(log: Log, path: Path, given: Given, mapping: Mapping[str, str] | None) -> list[str]:
    """Read a file; gives the formats that it is of."""
    with path.open("rb") as file:
        start = file.read(_START)
    if not start:
        raise MeasurementError(f"{path}: the file is empty")
    bare = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if packer := next((name for mark, name in _PACKED.items() if start.startswith(mark)), None):
        raise MeasurementError(f"{path}: compressed ({packer}); unpack it first")
    if mapping:
        told = {"op": given.op, "devices": given.devices, "nodes": given.nodes}
        own = {name: str(value) for name, value in told.items() if value is not None}
        log.gathered.add(mapped.read_mapped(log, path, {**mapping, **own}))
        return ["mapped columns"]
    if start.startswith(b"PAR1"):
        raise MeasurementError(
            f"{path}: Parquet; say its columns with --map (mapping), as time_s=time_us:us"
        )
    if oneccl_csv.starts(bare[:64].decode("utf-8", "replace")):
        oneccl_csv.read_oneccl_csv(log, records(path, ","))
        return [oneccl_csv.NAME]
    if bare.startswith((b"{", b"[{", b"[\n")):
        document = mapped.document(path)
        kind = documents.kind_of(document)
        if kind is not None:
            log.gathered.add(documents.read_document(log, document, kind, given.op))
            return [kind]
    if microbenchmarks_older.heads_table(bare[:_START].split(b"\n")[0].decode("utf-8", "replace")):
        log.gathered.add(microbenchmarks_older.read_older(log, mapped.records(path)))
        return [microbenchmarks_older.NAME]
    if any(extrap.starts(text) for text in start.decode("utf-8", "replace").splitlines()):
        log.gathered.add(extrap.read_extrap(log, lines(path), given.op))
        return ["Extra-P"]
    return [reader.name for reader in _read_lines(log, path, given)]


def _read_lines(log: Log, path: Path, given: Given) -> list[Any]:
    """Every line given to the reader whose format was seen last."""
    readers: dict[type, Any] = {}
    current = None
    early: deque[Line] = deque(maxlen=_EARLY)
    for first, block in blocks(path):
        text = "\n".join(block)
        kinds = [kind for kind in _TEXT if any(mark in text for mark in kind.marks)]
        launched = any(word in text for word in _LAUNCHERS)
        for line in map(Line._make, enumerate(map(clean, block), first)):
            if launched:
                _launch(log, line.text)
            kind = next((kind for kind in kinds if kind.starts(line.text)), None)
            if kind is None and current is None and nccl.Reader.bare(line.text):
                kind = nccl.Reader
            if kind is not None and not isinstance(current, kind):
                current = readers[kind] = readers.get(kind) or kind(log)
                for before in early:  # a command or a list of devices may stand above
                    current.read(before)
                early.clear()
            if current is not None:
                current.read(line)
            else:
                early.append(line)
        log.lines = first + len(block) - 1
        settle_full(log, given)
    for reader in readers.values():
        reader.finish()
    return list(readers.values())


def _launch(log: Log, text: str) -> None:
    """Ranks and nodes that a launcher's command or job record says."""
    if "taskmap" in text and (match := _TASKMAP.search(text)):
        log.launched_nodes = int(match[1])
        log.launched = int(match[1]) * int(match[2])
    elif any(word in text for word in _LAUNCHERS) and (launcher := _LAUNCHER.search(text)):
        ranks = _RANKS.search(text, launcher.end())
        log.launched = int(ranks[1]) if ranks else log.launched


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
        **{name: text for name, text in log.facts.items() if name not in _VERSIONS},
        "versions": {name: text for name, text in log.facts.items() if name in _VERSIONS},
    }
