"""JSON reports: which one a document is; nccl-tests' own (`-J`), and Extra-P's.

nccl-tests writes `args`, `config` with the first device of every process, and `results`; Extra-P
`parameters` and `measurements` by call path and metric.

Source: nccl-tests, src/util.cu; Extra-P, docs/file-formats.md.
"""

import json
import math
from collections.abc import Iterator
from typing import Any

from scaleopt.data.readers import extrap, microbenchmarks, microbenchmarks_older, nccl
from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.nccl_columns import agrees
from scaleopt.data.readers.printed import Printed
from scaleopt.data.readers.record import OPS, Block, Log, Row, Timing, dtype_of
from scaleopt.units import GB, us

_LINE = {"params", "value"}
_ROUNDING = 1e-12
"""What is lost on the way from µs to seconds and back."""
_HALF = 0.5e-6
"""Half a unit of the sixth decimal, which JSON prints of µs and of GB/s."""


def kind_of(document: Any) -> str | None:
    """Which report a document is."""
    if isinstance(document, dict):
        if "results" in document and "config" in document:
            return "nccl-tests JSON"
        if "measurements" in document and "parameters" in document:
            return "Extra-P JSON"
    for reports in (microbenchmarks, microbenchmarks_older):
        if reports.is_report(document):
            return reports.NAME
    first = document[0] if isinstance(document, list) and document else None
    return "Extra-P JSON lines" if isinstance(first, dict) and first.keys() >= _LINE else None


def read_document(log: Log, document: Any, kind: str, op: str | None) -> list[dict[str, Any]]:
    """Fill the log's blocks, or give rows that need no settling."""
    rows: list[dict[str, Any]] = []
    try:
        if kind == "nccl-tests JSON":
            _nccl(log, document)
        elif kind == microbenchmarks.NAME:
            rows = list(microbenchmarks.read_microbenchmarks(log, document))
        elif kind == microbenchmarks_older.NAME:
            records = document if isinstance(document, list) else [document]
            numbered = [(Line(n, json.dumps(one)[:200]), one) for n, one in enumerate(records, 1)]
            rows = list(microbenchmarks_older.read_older(log, numbered))
        else:
            reader = _extrap if kind == "Extra-P JSON" else _extrap_lines
            rows = list(reader(log, document, op))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        log.skip(Line(1, json.dumps(document)[:200]), f"not as {kind} has it: {error!r}")
    return rows


def _nccl(log: Log, document: dict[str, Any]) -> None:
    config = document["config"]
    program = nccl.program_of(" ".join(map(str, document.get("args") or [])))
    per_process = int(config["nthreads"]) * int(config["ngpus"])
    processes = config.get("devices") or []  # each by its first device
    ranks = [per_process * place for place in range(len(processes))]
    if per_process < 1 or not ranks or [process["rank"] for process in processes] != ranks:
        log.skip(Line(1, json.dumps(config)[:200]), "config.devices does not list every process")
        processes = []
    block = Block(
        nccl.POWERS,
        op=OPS.get(program or ""),
        unknown_op=None if program in OPS else program or "an operation that args do not name",
        devices=len(processes) * per_process or None,
        nodes=len({process["hostname"] for process in processes}) or None,
    )
    roots = {str(result.get("root", "")).strip() for result in document["results"]} - {""}
    block.rooted = False if roots == {"-1"} else None
    if document.get("nccl_version"):
        log.facts["nccl"] = str(document["nccl_version"])
    log.blocks.append(block)
    for number, result in enumerate(document["results"], 1):
        line = Line(number, json.dumps(result)[:200])
        timings = []
        for key, label in (("out_of_place", "out-of-place"), ("in_place", "in-place")):
            if isinstance(one := result.get(key), dict):
                seconds = _near(float(one["time" if "time" in one else "cpu_time"]), _HALF)
                rates = [_near(float(one[name]), _HALF).times(GB) for name in ("alg_bw", "bus_bw")]
                timings.append(Timing(label, seconds.times(us), *rates))
            elif key not in result:
                log.skip(line, f"{key} is missing")
        size, count = float(result["size"]), int(result["count"])
        row = Row(line, size, tuple(timings), count, dtype_of(str(result["type"])))
        if not timings or any(t.seconds.value <= 0 for t in timings) or not agrees(row):
            log.skip(line, "size, time and bandwidth do not agree")
        elif not all(_has_six_decimals(timing.seconds.value / us) for timing in timings):
            log.skip(line, "a time with more decimals than the benchmark prints")
        else:
            block.rows.append(row)


def _has_six_decimals(value: float) -> bool:
    return math.isclose(value, round(value, 6), rel_tol=_ROUNDING)


def _near(value: float, half: float) -> Printed:
    return Printed(value, value - half, value + half)


def _extrap(log: Log, document: dict[str, Any], op: str | None) -> Iterator[dict[str, Any]]:
    """Extra-P's JSON: by call path and metric, or, as it was before, by the ids of both."""
    names = document["parameters"]
    if isinstance(document["measurements"], dict):
        for region, metrics in document["measurements"].items():
            for metric, entries in metrics.items():
                for entry in entries:
                    point = dict(zip(map(str, names), map(float, entry["point"]), strict=True))
                    line = Line(log.lines, json.dumps(entry)[:200])
                    yield from extrap.repeats(
                        log, line, entry["values"], metric, op or region, point
                    )
        return
    named = {
        key: {item["id"]: str(item["name"]) for item in document[key]}
        for key in ("parameters", "metrics", "callpaths")
    }
    points = {
        item["id"]: {
            named["parameters"][pair["parameter_id"]]: float(pair["parameter_value"])
            for pair in item["parameter_value_pairs"]
        }
        for item in document["coordinates"]
    }
    for entry in document["measurements"]:
        region = named["callpaths"][entry["callpath_id"]]
        metric, point = named["metrics"][entry["metric_id"]], points[entry["coordinate_id"]]
        line = Line(log.lines, json.dumps(entry)[:200])
        yield from extrap.repeats(log, line, [entry["value"]], metric, op or region, point)


def _extrap_lines(log: Log, document: list[Any], op: str | None) -> Iterator[dict[str, Any]]:
    """Extra-P's JSON lines: a value or a list of them at each point."""
    for number, entry in enumerate(document, 1):
        line = Line(number, json.dumps(entry)[:200])
        try:
            values = entry["value"] if isinstance(entry["value"], list) else [entry["value"]]
            point = {str(name): float(value) for name, value in entry["params"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            log.skip(line, "not params and value")
            continue
        region, metric = str(entry.get("callpath", "step")), str(entry.get("metric", "time"))
        yield from extrap.repeats(log, line, values, metric, op or region, point)
