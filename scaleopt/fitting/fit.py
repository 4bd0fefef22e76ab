"""Fit any callable model to a table, from the table's columns that its call names."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax import Array

from scaleopt.data.schema import operations
from scaleopt.fitting.parameters import (
    Coordinate,
    Parameters,
    Point,
    free_parameters,
    values_of,
)
from scaleopt.fitting.result import Fit, plain, prepare_columns
from scaleopt.fitting.solve import Observe, Rows, Solution, solve
from scaleopt.fitting.uncertainty import Covariance, KindNoise, covariance
from scaleopt.units import format_si

Model = TypeVar("Model")
Remedy = Callable[[frozenset[str]], str]

COLUMN_OF = {
    "devices": "devices",
    "nodes": "nodes",
    "flops": "flops",
    "size": "size_bytes",
    "moved_bytes": "moved_bytes",
    "injected": "injected_s",
}
"""Which column a model's argument is filled from."""

_LOOSE = 0.25
"""The relative deviation from which a parameter leaves log space for where time is linear."""
_SETTLED = 0.05
_FREEZE_ROUNDS = 4


class CallModel(eqx.Module):
    """Seconds that a model predicts for rows: the model called with the columns it names."""

    arguments: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, model: Any, columns: dict[str, Array]) -> Array:
        """The model's seconds for each row."""
        return model(**{name: columns[name] for name in self.arguments})


def fit(model: Model, table: pd.DataFrame, *, fixed: tuple[str, ...] = ()) -> Fit[Model]:
    """Fit the free numbers of a model to the times of a table.

    Minimises Tukey's loss of log measured − log predicted, in float64, with the noise of each
    kind of row estimated from the rows.

    Args:
        model: a callable pytree whose positive floats are the start; called with columns by
            name: devices, nodes, flops, size, moved_bytes, operations, injected. A bare function
            becomes one with its parameters bound by `jax.tree_util.Partial`.
        table: rows with `time_s` [s], `op`, and the columns that the model's call names.
        fixed: names of numbers that keep their value; zeros and integers always do.

    Returns:
        The fitted model, its intervals, and what the rows cannot tell.

    Raises:
        ValueError: a missing column, an empty cell, a time that is not positive, or a model
            without a free number.

    >>> from jax.tree_util import Partial
    >>> table = pd.DataFrame({"op": "step", "devices": [1, 2, 4, 8], "time_s": [9.0, 5, 3, 2]})
    >>> def amdahl(devices, *, serial, work):
    ...     return serial + work / devices
    >>> law = Partial(amdahl, serial=2.0, work=5.0)
    >>> {name: round(value, 3) for name, value in fit(law, table).model.keywords.items()}
    {'serial': 1.0, 'work': 8.0}
    """
    arguments = _arguments(model)
    names = [COLUMN_OF[name] for name in arguments if name in COLUMN_OF]
    check_rows(table, ["time_s", *names])
    methods = table["method"] if "method" in table else pd.Series("single", index=table.index)
    chained = methods.map(operations)
    if "operations" not in arguments and bool((chained > 1).any()):
        raise ValueError(
            f"row {chained.index[chained > 1][0]} times a chain of several operations, and the "
            "model's call does not take `operations`; add the argument, or keep the rows "
            "whose method is 'single'"
        )
    columns = {name: table[COLUMN_OF[name]] for name in arguments if name in COLUMN_OF}
    if "operations" in arguments:
        columns["operations"] = chained
    return estimate(CallModel(arguments), free_parameters(model, fixed), table, columns)


def estimate(
    observe: Observe,
    parameters: Parameters,
    table: pd.DataFrame,
    columns: dict[str, Any],
    *,
    start: np.ndarray | None = None,
    notes: tuple[str, ...] = (),
    remedy: Remedy | None = None,
) -> Fit[Any]:
    """Fit what `observe` predicts to `table.time_s`: the one road that every fit takes.

    Args:
        observe: the seconds of each row under a model.
        parameters: the free numbers.
        table: the rows; `op` names their kind.
        columns: what `observe` takes.
        start: values to start from; the model's own unless given.
        notes: what was assumed.
        remedy: which measurement would tell a set of parameters apart.
    """
    kinds = {str(op): (table["op"] == op).to_numpy() for op in table["op"].unique()}
    cell = pd.DataFrame(columns).assign(op=table["op"].to_numpy())
    cells = cell.groupby(list(cell.columns), dropna=False, sort=False).ngroup().to_numpy()
    point = parameters.start()
    if start is not None:
        point = point._replace(u=np.log(start), coordinate=np.full(len(start), Coordinate.LOG))
    with jax.enable_x64(True):
        log_time = np.log(table["time_s"].to_numpy(np.float64))
        masks = jnp.asarray(np.array(list(kinds.values()), float))
        rows = Rows(prepare_columns(columns), jnp.asarray(log_time), masks)

        def measure(found: Solution) -> tuple[Covariance, tuple[KindNoise, ...]]:
            if not all(np.isfinite(np.asarray(array)).all() for array in found):
                return _blank(len(parameters.names)), ()
            return covariance(found, log_time, kinds, cells)

        found = solve(observe, parameters, rows, point)
        spread, noise = measure(found)
        while (loose := _loose(point, spread)).any():
            point = _straighten(point._replace(u=found.u), found, loose)
            found = solve(observe, parameters, rows, point)
            spread, noise = measure(found)
        point = point._replace(u=np.asarray(found.u))
        best, constrained = _constrain(observe, parameters, rows, point, found, spread)
        if best is not found:
            spread, noise = measure(best)
        values = np.asarray(values_of(constrained))
    failure = _failure(found, best, constrained, parameters.names, noise)
    return Fit(
        model=plain(parameters.model(values)),
        estimate=values,
        parameters=parameters,
        point=point,
        constrained=constrained,
        covariance=spread,
        noise=noise,
        observe=observe,
        columns=columns,
        rows=table.assign(predicted_s=np.exp(np.asarray(best.log_predicted))),
        unidentified=() if failure else _unidentified(point, spread, parameters, remedy),
        notes=notes,
        failure=failure,
    )


def check_rows(table: pd.DataFrame, names: list[str]) -> None:
    """Refuse rows that cannot be fitted, where they enter."""
    if table.empty:
        raise ValueError("the table has no rows; measure some with 'scaleopt probe'")
    for name in ["op", *names]:
        if name not in table:
            raise ValueError(f"the table has no column {name!r}, which the model needs; add it")
    for name in names:
        values = pd.to_numeric(table[name], errors="coerce").to_numpy(float)
        good = np.isfinite(values) & ((values > 0) if name == "time_s" else (values >= 0))
        if not good.all():
            row = table.index[~good][0]
            rule = "above 0" if name == "time_s" else "0 or more"
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
        if name in COLUMN_OF or name == "operations":
            names.append(name)
        elif name not in bound and parameter.default is parameter.empty:
            known = ", ".join([*COLUMN_OF, "operations"])
            raise ValueError(
                f"the model's call takes {name!r}, which is no column ({known}); bind it with "
                f"jax.tree_util.Partial(function, {name}=start)"
            )
    return tuple(names)


def _blank(free: int) -> Covariance:
    """The covariance of a search that ended nowhere."""
    return Covariance(np.full((free, free), np.inf), np.zeros((0, free)), np.ones(free), 1.0)


def _loose(point: Point, spread: Covariance) -> np.ndarray:
    """Parameters in log space that the rows see, but only faintly."""
    deviation = spread.deviation
    in_log = np.asarray(point.coordinate) == Coordinate.LOG
    return in_log & np.isfinite(deviation) & (deviation > _LOOSE)


def _straighten(point: Point, found: Solution, loose: np.ndarray) -> Point:
    """The same point with loose parameters in the coordinate in which time is linear."""
    values, jacobian = np.asarray(values_of(point)), np.asarray(found.jacobian)
    costs = jacobian.mean(axis=0) > 0
    # One unit of u then changes the rows about as one unit of a log does.
    length = np.linalg.norm(jacobian, axis=0) / np.sqrt(len(jacobian))
    u = np.where(loose, length, np.asarray(point.u))
    scale = np.where(costs, values / u, values * u)
    straight = np.where(costs, Coordinate.LINEAR, Coordinate.RECIPROCAL)
    return Point(
        u,
        np.where(loose, straight, point.coordinate),
        np.where(loose, scale, point.scale),
        np.asarray(point.frozen),
    )


def _constrain(
    observe: Observe,
    parameters: Parameters,
    rows: Rows,
    point: Point,
    found: Solution,
    spread: Covariance,
) -> tuple[Solution, Point]:
    """The best point among those that are possible: what came out below 0 is held at 0."""
    floor = np.zeros(len(parameters.names))
    reciprocal = np.asarray(point.coordinate) == Coordinate.RECIPROCAL
    # A rate without a limit is infinite, whose slope is not a number; it is held where it cannot
    # be told from one.
    floor[reciprocal] = 1e-3 * spread.deviation[reciprocal]
    signed = reciprocal | (np.asarray(point.coordinate) == Coordinate.LINEAR)
    for _ in range(_FREEZE_ROUNDS):
        below = signed & (np.asarray(point.u) < floor)
        if not below.any():
            break
        frozen = np.asarray(point.frozen) | below
        point = point._replace(u=np.where(below, floor, point.u), frozen=frozen)
        found = solve(observe, parameters, rows, point)
        point = point._replace(u=np.asarray(found.u))
    return found, point


def _failure(
    found: Solution, best: Solution, constrained: Point, names: tuple[str, ...], noise: Any
) -> str | None:
    """Why the search must not be believed, or None."""
    remedy = "give a start nearer to the truth, or fix a parameter that you know"
    if not noise or not np.all(np.isfinite(np.asarray(best.log_predicted))):
        return f"the model gives no positive, finite time near its start; {remedy}"
    pull = np.abs(np.asarray(best.gradient)) * ~np.asarray(constrained.frozen)
    if np.max(pull) > _SETTLED or not np.all(np.isfinite(np.asarray(found.u))):
        restless = names[int(np.argmax(pull))]
        return f"the search did not settle ({restless} still moves); {remedy}"
    return None


def _unidentified(
    point: Point, spread: Covariance, parameters: Parameters, remedy: Remedy | None
) -> tuple[str, ...]:
    """A sentence for each thing that the rows cannot tell."""
    names, sentences = parameters.names, []
    advise = remedy or (lambda _: "Add rows in which the other columns change.")
    for group in _joined(spread.blind):
        joined = [names[place] for place in group]
        if len(joined) == 1:
            text = f"{joined[0]} has no effect on these rows, so any value fits."
        else:
            listed = ", ".join(joined[:-1]) + f" and {joined[-1]}"
            text = f"{listed} cannot be told apart: they can change together and no time changes."
        sentences.append(f"{text} {advise(frozenset(joined))}")
    reach = spread.quantile(0.95) * spread.deviation
    for place, (u, kind) in enumerate(zip(point.u, point.coordinate, strict=True)):
        if spread.unseen[place] or u - reach[place] > 0:
            continue
        most = max(float(u), 0.0) + reach[place]
        unit, scale = parameters.units[place], float(point.scale[place])
        if kind == Coordinate.LINEAR:
            bound = f"consistent with 0, at most {format_si(scale * most, unit)}"
        elif kind == Coordinate.RECIPROCAL:
            bound = f"consistent with no limit, at least {format_si(scale / most, unit)}"
        else:
            continue
        sentences.append(f"{names[place]} is {bound} (95 %).")
    return tuple(sentences)


def _joined(blind: np.ndarray) -> list[list[int]]:
    """Parameters grouped by the blind directions that they share."""
    overlap = np.abs(blind.T @ blind) > 2.5e-3
    groups: list[list[int]] = []
    for place in np.flatnonzero(np.diag(overlap)):
        home = next((group for group in groups if overlap[place, group].any()), None)
        if home is None:
            groups.append([int(place)])
        else:
            home.append(int(place))
    return groups
