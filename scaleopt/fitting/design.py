"""Which measurement to take next: the one that sharpens the answer most for its device-seconds.

A fit carries the information I of its rows, and the answer f has the variance V = gᵀ I⁻¹ g with g
its slope in the parameters. A row of a kind whose noise is σ, and that the parameters move by j,
adds j jᵀ/σ². Its worth is how much of log V it takes away, for each second of each device it takes:

worth = log(V before / V after) / (N T)

Where the model misses whole cells by m, n repeats of a cell tell no more than 1/(m² + σ²/n), so
that a cell not measured yet is worth more than one more repeat. A batch is chosen one after
another, each with the information that those before it will bring.

Source: V. V. Fedorov, "Theory of Optimal Experiments", 1972, chapter 2 (designs that are optimal
for one linear function), sequential and by cost.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from scaleopt.fitting.parameters import Coordinate, Point
from scaleopt.fitting.propagate import value_and_slope
from scaleopt.fitting.result import Fit
from scaleopt.fitting.seconds import log_time_and_slope

_UNKNOWN = 10.0
"""Standard deviation of the log of what no row sees: a factor of some twenty thousand."""
_SHARPEST = 1e-6


def next_measurement(
    fit: Fit[Any],
    candidates: pd.DataFrame,
    *,
    target: Callable[[Any], Any],
    count: int = 1,
) -> pd.DataFrame:
    """The measurements that most reduce the variance of a target for their device-seconds.

    Args:
        fit: what is known so far.
        candidates: rows that could be measured: the columns of a table of measurements that the
            fit's model takes, and `op`. A column `cost_s` [device-seconds] says what a row costs;
            without it the cost is N times the predicted time.
        target: takes a model like `fit.model` and returns one number: N*, T(1024), a cost; must be
            traceable by JAX.
        count: how many to choose; a candidate may be chosen several times.

    Returns:
        The chosen rows in their order, with `predicted_s` [s], `cost_s` [device-seconds], and the
        standard deviation of the target before (`deviation_before`) and after (`deviation`) the row
        is measured with those above it.

    Raises:
        ValueError: no candidates, a column that they lack, a fit that failed, a target that is not
            one finite number or that depends on no parameter.

    >>> from jax.tree_util import Partial
    >>> from scaleopt.fitting.fit import fit
    >>> def amdahl(devices, *, serial, work):
    ...     return serial + work / devices
    >>> table = pd.DataFrame({"op": "step", "devices": [1, 1, 2, 2], "time_s": [9.1, 9, 5.2, 5]})
    >>> found = fit(Partial(amdahl, serial=2.0, work=5.0), table)
    >>> could = pd.DataFrame({"op": "step", "devices": [1, 2, 8]})
    >>> limit = next_measurement(found, could, target=lambda law: law.keywords["serial"])
    >>> int(limit["devices"].iloc[0])
    8

    Source: the module's.
    """
    if candidates.empty:
        raise ValueError("there are no candidates; give a table of rows that could be measured")
    if count < 1:
        raise ValueError(f"count={count}; choose at least 1 measurement")
    if fit.failure:
        raise ValueError(f"the fit failed, so nothing follows from it: {fit.failure}")
    rows = candidates if "op" in candidates else candidates.assign(op=fit.noise[0].name)
    point = _inside(fit)
    slope = _target_slope(fit, target, point)
    log_time, jacobian = log_time_and_slope(
        fit.observe, fit.parameters, point, fit.columns_from(rows)
    )
    seconds = np.exp(log_time)
    # A row for which the model has no time can be measured, but nobody can say what it would tell.
    foreseen = np.isfinite(seconds) & np.isfinite(jacobian).all(axis=1)
    if not foreseen.any():
        raise ValueError("the model gives no finite time for any candidate; give others")
    cost = _cost(rows, seconds, foreseen)
    chosen, deviations = _greedy(
        fit, rows, slope, np.where(foreseen[:, None], jacobian, 0.0), cost, count
    )
    return candidates.iloc[chosen].assign(
        predicted_s=seconds[chosen],
        cost_s=cost[chosen],
        deviation_before=deviations[:-1],
        deviation=deviations[1:],
    )


def _target_slope(fit: Fit[Any], target: Callable[[Any], Any], point: Point) -> np.ndarray:
    """The target's slope in each u, checked."""
    value, slope = value_and_slope(target, fit.parameters, point)
    if value.shape != () or not np.isfinite(value) or not np.isfinite(slope).all():
        raise ValueError(
            f"the target is {value} with slopes {slope}; it must be one finite number where every "
            "parameter that may be 0 is at the edge of its range, such as N* or its inverse"
        )
    if not slope.any():
        raise ValueError(
            "the target depends on no parameter of the fit, so no measurement sharpens it; name "
            "another (the best N of a machine where no split pays is 1 whatever is measured)"
        )
    return slope


def _cost(rows: pd.DataFrame, seconds: np.ndarray, foreseen: np.ndarray) -> np.ndarray:
    """Device-seconds of each candidate; infinite for one that cannot be foreseen."""
    devices = rows["devices"].to_numpy(float) if "devices" in rows else np.ones(len(rows))
    cost = rows["cost_s"].to_numpy(float) if "cost_s" in rows else devices * seconds
    if not np.all(cost[foreseen] > 0):
        least = cost[foreseen].min()
        raise ValueError(f"cost_s is {least}; each candidate costs more than 0 device-seconds")
    return np.where(foreseen, cost, np.inf)


def _greedy(
    fit: Fit[Any],
    rows: pd.DataFrame,
    slope: np.ndarray,
    jacobian: np.ndarray,
    cost: np.ndarray,
    count: int,
) -> tuple[list[int], list[float]]:
    """The best candidates one after another, and the target's deviation before and after each."""
    cells, spread = _Cells(fit, rows), _wide_covariance(fit)
    chosen, deviations = [], [float(np.sqrt(slope @ spread @ slope))]
    for _ in range(count):
        gain = cells.gain()
        seen = jacobian @ spread
        taken = gain * (seen @ slope) ** 2 / (1 + gain * np.sum(seen * jacobian, axis=1))
        variance = float(slope @ spread @ slope)
        left = np.maximum(1 - taken / variance, np.finfo(float).eps)
        best = int(np.argmax(np.where(np.isfinite(cost), -np.log(left) / cost, -np.inf)))
        # A reduction of rank one, in the form that keeps the matrix positive.
        share = gain[best] / (1 + gain[best] * float(seen[best] @ jacobian[best]))
        spread = spread - share * np.outer(seen[best], seen[best])
        cells.measure(best)
        chosen.append(best)
        deviations.append(float(np.sqrt(max(slope @ spread @ slope, 0.0))))
    return chosen, deviations


class _Cells:
    """How often each candidate's cell is measured, and what one more repeat of it would tell."""

    def __init__(self, fit: Fit[Any], rows: pd.DataFrame) -> None:
        noise = {kind.name: kind for kind in fit.noise}
        noisiest = max(fit.noise, key=lambda kind: kind.repeat_noise)
        kinds = [noise.get(str(op), noisiest) for op in rows["op"]]
        self._repeat = np.array([max(kind.repeat_noise, _SHARPEST) ** 2 for kind in kinds])
        self._misfit = np.array([kind.misfit**2 for kind in kinds])
        keys = [name for name in fit.columns if name != "op"]
        both = pd.concat(
            [
                pd.DataFrame(fit.columns_from(table))[keys].assign(op=table["op"].to_numpy(str))
                for table in (fit.rows, rows)
            ]
        )
        cell = both.groupby([*keys, "op"], dropna=False, sort=False).ngroup().to_numpy()
        self._cell = cell[len(fit.rows) :]
        self._times = np.bincount(cell[: len(fit.rows)], minlength=cell.max() + 1)

    def gain(self) -> np.ndarray:
        """The information of one more repeat of each candidate."""
        times = self._times[self._cell]
        before = times / (times * self._misfit + self._repeat)
        return (times + 1) / ((times + 1) * self._misfit + self._repeat) - before

    def measure(self, candidate: int) -> None:
        """Count a candidate as measured once more."""
        self._times[self._cell[candidate]] += 1


def _inside(fit: Fit[Any]) -> Point:
    """The fit's point, with what may be 0 at least one deviation from it.

    At 0 itself N* is infinite and its slope no number, though a little more latency, as the rows
    allow, makes it finite.
    """
    point = fit.constrained
    u, deviation = np.asarray(point.u), fit.covariance.deviation
    signed = np.isin(point.coordinate, (Coordinate.LINEAR, Coordinate.RECIPROCAL))
    edge = np.where(np.isfinite(deviation), deviation, 0.0)
    highest = np.asarray(point.highest)
    lifted = np.where(signed, np.minimum(np.maximum(u, np.minimum(edge, highest / 2)), highest), u)
    return point._replace(u=lifted, frozen=np.zeros(len(u), bool))


def _wide_covariance(fit: Fit[Any]) -> np.ndarray:
    """The fit's covariance, wide but finite along what no row sees."""
    covariance = fit.covariance
    directions = covariance.blind / covariance.norm
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    directions = directions / np.where(lengths > 0, lengths, 1.0)
    return covariance.matrix + _UNKNOWN**2 * directions.T @ directions
