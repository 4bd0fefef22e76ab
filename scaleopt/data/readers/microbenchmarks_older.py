"""The reports of accelerator-microbenchmarks before its `detailed.json`: JSON lines, and TSV.

Each record has statistics of its times and of the bandwidths that follow, in one of two forms:

- `op_type` AR, AG, RS or A2A among `rank` devices, of `input_num_elements` of `dtype_bytes` that
  one device passes in, and `step_time_ms_avg`; every even device counts for two, which move
  2(N − 1) inputs where others move N − 2, twice that over N for AR, and over N for RS and A2A;
- a matrix of `matrix_dim`², the full array, on `ici_size` devices, all of `ici_time_ms_list`, and
  bandwidths of 2(N − 1)/N of it for psum, (N − 1)/N for all_gather and psum_scatter, (N − 1)/N²
  for all_to_all. Times across data centers (dcn) are not read.

Source: accelerator-microbenchmarks before June 2026, Ironwood/src/benchmark_collectives.py and
src/benchmark_collectives.py.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.record import Log
from scaleopt.units import GB, ms

NAME = "accelerator-microbenchmarks (older)"
_CLOSE = 1e-6
"""Relative; every digit of a float is written."""
_TYPES = {
    # operation, full arrays in what one device passes in, shares of N in what is moved
    "AR": ("all_reduce", 0, 2), "AG": ("all_gather", 1, None),
    "RS": ("reduce_scatter", 0, 1), "A2A": ("all_to_all", 1, 1),
}  # fmt: skip
_NAMES = {
    "psum": ("all_reduce", lambda n: 2 * (n - 1) / n),
    "psum_scatter": ("reduce_scatter", lambda n: (n - 1) / n),
    "all_gather": ("all_gather", lambda n: (n - 1) / n),
    "all_to_all": ("all_to_all", lambda n: (n - 1) / n / n),
}


def is_report(document: Any) -> bool:
    """Whether a document is such a list of records."""
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and {"metrics", "dimensions"} <= first.keys()


def heads_table(text: str) -> bool:
    """Whether a line names the columns of such a TSV."""
    return "\t" in text and ("step_time_ms_avg" in text or "ici_time_ms_list" in text)


def read_older(log: Log, records: Iterable[tuple[Line, Any]]) -> Iterator[dict[str, Any]]:
    """The rows of every record that is a collective and agrees with itself.

    Args:
        log: where what cannot be used is counted.
        records: each with its line: flat, or as metrics and dimensions.
    """
    for line, record in records:
        try:
            flat = {**record.get("dimensions", {}), **record.get("metrics", record)}
            rows = _of_type(flat) if "op_type" in flat else _of_name(flat)
        except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
            log.skip(line, f"not as {NAME} has it: {error}")
            continue
        yield from rows


def _of_type(flat: Mapping[str, Any]) -> list[dict[str, Any]]:
    op, power, shares = _TYPES[str(flat["op_type"])]
    devices, item = int(flat["rank"]), float(flat["dtype_bytes"])
    held = int(flat["input_num_elements"]) * item
    paired = str(flat["replica_group_type"]) == "parallel"
    moved = held * (2 * (devices - 1) if paired else devices - 2)
    moved *= 1 if shares is None else shares / devices
    low, middle, average, high = (
        float(flat[f"step_time_ms_{name}"]) for name in ("min", "p50", "avg", "max")
    )
    rate = float(flat["achieved_bw (GB/s)_max"])
    if not 0 < low <= middle <= high or not low <= average * (1 + _CLOSE) <= high * (
        1 + 3 * _CLOSE
    ):
        raise ValueError("the average or the median is not between the least and the most")
    if abs(rate * GB * low * ms - moved) > _CLOSE * moved or devices < 1:
        raise ValueError("the bandwidth is not what is moved over the least time")
    size = held * devices**power
    return [_row(op, devices, size, average * ms, f"average of {flat.get('op_dimension', op)}")]


def _of_name(flat: Mapping[str, Any]) -> list[dict[str, Any]]:
    name = re.sub(r"^t_|_[A-Z0-9]{4,}$", "", str(flat["test_name"]))
    op, factor = _NAMES[name]
    devices, size = int(flat["ici_size"]), int(flat["matrix_dim"]) ** 2 * float(flat["dtype"])
    times = flat["ici_time_ms_list"]
    times = np.array(json.loads(times) if isinstance(times, str) else times, float)
    if times.size == 0 or not np.all((times > 0) & np.isfinite(times)):
        raise ValueError("a time is not above 0")
    if abs(times.mean() - float(flat["ici_time_ms_avg"])) > _CLOSE * times.mean():
        raise ValueError("ici_time_ms_avg is not the average of the times")
    rate = float(flat["ici_bandwidth_gbyte_s_max"])
    moved = factor(devices) * size
    if abs(rate * GB * times.min() * ms - moved) > _CLOSE * moved:
        raise ValueError("the bandwidth is not what is moved over the least time")
    return [
        {**_row(op, devices, size, float(time) * ms, name), "repeat": repeat}
        for repeat, time in enumerate(times)
    ]


def _row(op: str, devices: int, size: float, time: float, label: str) -> dict[str, Any]:
    return {"op": op, "devices": devices, "size_bytes": size, "time_s": time, "label": label}
