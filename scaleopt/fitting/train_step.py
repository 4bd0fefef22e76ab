"""Constants of a machine from the step times of training runs: rows of kind `train_step`.

A row says which transformer was trained, how it was split and how long a step took. What no row
depends on, such as the network where all ran in one node, is not told, and neither is a prediction
that hangs on it.
"""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax import Array

from scaleopt.fitting.estimate import estimate
from scaleopt.fitting.fit import check_rows
from scaleopt.fitting.parameters import free_parameters
from scaleopt.fitting.result import Fit, Prediction
from scaleopt.models.machine import Machine
from scaleopt.models.parallelism import Parallelism
from scaleopt.models.transformer import RECOMPUTE, Transformer

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
}
"""What a row without the column, or with an empty cell, is taken to say."""
NODE_SIZE = 8.0
"""Devices of a node where `nodes` is not given."""
ROWS_A_CONSTANT = 3
"""Different runs needed for each constant; with fewer the curve passes through its own noise."""
STARTS = {
    "rate": 2.2e14,
    "bandwidth": 1.2e12,
    "alpha": 8e-6,
    "beta": 7e-12,
    "network_alpha": 2e-5,
    "network_beta": 5e-11,
    "grain": 60.0,
    "kernel": 2.5e-5,
    "host": 2.5e-4,
    "micro_batch_overhead": 1e-3,
    "step_overhead": 2e-2,
}
"""Where the search starts: an accelerator of 2020 or later, by orders of magnitude."""


class ObserveTrainStep(eqx.Module):
    """Seconds that a machine takes for the training step of each row."""

    def __call__(self, model: Machine, columns: dict[str, Array]) -> Array:
        """The seconds of each row."""
        names = ("hidden", "heads", "layers", "seq_len", "vocab")
        shape: dict[str, Any] = {name: columns[name] for name in names}
        transformer = Transformer(**shape)
        axes = ("data", "tensor", "pipeline", "micro_batch", "interleave", "recompute")
        split = Parallelism(
            **{name: columns[name] for name in axes},
            accumulation=columns["global_batch"] / (columns["data"] * columns["micro_batch"]),
            sequence_parallel=columns["sequence_parallel"],
        )
        machine = replace(model, node_size=columns["node_size"])
        return jnp.asarray(machine(transformer, split))


@dataclass(frozen=True, repr=False)
class TrainStepFit(Fit[Machine]):
    """A machine fitted to training steps; it predicts rows as they stand in a table."""

    def predict(
        self, table: pd.DataFrame | None = None, *, level: float = 0.9, **columns: Any
    ) -> Prediction:
        """Seconds of training steps still to be measured.

        Args:
            table: rows with the columns of `train_step` rows.
            level: the share of measurements within the range.
            columns: the same as arrays, instead of a table.

        Returns:
            The time and its range.

        Raises:
            ValueError: a row that lacks a column, or a split that does not fit its devices.
        """
        rows = pd.DataFrame(columns) if table is None else table
        return super().predict(None, level=level, **training_columns(rows))


def fit_train_steps(table: pd.DataFrame) -> TrainStepFit:
    """Fit a machine to rows of kind `train_step`.

    Args:
        table: rows with `time_s` and the columns of `NEEDED`; those of `DEFAULTS` and `nodes` where
            they differ from what is taken otherwise.

    Returns:
        The fit of a `Machine`.

    Raises:
        ValueError: a missing column or cell, a split that does not fit its devices, runs across
            nodes, or too few different runs.
    """
    check_rows(table, ["time_s", *NEEDED])
    columns = training_columns(table)
    # What such rows tell of the network has misled predictions by factors, so none is made of it.
    across = table["devices"].to_numpy(float) > columns["node_size"]
    _refuse(table, across, "it runs across nodes, which is not fitted yet")
    runs, needed = len(pd.DataFrame(columns).drop_duplicates()), ROWS_A_CONSTANT * len(STARTS)
    if runs < needed:
        raise ValueError(
            f"{runs} different train_step rows do not tell a machine's {len(STARTS)} constants; "
            f"give {needed} or more, of several splits and models"
        )
    parameters = free_parameters(Machine(**STARTS, node_size=8))
    found = estimate(
        ObserveTrainStep(),
        parameters,
        table,
        columns,
    )
    return TrainStepFit(**vars(found))


def training_columns(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """The columns that `ObserveTrainStep` takes, with defaults where a row does not say.

    Raises:
        ValueError: a missing column, a recomputation that is not known, axes whose product is not
            the devices, or a batch that they do not divide.
    """
    for name in NEEDED:
        if name not in rows:
            raise ValueError(f"train_step rows need the column {name!r}; add it")
    columns = {name: rows[name].to_numpy(float) for name in NEEDED}
    for name, default in DEFAULTS.items():
        given = rows[name] if name in rows else pd.Series(np.nan, index=rows.index)
        if name == "recompute":
            given = given.map(_code)
        columns[name] = given.astype(float).fillna(default).to_numpy()
    axes = columns["data"] * columns["tensor"] * columns["pipeline"]
    _refuse(rows, axes != columns["devices"], "data · tensor · pipeline is not devices")
    batches = columns["global_batch"] / (columns["data"] * columns["micro_batch"])
    _refuse(
        rows, (batches < 1) | (batches % 1 != 0), "data · micro_batch does not divide global_batch"
    )
    devices = columns.pop("devices")
    blank = pd.Series(np.nan, index=rows.index)
    nodes = rows.get("nodes", blank).to_numpy(float)
    alone = np.maximum(devices, NODE_SIZE)
    several = np.where(np.isnan(nodes), NODE_SIZE, devices / np.where(nodes > 0, nodes, 1.0))
    return columns | {"node_size": np.where(nodes == 1, alone, several)}


def _code(choice: Any) -> float:
    if isinstance(choice, str) and choice in RECOMPUTE:
        return float(RECOMPUTE.index(choice))
    if choice is None or choice != choice:
        return np.nan
    raise ValueError(f"recompute is {choice!r}; write one of {', '.join(RECOMPUTE)}")


def _refuse(rows: pd.DataFrame, wrong: np.ndarray, rule: str) -> None:
    if wrong.any():
        raise ValueError(f"row {rows.index[wrong][0]}: {rule}; mend the row or drop it")
