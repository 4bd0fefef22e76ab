"""Several tables as one, where they were measured alike: like is compared with like.

What makes two runs alike is the machine, the versions and the flags; when they ran, on which of
several equal hosts, and on how many of its devices makes no difference.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from scaleopt.data.measurements import MeasurementError, Measurements

ALIKE = (
    "platform",
    "device_kind",
    "processor",
    "physical_cores",
    "caches",
    "backend",
    "python",
    "system",
    "versions",
    "driver",
    "environment",
    "configuration",
)
"""What two contexts must have in common."""


def likeness(context: Mapping[str, Any]) -> str:
    """A short hash of all that makes runs alike; equal for runs that may be compared.

    Args:
        context: of a run.

    >>> likeness({"platform": "cpu", "date": "2026-01-01"}) == likeness({"platform": "cpu"})
    True
    """
    known = {name: context.get(name) for name in ALIKE}
    text = json.dumps(known, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """In what two contexts are not alike, a phrase each; what only one of them tells is unknown.

    Args:
        first: of one run.
        second: of another.

    >>> differences({"versions": {"jax": "0.10.2"}}, {"versions": {"jax": "0.11.0"}})
    ['versions.jax is 0.10.2 and 0.11.0']
    """
    found = []
    for name in ALIKE:
        if name not in first or name not in second:
            continue
        one, other = first[name], second[name]
        if isinstance(one, dict) and isinstance(other, dict):
            keys = [*one, *(key for key in other if key not in one)]
            pairs = [(f"{name}.{key}", one.get(key), other.get(key)) for key in keys]
        else:
            pairs = [(name, one, other)]
        found += [f"{what} is {a} and {b}" for what, a, b in pairs if a != b]
    return found


def join_measurements(runs: Sequence[Measurements], *, across: bool = False) -> Measurements:
    """One table of several, the runs and rounds of each its own.

    Args:
        runs: as `read_measurements` returns them.
        across: whether to join runs that are not alike; the context then says in what they differ.

    Returns:
        The rows one after another, and the first context; which logs they are of, and what is not
        alike or not known to be, stands there too.

    Raises:
        MeasurementError: no run, or runs that are not alike.

    >>> table = pd.DataFrame({"op": "step", "devices": [1, 2], "round": 0, "time_s": [2.0, 1.0]})
    >>> both = join_measurements([Measurements(table, {}), Measurements(table, {})])
    >>> both.table["round"].tolist()
    [0, 0, 1, 1]
    """
    if not runs:
        raise MeasurementError("no table to join; give at least one")
    context, said = dict(runs[0].context), list[str]()
    for number, run in enumerate(runs[1:], 2):
        said += [f"table {number}: {what}" for what in differences(runs[0].context, run.context)]
    if said and not across:
        raise MeasurementError(
            f"the tables were not measured alike ({'; '.join(said)}): fit each by itself, or join "
            "them knowingly with --across"
        )
    kinds = [run.context.get("device_kind") for run in runs]
    if len({*kinds}) > 1 and not said:
        told = ", ".join(f"table {n}: {kind or 'unknown'}" for n, kind in enumerate(kinds, 1))
        said.append(f"not every table says its devices ({told}), so they may be others")
    if said:
        context["joined_across"] = said
    imported = [run.context["imported"] for run in runs if "imported" in run.context]
    if len(runs) > 1 and imported:
        context["joined"] = imported
        notes = [note for run in runs for note in run.context.get("notes", [])]
        context["notes"] = list(dict.fromkeys(notes))
    tables, first = [], {"run": 0, "round": 0}
    for measured in runs:
        table = measured.table
        for name, offset in first.items():
            if name in table and table[name].notna().any():
                table = table.assign(**{name: table[name] + offset})
                first[name] = int(table[name].max()) + 1
        tables.append(table)
    return Measurements(pd.concat(tables, ignore_index=True), context)
