"""JSON reports: nccl-tests' own (`-J`), accelerator-microbenchmarks', and Extra-P's.

nccl-tests writes `config.devices`, `args` and `results`; accelerator-microbenchmarks a list of
`metadata`, `metrics` and `raw_times_ms`, of which every raw time becomes a row; Extra-P
`parameters` and `measurements` by call path and metric.

Source: nccl-tests, src/util.cu; accelerator-microbenchmarks, core/base.py and
benchmarks/collectives.py; Extra-P, docs/file-formats.md.
"""

import json
from collections.abc import Iterator
from typing import Any

from scaleopt.data.readers import extrap, nccl
from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.printed import Printed, million, ms
from scaleopt.data.readers.record import OPS, Block, Log, Row, Timing, dtype_of
from scaleopt.units import GB, us

_EXACT = 1e-6
"""JSON prints six decimals of µs and of GB/s."""


def kind_of(document: Any) -> str | None:
    """Which report a document is."""
    if isinstance(document, dict):
        if "results" in document and "config" in document:
            return "nccl-tests JSON"
        if "measurements" in document and "parameters" in document:
            return "Extra-P JSON"
    if isinstance(document, list) and document and isinstance(document[0], dict):
        if {"metadata", "metrics"} <= document[0].keys():
            return "accelerator-microbenchmarks"
        if {"params", "value"} <= document[0].keys():
            return "Extra-P JSON lines"
    return None


def read_document(log: Log, document: Any, kind: str, op: str | None) -> list[dict[str, Any]]:
    """Fill the log's blocks, or give rows that need no settling."""
    rows: list[dict[str, Any]] = []
    try:
        if kind == "nccl-tests JSON":
            _nccl(log, document)
        elif kind == "accelerator-microbenchmarks":
            rows = list(_microbenchmarks(log, document))
        else:
            reader = _extrap if kind == "Extra-P JSON" else _extrap_lines
            rows = list(reader(log, document, op))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        log.skip(Line(1, json.dumps(document)[:200]), f"not as {kind} has it: {error!r}")
    return rows


def _nccl(log: Log, document: dict[str, Any]) -> None:
    devices = document["config"].get("devices") or []
    args = " ".join(map(str, document.get("args") or []))
    program = nccl.program_of(args)
    hosts = {device.get("hostname") for device in devices}
    per_process = int(document["config"].get("nthreads", 1)) * int(
        document["config"].get("ngpus", 1)
    )
    block = Block(
        nccl.POWERS,
        op=OPS.get(program or ""),
        unknown_op=program if program and program not in OPS else None,
        devices=len(devices) * per_process if devices else None,
        nodes=len(hosts) or None,
    )
    if document.get("nccl_version"):
        log.facts["nccl"] = str(document["nccl_version"])
    log.blocks.append(block)
    for number, result in enumerate(document["results"], 1):
        line = Line(number, json.dumps(result)[:200])
        timings = []
        for key, label in (("out_of_place", "out-of-place"), ("in_place", "in-place")):
            if isinstance(one := result.get(key), dict):
                seconds = _near(float(one["time" if "time" in one else "cpu_time"]), _EXACT)
                rates = [_near(float(one[name]), _EXACT).times(GB) for name in ("alg_bw", "bus_bw")]
                timings.append(Timing(label, seconds.times(us), *rates))
            elif key not in result:
                log.skip(line, f"{key} is missing")
        size, count = float(result["size"]), int(result["count"])
        row = Row(line, size, tuple(timings), count, dtype_of(str(result["type"])))
        if not timings or any(t.seconds.value <= 0 for t in timings) or not nccl.agrees(row):
            log.skip(line, "size, time and bandwidth do not agree")
        else:
            block.rows.append(row)


def _near(value: float, half: float) -> Printed:
    return Printed(value, value - half, value + half)


def _microbenchmarks(log: Log, document: list[Any]) -> Iterator[dict[str, Any]]:
    for number, result in enumerate(document, 1):
        line = Line(number, json.dumps(result)[:200])
        try:
            name = str(result["metadata"]["benchmark_name"])
            metrics, times = result["metrics"], result["raw_times_ms"]
            op = OPS.get(name)
            shard = metrics.get("shard_size_mb", metrics.get("local_size_mb"))
            if op is None or shard is None or not times:
                log.skip(line, f"{name!r} is not a collective with a size and raw times")
                continue
            share = float(shard) * million
            moved = float(metrics["bandwidth_gb_s"]) * GB * float(metrics["avg_ms"]) * ms / share
            devices = _devices_of(op, moved)
            average = float(metrics["avg_ms"])
            if not min(times) <= average * (1 + _EXACT) or not average <= max(times) * (1 + _EXACT):
                log.skip(line, "the average is not within the raw times")
                continue
            if devices is None or (devices == 1) != (moved == 0):
                log.skip(line, "bandwidth, size and time fit no whole number of devices")
                continue
            full = share * (devices if op in ("all_gather", "all_to_all", "reduce_scatter") else 1)
            dtype = dtype_of(str(result["metadata"]["params"].get("dtype", "")))
            for repeat, time in enumerate(times):
                if not 0 < float(time) < float("inf"):
                    log.skip(line, f"raw time {time} is not above 0")
                    continue
                yield {
                    "op": op, "devices": devices, "size_bytes": full, "repeat": repeat,
                    "time_s": float(time) * ms, "dtype": dtype, "label": name,
                }  # fmt: skip
            log.note("devices: from bandwidth, size and average time, as the report does not say")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            log.skip(line, f"not as accelerator-microbenchmarks has it: {error!r}")


def _devices_of(op: str, moved: float) -> int | None:
    """N from the bytes moved per byte of a share: 2(N − 1)/N, N − 1 or (N − 1)/N."""
    if op == "all_reduce":
        n = 2 / (2 - moved) if moved < 2 else 0.0
    elif op in ("all_gather", "reduce_scatter"):
        n = moved + 1
    else:
        n = 1 / (1 - moved) if moved < 1 else 0.0
    return round(n) if n >= 1 and abs(n - round(n)) < 1e-3 * n else None


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
