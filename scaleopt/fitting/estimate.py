"""The one road that every fit takes: solve, straighten what is loose, hold what is impossible.

A first search runs in log space. A parameter that the rows see only faintly is then solved again in
the coordinate in which time is linear, where it may turn negative: that point and its covariance
give honest intervals. The model itself is the best of those whose parameters are all possible.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from scaleopt.fitting.identify import Remedy, unidentified
from scaleopt.fitting.parameters import Coordinate, Parameters, Point, values_of
from scaleopt.fitting.prior import Prior, prior_of
from scaleopt.fitting.result import Fit, plain, prepare_columns
from scaleopt.fitting.scatter import KindNoise, Nests
from scaleopt.fitting.solve import Observe, Rows, Solution, solve
from scaleopt.fitting.uncertainty import Covariance, blank, covariance

_LOOSE = 0.25
"""The relative deviation from which a parameter leaves log space for where time is linear."""
_SETTLED = 0.05


def estimate(
    observe: Observe,
    parameters: Parameters,
    table: pd.DataFrame,
    columns: dict[str, Any],
    *,
    start: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    priors: Mapping[str, Prior] | None = None,
    notes: tuple[str, ...] = (),
    remedy: Remedy | None = None,
) -> Fit[Any]:
    """Fit what `observe` predicts to `table.time_s`: whatever the model.

    Args:
        observe: the seconds of each row under a model.
        parameters: the free numbers.
        table: the rows; `op` names their kind.
        columns: what `observe` takes.
        start: values to start from; the model's own unless given.
        weights: (rows,), how many rows like it each row is the mean of; 1 unless given.
        priors: what is known before of parameters by name.
        notes: what was assumed.
        remedy: which measurement would tell a set of parameters apart.
    """
    kinds = {str(op): (table["op"] == op).to_numpy() for op in table["op"].unique()}
    cell = pd.DataFrame(columns).assign(op=table["op"].to_numpy())
    cells = cell.groupby(list(cell.columns), dropna=False, sort=False).ngroup().to_numpy()
    rounds, runs = (
        np.asarray(table[name].fillna(-1) if name in table else np.zeros(len(table)))
        for name in ("round", "run")
    )
    nests = Nests(cells, rounds, runs)
    point = parameters.start()
    if start is not None:
        point = point._replace(u=np.log(start), coordinate=np.full(len(start), Coordinate.LOG))
    weight = np.ones(len(table)) if weights is None else weights
    prior_log, precision = prior_of(parameters.names, priors or {})
    with jax.enable_x64(True):
        log_time = np.log(table["time_s"].to_numpy(np.float64))
        masks = jnp.asarray(np.array(list(kinds.values()), float))
        rows = Rows(
            prepare_columns(columns),
            jnp.asarray(log_time),
            masks,
            *map(jnp.asarray, (weight, prior_log, precision)),
        )

        def measure(found: Solution) -> tuple[Covariance, tuple[KindNoise, ...]]:
            if not all(np.isfinite(np.asarray(array)).all() for array in found):
                return blank(len(parameters.names)), ()
            return covariance(found, log_time, kinds, nests)

        found = solve(observe, parameters, rows, point)
        spread, noise = measure(found)
        while (loose := _loose(point, spread) & (precision == 0)).any():
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
        unidentified=() if failure else unidentified(point, spread, parameters, remedy),
        notes=(*notes, *map(_prior_note, (priors or {}).items())),
        failure=failure,
    )


def _prior_note(given: tuple[str, Prior]) -> str:
    name, (value, factor) = given
    return f"{name} was given a prior: {value:.4g} within a factor of {factor:g} in 68 % of cases."


def _loose(point: Point, spread: Covariance) -> np.ndarray:
    """Parameters in logs or odds that the rows see, but only faintly."""
    deviation = spread.deviation
    curved = np.isin(point.coordinate, (Coordinate.LOG, Coordinate.ODDS))
    return curved & np.isfinite(deviation) & (deviation > _LOOSE)


def _straighten(point: Point, found: Solution, loose: np.ndarray) -> Point:
    """The same point with loose parameters in the coordinate in which time is linear."""
    values, jacobian = np.asarray(values_of(point)), np.asarray(found.jacobian)
    costs = jacobian.mean(axis=0) > 0
    # One unit of u then changes the rows about as one unit of a log does.
    length = np.linalg.norm(jacobian, axis=0) / np.sqrt(len(jacobian))
    fraction = np.asarray(point.coordinate) == Coordinate.ODDS
    u = np.where(loose, np.where(fraction, values, length), np.asarray(point.u))
    linear = costs | fraction
    straight = np.where(linear, Coordinate.LINEAR, Coordinate.RECIPROCAL)
    return Point(
        u,
        np.where(loose, straight, point.coordinate),
        np.where(loose, np.where(linear, values / u, values * u), point.scale),
        np.asarray(point.frozen),
        np.where(loose & fraction, 1.0, point.highest),
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
    ceiling = np.asarray(point.highest)
    for _ in parameters.names:
        u = np.asarray(point.u)
        outside = signed & ((u < floor) | (u > ceiling))
        if not outside.any():
            break
        frozen = np.asarray(point.frozen) | outside
        point = point._replace(u=np.where(signed, np.clip(u, floor, ceiling), u), frozen=frozen)
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
