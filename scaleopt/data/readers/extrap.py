"""Extra-P's text format, read and written: parameters, points, and repeats of a metric a region.

    PARAMETER devices size_bytes
    POINTS (2 1024) (4 1024)
    METRIC time
    REGION all_reduce
    DATA 1.2e-05 1.3e-05
    DATA 1.9e-05 1.8e-05

A region is an operation, a parameter a column of our table (`p`, `n`, `nprocs` and the like are
devices), a value of DATA one repeat in seconds. What has no place there is left out: the writer
says which columns.

Source: Extra-P, docs/file-formats.md.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from scaleopt.data.measurements import MeasurementError
from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.printed import printed
from scaleopt.data.readers.record import OPS, Log
from scaleopt.data.schema import OPS as KINDS

_NAMES = {
    **dict.fromkeys(("p", "n", "np", "nprocs", "processes", "ranks", "devices", "gpus"), "devices"),
    **dict.fromkeys(("size", "size_bytes", "bytes", "message_size"), "size_bytes"),
    "nodes": "nodes",
    "flops": "flops",
    "moved_bytes": "moved_bytes",
}
PARAMETERS = ("devices", "nodes", "flops", "size_bytes", "moved_bytes")
"""The columns that can be parameters."""
_GROUP = re.compile(r"\(((?:[^()]|\([^()]*\))*)\)")
METRICS = ("time", "time_s", "runtime", "walltime", "seconds")


def starts(text: str) -> bool:
    """Whether a line can only be of this format."""
    return re.match(r"\s*PARAMETER\s+\S", text) is not None


def read_extrap(log: Log, lines: Iterable[Line], op: str | None) -> Iterator[dict[str, Any]]:
    """The rows of an Extra-P text; regions that are no operation are `step`, with their name.

    Args:
        log: where lines that cannot be used are counted.
        lines: of the file.
        op: the operation of every region, in place of the region's name.
    """
    parameters: list[str] = []
    points: list[tuple[float, ...]] = []
    region, metric = "", "time"
    data: list[Line] | None = []  # of the region; None where a line of it is damaged
    previous, whole = "", True
    for line in lines:
        log.lines = line.number
        tag, _, rest = line.text.strip().partition(" ")
        if tag in ("", "#") or tag.startswith("#"):
            continue
        if tag == "PARAMETER":
            parameters += rest.split()
        elif tag == "POINTS":
            points += _points(log, line, rest, len(parameters))
        elif tag in ("METRIC", "REGION"):
            if data or tag == previous == "REGION":
                yield from _region(log, data, op or region, metric, parameters, points)
            data = []
            metric = rest.strip() if tag == "METRIC" else metric
            region = rest.strip() if tag == "REGION" else region
        elif tag == "DATA" and data is not None and whole:
            data.append(line)
        else:
            log.skip(line, "not PARAMETER, POINTS, METRIC, REGION or DATA of a whole region")
            _drop(log, data, "of a region with a damaged line")
            whole, data = whole and bool(region), None  # one above the regions is of them all
        previous = tag
    if region:
        yield from _region(log, data, op or region, metric, parameters, points)


def _drop(log: Log, data: list[Line] | None, why: str) -> None:
    for line in data or ():
        log.skip(line, why)


def _region(
    log: Log,
    data: list[Line] | None,
    region: str,
    metric: str,
    parameters: list[str],
    points: list[tuple[float, ...]],
) -> list[dict[str, Any]]:
    """The rows of a region that has as many lines of DATA as there are points.

    Which line is of which point only their order says, so one too many or too few shifts others.
    """
    if data is None:
        return []
    if len(data) != len(points):
        _drop(
            log, data, f"region {region!r} has {len(data)} lines of DATA for {len(points)} points"
        )
        return []
    rows = []
    knowns = [dict(zip(parameters, point, strict=True)) for point in points]
    if not all(_has_devices(_columns(known)) for known in knowns):
        # A point that cannot be says that the points are damaged, and may have been another.
        _drop(log, data, "a point of the file has no whole number of devices (p, n, ranks, …)")
        return []
    for line, known in zip(data, knowns, strict=True):
        values = line.text.split()[1:]
        if not values:
            log.skip(line, "DATA without a value")
        rows += repeats(log, line, values, metric, region, known)
    return rows


def _columns(point: Mapping[str, float]) -> dict[str, float]:
    """The parameters of a point that are columns of ours."""
    return {_NAMES[name.lower()]: value for name, value in point.items() if name.lower() in _NAMES}


def _has_devices(known: Mapping[str, float]) -> bool:
    """Whether a point has a whole number of devices, from 1 up."""
    return known.get("devices", 0) >= 1 and known["devices"] % 1 == 0


def _points(log: Log, line: Line, text: str, width: int) -> list[tuple[float, ...]]:
    groups = _GROUP.findall(text) if "(" in text else text.split()
    if "(" in text and _GROUP.sub("", text).strip():
        log.skip(line, "points that are not all (a b …)")
        return []
    found = []
    for group in groups:
        numbers = [printed(cell) for cell in re.sub(r"[()]", " ", group).split()]
        if len(numbers) != width or None in numbers:
            log.skip(line, f"a point that is not {width} numbers")
            return []
        found.append(tuple(number.value for number in numbers if number is not None))
    return found


def repeats(
    log: Log,
    line: Line,
    values: Sequence[object],
    metric: str,
    region: str,
    point: Mapping[str, float],
) -> Iterator[dict[str, Any]]:
    """The rows of one region's repeats at one point.

    Args:
        log: where what cannot be used is counted.
        line: where the values stand.
        values: of the metric [s].
        metric: what was measured; only times are taken.
        region: the operation, or the name of a step.
        point: the parameters.
    """
    if metric.lower() not in METRICS:
        log.skip(line, f"metric {metric!r} is not a time in seconds")
        return
    known = _columns(point)
    others = [f"{name}={value:g}" for name, value in point.items() if name.lower() not in _NAMES]
    for name in point:
        if name.lower() not in _NAMES:
            log.note(f"parameter {name!r} is no column of the table, and stands in the label")
    if not _has_devices(known):
        log.skip(line, "no parameter is the whole number of devices (p, n, ranks, devices)")
        return
    op = region if region in KINDS else OPS.get(region.lower(), "step")
    label = " ".join([region] * (op != region) + others)
    times = [printed(str(cell)) for cell in values]
    for cell, time in zip(values, times, strict=True):
        if time is None or time.value <= 0:
            log.skip(line, f"{cell!r} is not a time above 0")
            return
    for repeat, time in enumerate(times):
        assert time is not None
        yield {"op": op, **known, "repeat": repeat, "time_s": time.value, "label": label}


def write_extrap(path: str | Path, table: pd.DataFrame) -> list[str]:
    """Write a table as Extra-P's text, a region for each operation.

    Args:
        path: the file to create.
        table: rows of the schema; every row needs op, devices and time_s [s].

    Returns:
        The columns that hold something and have no place in the format.

    Raises:
        MeasurementError: operations that were measured at different points, which the format,
            having one list of points, cannot hold.
        FileExistsError: the file is there already.
    """
    names = [name for name in PARAMETERS if name in table and table[name].notna().all()]
    cells = {
        str(op): {
            key if isinstance(key, tuple) else (key,): list(times)
            for key, times in rows.groupby(names, sort=False)["time_s"]
        }
        for op, rows in table.groupby("op", sort=False)
    }
    points = list(next(iter(cells.values()), {}))
    for op, found in cells.items():
        if set(found) != set(points):
            raise MeasurementError(
                f"{op} was measured at other points than {next(iter(cells))}, and Extra-P's text "
                "has one list of points: write each operation to a file of its own"
            )
    text = [f"PARAMETER {name}" for name in names]
    text += [f"POINTS ({' '.join(_plain(value) for value in point)})" for point in points]
    text += ["METRIC time"]
    for op, found in cells.items():
        text += [f"REGION {op}"]
        text += [f"DATA {' '.join(repr(float(time)) for time in found[point])}" for point in points]
    with Path(path).open("x", encoding="utf-8") as file:
        file.write("\n".join(text) + "\n")
    kept = {*names, "op", "time_s"}
    return [
        str(name)
        for name in table
        if name not in kept and table[name].replace("", None).notna().any()
    ]


def _plain(value: Any) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
