"""From a model, its parameters and rows to a `Fit`, whatever the model."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from scaleopt.fitting.columns import kinds_of
from scaleopt.fitting.identify import Remedy, unidentified
from scaleopt.fitting.loss import Loss
from scaleopt.fitting.parameters import Coordinate, Parameters, Point
from scaleopt.fitting.prior import Prior, prior_of
from scaleopt.fitting.result import Fit, plain
from scaleopt.fitting.rows import Observe, Rows, Tables
from scaleopt.fitting.scatter import Independence, KindNoise, Nests, kind_noise, numbered
from scaleopt.fitting.search import Found, Problem, search
from scaleopt.fitting.seconds import RowSeconds, prepare_columns

MOST_ROWS = 2_000_000
"""A model of two parameters takes about a gigabyte to fit to so many."""


def estimate(
    observe: Observe,
    parameters: Parameters,
    table: pd.DataFrame,
    columns: dict[str, Any],
    *,
    measured: np.ndarray | None = None,
    start: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    priors: Mapping[str, Prior] | None = None,
    loss: Loss | None = None,
    cluster: np.ndarray | None = None,
    notes: tuple[str, ...] = (),
    remedy: Remedy | None = None,
) -> Fit[Any]:
    """Fit what `observe` predicts to what was measured: whatever the model.

    Args:
        observe: the seconds of each row under a model.
        parameters: the free numbers.
        table: the rows; `op` names their kind.
        columns: what `observe` takes.
        measured: (rows,), what is predicted; `time_s` of the table unless given.
        start: values to start from; the model's own unless given.
        weights: (rows,), how many rows like it each row is the mean of; 1 unless given.
        priors: what is known before of parameters by name.
        loss: how misses count; Tukey's loss of logs unless given.
        cluster: (rows,), whole numbers from 0: rows that hang together.
        notes: what was assumed.
        remedy: which measurement would tell a set of parameters apart.

    Raises:
        ValueError: more than `MOST_ROWS` rows, or a prior that is none.
    """
    if len(table) > MOST_ROWS:
        raise ValueError(
            f"{len(table)} rows are more than the memory of a fit is kept for; "
            f"table.sample({MOST_ROWS}) tells as much"
        )
    loss = loss or Loss()
    point = parameters.start()
    if start is not None:
        point = point._replace(u=np.log(start), coordinate=np.full(len(start), Coordinate.LOG))
    values = table["time_s"].to_numpy(np.float64) if measured is None else measured
    problem = problem_of(
        observe, parameters, table, columns, values, weights, priors or {}, loss, cluster
    )
    found = search(problem, Point(*(np.asarray(each)[None] for each in point)))
    noise = _noise(problem, found)
    failure = failure_of(found, parameters.names)[0]
    spread, point, constrained = (
        found.spread.of(0),
        *(Point(*(np.asarray(each)[0] for each in points)) for points in found[:2]),
    )
    predicted = found.best.predicted[0]
    return Fit(
        model=plain(parameters.model(found.theta[0])),
        estimate=found.theta[0],
        parameters=parameters,
        point=point,
        constrained=constrained,
        covariance=spread,
        noise=noise,
        observe=observe,
        columns=columns,
        table=table.copy(),
        predicted=np.exp(predicted) if loss.relative else predicted,
        problem=problem,
        unidentified=() if failure else unidentified(point, spread, parameters, remedy),
        notes=(*notes, *map(_prior_note, (priors or {}).items())),
        failure=failure,
    )


def problem_of(
    observe: Observe,
    parameters: Parameters,
    table: pd.DataFrame,
    columns: dict[str, Any],
    measured: np.ndarray,
    weights: np.ndarray | None,
    priors: Mapping[str, Prior],
    loss: Loss,
    cluster: np.ndarray | None,
) -> Problem:
    """The rows as the solver takes them."""
    codes, names = pd.factorize(kinds_of(table))
    kinds = {str(name): codes == code for code, name in enumerate(names)}
    rows = Rows(
        kind=np.array(list(kinds.values()), float),
        weight=np.ones(len(table)) if weights is None else weights,
        prior=prior_of(parameters.names, priors),
    )
    target = np.log(measured) if loss.relative else measured
    tables = Tables(target[None], np.ones((1, len(table))))
    nests = _nests(table, codes, columns, loss)
    seconds = RowSeconds(observe, parameters, prepare_columns(columns))
    return Problem(seconds, loss, rows, tables, kinds, nests, cluster)


def failure_of(found: Found, names: tuple[str, ...]) -> list[str | None]:
    """For each table why the search must not be believed, or None."""
    remedy = "give a start nearer to the truth, or fix a parameter that you know"
    lost = np.any(~np.isfinite(found.best.predicted), axis=-1).tolist()
    return [
        f"the model gives no positive, finite time near its start; {remedy}"
        if no_time
        else f"the search did not settle ({names[moving]} still moves); {remedy}"
        if moving >= 0
        else None
        for no_time, moving in zip(lost, found.restless, strict=True)
    ]


def _nests(table: pd.DataFrame, kind: np.ndarray, columns: dict[str, Any], loss: Loss) -> Nests:
    """Which rows are repeats of one another; plain squares take every row as independent."""
    alone = np.zeros(len(table), int)
    if not loss.robust:
        return Nests(np.arange(len(table)), alone, alone)
    cell = kind
    for name, values in columns.items():
        code = alone if name == "op" else pd.factorize(np.asarray(values), use_na_sentinel=False)[0]
        if not cell.any():
            cell = code
        elif code.any():
            cell = pd.factorize(cell * (code.max() + 1) + code)[0]
    rounds, runs = (
        numbered(np.asarray(table[name].fillna(-1))) if name in table else alone
        for name in ("round", "run")
    )
    return Nests(cell, rounds, runs)


def _prior_note(given: tuple[str, Prior]) -> str:
    name, (value, factor) = given
    return f"{name} was given a prior: {value:.4g} within a factor of {factor:g} in 68 % of cases."


def _noise(problem: Problem, found: Found) -> tuple[KindNoise, ...]:
    """The scatter of each kind, in units of a row of weight 1."""
    best = found.best
    root_weight = np.sqrt(np.asarray(problem.rows.weight))
    miss = root_weight * (problem.tables.measured[0] - best.predicted[0])
    if not np.isfinite(miss).all():
        return ()
    return tuple(
        kind_noise(
            name,
            miss[mask],
            best.influence[0][mask],
            float(best.scale[0][place]),
            problem.nests.of(mask),
            Independence(*(each[0] for each in found.independence[name])),
        )
        for place, (name, mask) in enumerate(problem.kinds.items())
    )
