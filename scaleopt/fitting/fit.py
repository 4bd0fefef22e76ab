"""Fit any callable model to a table, from the table's columns that its call names."""

import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx
import numpy as np
import pandas as pd
from jax import Array

from scaleopt.fitting.columns import COLUMN_OF, columns_of
from scaleopt.fitting.estimate import estimate
from scaleopt.fitting.parameters import free_parameters
from scaleopt.fitting.prior import Prior
from scaleopt.fitting.result import Fit

Model = TypeVar("Model")


class CallModel(eqx.Module):
    """Seconds that a model predicts for rows: the model called with the columns it names."""

    arguments: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, model: Any, columns: dict[str, Array]) -> Array:
        """The model's seconds for each row."""
        return model(**{name: columns[name] for name in self.arguments})


def fit(
    model: Model,
    table: pd.DataFrame,
    *,
    fixed: tuple[str, ...] = (),
    priors: Mapping[str, Prior] | None = None,
    weights: str | None = None,
) -> Fit[Model]:
    """Fit the free numbers of a model to the times of a table.

    Minimises Tukey's loss of log measured − log predicted, in float64, with the noise of each
    kind of row estimated from the rows.

    Args:
        model: a callable pytree whose positive floats are the start; called with columns by
            name: devices, nodes, flops, size, moved_bytes, operations, injected. A bare function
            becomes one with its parameters bound by `jax.tree_util.Partial`.
        table: rows with `time_s` [s], `op`, and the columns that the model's call names.
        fixed: names of numbers that keep their value; zeros and integers always do.
        priors: what is known before, such as {"alpha": so.Prior(5e-6, 1.5)}; such a parameter
            stays above 0.
        weights: a column that says how many rows like it each row is the mean of.

    Returns:
        The fitted model, its intervals, and what the rows cannot tell.

    Raises:
        ValueError: a missing column, an empty cell, a time that is not positive, or a model
            without a free number.
        TypeError: a model that cannot be called.

    >>> from jax.tree_util import Partial
    >>> table = pd.DataFrame({"op": "step", "devices": [1, 2, 4, 8], "time_s": [9.0, 5, 3, 2]})
    >>> def amdahl(devices, *, serial, work):
    ...     return serial + work / devices
    >>> law = Partial(amdahl, serial=2.0, work=5.0)
    >>> {name: round(value, 3) for name, value in fit(law, table).model.keywords.items()}
    {'serial': 1.0, 'work': 8.0}

    Source: the estimator of `scaleopt.fitting.solve`.
    """
    arguments = _arguments(model)
    names = [COLUMN_OF[name] for name in arguments if name in COLUMN_OF]
    check_rows(table, ["time_s", *names])
    columns = columns_of(table, arguments)
    chained = columns.get("operations", columns_of(table, ["operations"])["operations"])
    if "operations" not in arguments and bool((chained > 1).any()):
        raise ValueError(
            f"row {chained.index[chained > 1][0]} times a chain of several operations, and the "
            "model's call does not take `operations`; add the argument, or keep the rows "
            "whose method is 'single'"
        )
    return estimate(
        CallModel(arguments),
        free_parameters(model, fixed),
        table,
        columns,
        weights=None if weights is None else weights_of(table, weights),
        priors=priors,
    )


def weights_of(table: pd.DataFrame, name: str) -> np.ndarray:
    """The weights of the rows, each above 0."""
    if name not in table:
        raise ValueError(f"weights={name!r}: the table has no such column")
    values = pd.to_numeric(table[name], errors="coerce").to_numpy(float)
    good = np.isfinite(values) & (values > 0)
    if not good.all():
        raise ValueError(
            f"row {table.index[~good][0]}: {name} is {values[~good][0]}; a weight is above 0: "
            "drop a row that is to have no say"
        )
    return values


def check_rows(table: pd.DataFrame, names: list[str]) -> None:
    """Refuse rows that cannot be fitted, where they enter."""
    if table.empty:
        raise ValueError("the table has no rows; measure some with 'scaleopt probe'")
    for name in ["op", *names]:
        if name not in table:
            raise ValueError(f"the table has no column {name!r}, which the model needs; add it")
    if table["op"].isna().any():
        row = table.index[table["op"].isna()][0]
        raise ValueError(f"row {row}: op is empty; it names the kind of row, such as 'step'")
    for name in names:
        values = pd.to_numeric(table[name], errors="coerce").to_numpy(float)
        rules = {"time_s": (values > 0, "above 0"), "devices": (values >= 1, "from 1 up")}
        within, rule = rules.get(name, (values >= 0, "0 or more"))
        good = np.isfinite(values) & within
        if not good.all():
            row = table.index[~good][0]
            raise ValueError(
                f"row {row}: {name} is {table.loc[row, name]}; it must be a number {rule} (SI): "
                "drop the row or mend it"
            )


def _arguments(model: Any) -> tuple[str, ...]:
    """The columns that a model's call names; others must have a value already."""
    if not callable(model):
        raise TypeError(f"the model {model!r} cannot be called; give a callable pytree")
    bound = set(getattr(model, "keywords", {}))
    names = []
    for name, parameter in inspect.signature(model).parameters.items():
        if name in bound:
            continue
        if name in COLUMN_OF or name == "operations":
            names.append(name)
        elif parameter.default is parameter.empty:
            known = ", ".join([*COLUMN_OF, "operations"])
            raise ValueError(
                f"the model's call takes {name!r}, which is no column ({known}); bind it with "
                f"jax.tree_util.Partial(function, {name}=start)"
            )
    return tuple(names)
