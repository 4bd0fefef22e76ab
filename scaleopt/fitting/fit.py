"""Fit any callable model to a table, from the table's columns that its call names."""

import inspect
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, Literal

import equinox as eqx
import numpy as np
import pandas as pd
from jax import Array

from scaleopt.fitting.columns import COLUMN_OF, columns_of
from scaleopt.fitting.estimate import estimate
from scaleopt.fitting.groups import GroupedModel, grouped
from scaleopt.fitting.loss import Loss, Rho, check_loss
from scaleopt.fitting.parameters import free_parameters
from scaleopt.fitting.prior import Prior
from scaleopt.fitting.result import Fit

_LOSSES = ("tukey", "squares")
_RESIDUALS = ("log", "absolute")


class CallModel(eqx.Module):
    """Seconds that a model predicts for rows: the model called with the columns it names."""

    arguments: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, model: Any, columns: dict[str, Array]) -> Array:
        """The model's seconds for each row."""
        return model(**{name: columns[name] for name in self.arguments})


_calling = lru_cache(256)(CallModel)
_signature = lru_cache(256)(inspect.signature)


def fit(
    model: Any,
    table: pd.DataFrame,
    *,
    measured: str = "time_s",
    fixed: tuple[str, ...] = (),
    priors: Mapping[str, Prior] | None = None,
    weights: str | None = None,
    by: str | None = None,
    own: tuple[str, ...] = (),
    cluster: str | None = None,
    loss: Literal["tukey", "squares"] | Rho = "tukey",
    residuals: Literal["log", "absolute"] = "log",
) -> Fit[Any]:
    """Fit the free numbers of a model to the times of a table.

    Minimises Tukey's loss of log measured − log predicted, in float64, with the noise of each
    kind of row estimated from the rows.

    Args:
        model: a callable pytree whose positive floats are the start; called with columns by
            name: devices, nodes, flops, size, moved_bytes, operations, injected, or any other that
            the table has. A bare function becomes one with its parameters bound by
            `jax.tree_util.Partial`.
        table: rows with what was measured, `op`, and the columns that the model's call names.
        measured: the column that the model predicts, above 0.
        fixed: names of numbers that keep their value; zeros and integers always do.
        priors: what is known before, such as {"alpha": so.Prior(5e-6, 1.5)}; such a parameter
            stays above 0.
        weights: a column that says how many rows like it each row is the mean of.
        by: a column of groups that share the law, such as two clusters.
        own: the parameters that each group has for itself; the others are one for all.
        cluster: a column that says which rows hang together, such as "run": intervals then count
            its values, not the rows, as independent.
        loss: "tukey", for which wild rows have no say, "squares", for which every row is right, or
            ρ(e), a function of one residual in units of the noise that JAX can differentiate twice,
            such as `lambda e: 2.5 * jnp.log1p(e**2 / 4)` for Student's t.
        residuals: "log" for relative misses, "absolute" for misses in the unit of `measured`.

    Returns:
        The fitted model, or where there are groups a dictionary of models, with intervals and what
        the rows cannot tell.

    Raises:
        ValueError: a missing column, an empty cell, a time that is not positive, an option that is
            not known, or a model without a free number.
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
    for option, value, known in (("loss", loss, _LOSSES), ("residuals", residuals, _RESIDUALS)):
        if value not in known and not (option == "loss" and callable(value)):
            raise ValueError(f"{option}={value!r}; choose one of {', '.join(known)}")
    own_loss = loss if callable(loss) else None
    if own_loss is not None:
        check_loss(own_loss)
    arguments, columns, values = model_columns(model, table, measured)
    parameters, observe = free_parameters(model, fixed), _calling(arguments)
    if (by is None) != (not own):
        raise ValueError(
            f"by={by!r} and own={own}: give the column of groups and what is their own"
        )
    if by is not None:
        codes, labels = labels_of(table, by)
        parameters, observe = grouped(parameters, labels, own), GroupedModel(observe, by, labels)
        columns[by] = codes
    return estimate(
        observe,
        parameters,
        table,
        columns,
        measured=values,
        weights=None if weights is None else weights_of(table, weights),
        priors=priors,
        loss=Loss(robust=loss != "squares", relative=residuals == "log", own=own_loss),
        cluster=None if cluster is None else labels_of(table, cluster)[0],
    )


def model_columns(
    model: Any, table: pd.DataFrame, measured: str = "time_s"
) -> tuple[tuple[str, ...], dict[str, Any], np.ndarray]:
    """What a model's call takes, the columns of that, and the values measured, all checked."""
    arguments = _arguments(model, [str(name) for name in table])
    names = {name: COLUMN_OF.get(name, name) for name in arguments if name != "operations"}
    numbers = check_rows(table, [measured, *names.values()], above_zero=measured)
    columns = {name: numbers[column] for name, column in names.items()}
    if "operations" in arguments:
        columns |= columns_of(table, ["operations"])
    elif "method" in table:
        chained = columns_of(table, ["operations"])["operations"] > 1
        if chained.any():
            raise ValueError(
                f"row {table.index[chained][0]} times a chain of several operations, and the "
                "model's call does not take `operations`; add the argument, or keep the rows "
                "whose method is 'single'"
            )
    return arguments, columns, numbers[measured]


def labels_of(table: pd.DataFrame, name: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Whole numbers from 0 for the values of a column, and those values as text."""
    if name not in table:
        raise ValueError(f"the table has no column {name!r}; add it")
    if table[name].isna().any():
        row = table.index[table[name].isna()][0]
        raise ValueError(f"row {row}: {name} is empty; say which each row belongs to")
    codes, labels = pd.factorize(table[name].astype(str))
    return codes, tuple(labels)


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


def check_rows(
    table: pd.DataFrame, names: list[str], above_zero: str = "time_s"
) -> dict[str, np.ndarray]:
    """Refuse rows that cannot be fitted, where they enter; what stands in the columns named."""
    if table.empty:
        raise ValueError("the table has no rows; measure some with 'scaleopt probe'")
    twice = table.columns.duplicated()
    if twice.any():
        name = table.columns[twice][0]
        raise ValueError(f"the table has the column {name!r} twice; keep the one that is meant")
    missing = [repr(name) for name in ["op", *names] if name not in table]
    if missing:
        raise ValueError(
            f"the table has no column {', '.join(missing)}, which the model needs; add what is "
            "missing"
        )
    unknown = np.asarray(table["op"].array.isna())
    if unknown.any():
        row = table.index[unknown][0]
        raise ValueError(f"row {row}: op is empty; it names the kind of row, such as 'step'")
    return check_numbers(table, names, above_zero)


def check_numbers(
    table: pd.DataFrame,
    names: list[str],
    above_zero: str = "time_s",
    among: np.ndarray | bool = True,
) -> dict[str, np.ndarray]:
    """Refuse a cell that is no number of its column's, among some of the rows; the numbers."""
    numbers = {}
    for name in names:
        values = table[name]
        if values.dtype.kind not in "fiu":
            values = pd.to_numeric(values, errors="coerce")
        numbers[name] = values = values.to_numpy(float)
        if name == above_zero:
            within, rule = values > 0, "above 0"
        elif name == "devices":
            within, rule = values >= 1, "from 1 up"
        elif name in COLUMN_OF.values():
            within, rule = values >= 0, "0 or more"
        else:
            within, rule = np.isfinite(values), "that is finite"
        good = (np.isfinite(values) & within) | np.logical_not(among)
        if not good.all():
            row = table.index[~good][0]
            raise ValueError(
                f"row {row}: {name} is {table.loc[row, name]}; it must be a number {rule} (SI): "
                "drop the row or mend it"
            )
    return numbers


def _arguments(model: Any, columns: list[str]) -> tuple[str, ...]:
    """The columns that a model's call names; others must have a value already."""
    if not callable(model):
        raise TypeError(f"the model {model!r} cannot be called; give a callable pytree")
    bound = set(getattr(model, "keywords", {}))
    called = model.func if isinstance(model, partial) and not model.args else model
    signature = (_signature if inspect.isfunction(called) else inspect.signature)(called)
    names = []
    for name, parameter in signature.parameters.items():
        if name in bound:
            continue
        if name in COLUMN_OF or name == "operations":
            names.append(name)
        elif parameter.default is parameter.empty:
            if name in columns:
                names.append(name)
                continue
            known = ", ".join([*COLUMN_OF, "operations"])
            raise ValueError(
                f"the model's call takes {name!r}, which is no column ({known}); bind it with "
                f"jax.tree_util.Partial(function, {name}=start)"
            )
    return tuple(names)
