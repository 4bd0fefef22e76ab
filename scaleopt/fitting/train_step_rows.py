"""Rows of kind `train_step` as columns of numbers, with what a row may leave out, and refusals."""

from typing import Any

import numpy as np
import pandas as pd

from scaleopt.models.transformer import RECOMPUTE

NEEDED = ("devices", "hidden", "heads", "layers", "seq_len", "global_batch")
"""What a row must say."""
DEFAULTS = {
    "vocab": 51200.0,
    "micro_batch": 1.0,
    "data": 1.0,
    "tensor": 1.0,
    "pipeline": 1.0,
    "interleave": 1.0,
    "recompute": 0.0,
    "sequence_parallel": 0.0,
    "context": 1.0,
    "zero": 0.0,
    "gated": 0.0,
    "fused_attention": 0.0,
    "experts": 1.0,
    "active_experts": 1.0,
    "expert": 1.0,
    "zero_bubble": 0.0,
}
"""What a row without the column, or with an empty cell, is taken to say."""
FOLLOWING = {"kv_heads": ("heads", 1.0), "feed_forward": ("hidden", 4.0)}
"""Columns that are as many times another where they are not given."""
NODE_SIZE = 8.0
"""Devices of a node where `nodes` is not given."""


def training_columns(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """The columns that a training step is predicted from, with defaults where a row does not say.

    Raises:
        ValueError: a missing column, a recomputation that is not known, axes whose product is not
            the devices, a batch that they do not divide, or experts that cannot be shared so.
    """
    missing = [name for name in NEEDED if name not in rows]
    if missing:
        raise ValueError(f"train_step rows need {', '.join(missing)}; add what is missing")
    columns = {name: rows[name].to_numpy(float) for name in NEEDED}
    for name, default in DEFAULTS.items():
        given = rows[name] if name in rows else pd.Series(np.nan, index=rows.index)
        if name == "recompute":
            given = given.map(_code)
        columns[name] = given.astype(float).fillna(default).to_numpy()
    for name, (other, times) in FOLLOWING.items():
        given = rows[name].to_numpy(float) if name in rows else np.full(len(rows), np.nan)
        columns[name] = np.where(np.isnan(given), times * columns[other], given)
    axes = columns["data"] * columns["tensor"] * columns["pipeline"] * columns["context"]
    refuse(rows, axes != columns["devices"], "data · tensor · pipeline · context is not devices")
    batches = columns["global_batch"] / (columns["data"] * columns["micro_batch"])
    refuse(
        rows, (batches < 1) | (batches % 1 != 0), "data · micro_batch does not divide global_batch"
    )
    _refuse_experts(rows, columns)
    devices = columns["devices"]
    blank = pd.Series(np.nan, index=rows.index)
    nodes = rows.get("nodes", blank).to_numpy(float)
    alone = np.maximum(devices, NODE_SIZE)
    several = np.where(np.isnan(nodes), NODE_SIZE, devices / np.where(nodes > 0, nodes, 1.0))
    return columns | {"node_size": np.where(nodes == 1, alone, several)}


def asked_for(
    table: pd.DataFrame | None, columns: dict[str, Any]
) -> tuple[pd.DataFrame, tuple[int, ...]]:
    """Rows that are asked for as a table or by columns, and the shape of the answer.

    Raises:
        ValueError: a column that a training run has not, or lengths that differ.
    """
    if table is not None:
        return table, (len(table),)
    known = (*NEEDED, *DEFAULTS, *FOLLOWING, "nodes")
    unknown = [name for name in columns if name not in known]
    if unknown:
        raise ValueError(
            f"{', '.join(unknown)}: a training run has no such column; it has {', '.join(known)}"
        )
    shape = np.broadcast_shapes(*(np.shape(value) for value in columns.values()))
    rows = {name: np.broadcast_to(value, shape).ravel() for name, value in columns.items()}
    return pd.DataFrame(rows), shape


def _refuse_experts(rows: pd.DataFrame, columns: dict[str, np.ndarray]) -> None:
    """Raise on a row whose experts, or chunks of layers, cannot be so."""
    for name in ("experts", "active_experts", "expert"):
        refuse(
            rows,
            (columns[name] < 1) | (columns[name] % 1 != 0),
            f"{name} is no whole number above 0",
        )
    experts, sharing = columns["experts"], columns["expert"]
    refuse(rows, columns["active_experts"] > experts, "active_experts is above experts")
    refuse(rows, experts % sharing != 0, "expert does not divide experts")
    replicas = columns["data"] * columns["context"]
    refuse(rows, replicas % sharing != 0, "expert does not divide data · context")
    chunks = (columns["zero_bubble"] > 0) & (columns["interleave"] > 1)
    refuse(rows, chunks, "zero_bubble has no chunks of layers, and interleave is above 1")


def refuse(rows: pd.DataFrame, wrong: np.ndarray, rule: str) -> None:
    """Raise on the first row that is wrong."""
    if wrong.any():
        raise ValueError(f"row {rows.index[wrong][0]}: {rule}; mend the row or drop it")


def _code(choice: Any) -> float:
    if isinstance(choice, str) and choice in RECOMPUTE:
        return float(RECOMPUTE.index(choice))
    if choice is None or choice != choice:
        return np.nan
    raise ValueError(f"recompute is {choice!r}; write one of {', '.join(RECOMPUTE)}")
