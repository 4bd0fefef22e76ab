"""accelerator-microbenchmarks (JAX): its `detailed.json`, every raw time a row.

A result has `metadata`, `metrics` and `raw_times_ms`. The average is of the raw times, without
those 1.5 interquartile ranges beyond the quartiles where there are four or more; the bandwidth is
what one device moves over the average (or over the profiler's, where that ran), and tells N:
2(N − 1)/N of the shard for all-reduce, N − 1 for all-gather and reduce-scatter, (N − 1)/N for
all-to-all. The shard is the full array for all-reduce, and 1/N of it for the others.

Source: accelerator-microbenchmarks, core/base.py and benchmarks/collectives.py.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.record import ITEM_BYTES, OPS, Log, dtype_of
from scaleopt.units import GB, MB, ms

NAME = "accelerator-microbenchmarks"
_EXACT = 1e-9
"""Relative; JSON holds every digit of a float."""
_MOVED = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: n - 1,
    "reduce_scatter": lambda n: n - 1,
    "all_to_all": lambda n: (n - 1) / n,
}
"""Bytes that a device moves per byte of a shard."""


def is_report(document: Any) -> bool:
    """Whether a document is such a list of results."""
    return (
        isinstance(document, list)
        and bool(document)
        and isinstance(document[0], dict)
        and {"metadata", "metrics"} <= document[0].keys()
    )


def read_microbenchmarks(log: Log, document: list[Any]) -> Iterator[dict[str, Any]]:
    """The rows of every result that is a collective and agrees with itself."""
    for number, result in enumerate(document, 1):
        line = Line(number, json.dumps(result)[:200])
        try:
            yield from _rows(log, line, result)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            log.skip(line, f"not as {NAME} has it: {error!r}")


def _rows(log: Log, line: Line, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    name, metrics = str(result["metadata"]["benchmark_name"]), result["metrics"]
    op = OPS.get(_snake(name))
    shard = metrics.get("shard_size_mb", metrics.get("local_size_mb"))
    times = np.array(result["raw_times_ms"], float)
    dtype = dtype_of(str(result["metadata"]["params"]["dtype"]))
    if op is None or shard is None or times.size == 0:
        log.skip(line, f"{name!r} is not a collective with a size and raw times")
        return []
    wrong = _contradiction(metrics, times)
    share = round(float(shard) * MB, 3)
    devices = None if wrong else _devices(op, share, metrics)
    if wrong is None and (share % ITEM_BYTES.get(dtype, np.inf) or share <= 0):
        wrong = f"{share:g} bytes are not a whole number of elements of {dtype}"
    if wrong is None and devices is None:
        wrong = "bandwidth, size and time fit no whole number of devices"
    if wrong is not None or devices is None:
        log.skip(line, wrong or "")
        return []
    log.note("devices: from bandwidth, size and average time, as the report does not say")
    return [
        {
            "op": op,
            "devices": devices,
            "size_bytes": share * (1 if op == "all_reduce" else devices),
            "repeat": repeat,
            "time_s": float(time) * ms,
            "dtype": dtype,
            "label": name,
        }
        for repeat, time in enumerate(times)
    ]


def _snake(name: str) -> str:
    """The class AllReduceBenchmark as all_reduce."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.removesuffix("Benchmark")).lower()


def _contradiction(metrics: Mapping[str, Any], times: "np.ndarray[Any, Any]") -> str | None:
    """What is wrong between the raw times and what is reported of them."""
    if not np.all((times > 0) & np.isfinite(times)):
        return "a raw time is not above 0"
    kept = times
    if times.size > 3:
        low, high = np.percentile(times, [25, 75])
        reach = 1.5 * (high - low)
        kept = times[(times >= low - reach) & (times <= high + reach)]
    told = {
        "avg_ms": kept.mean(), "std_ms": kept.std(),
        "p50_ms": np.percentile(kept, 50), "p90_ms": np.percentile(kept, 90),
    }  # fmt: skip
    for key, value in told.items():
        if abs(float(metrics.get(key, value)) - value) > _EXACT * kept.mean():
            return f"{key} is {metrics[key]}, and {value:.6g} of the raw times"
    return None


def _devices(op: str, share: float, metrics: Mapping[str, Any]) -> int | None:
    """N from the bytes moved per byte of a shard."""
    average = metrics.get("xprof_avg_ms") or metrics["avg_ms"]
    moved = float(metrics["bandwidth_gb_s"]) * GB * float(average) * ms / share
    if moved == 0:
        return 1
    most = 2 if op == "all_reduce" else 1
    if op in ("all_gather", "reduce_scatter"):
        n = moved + 1
    else:
        n = most / (most - moved) if moved < most else 0.0
    whole = round(n)
    return whole if n > 1.5 and abs(moved / _MOVED[op](whole) - 1) < _EXACT else None
