"""Constants of a machine from the step times of training runs: rows of kind `train_step`.

A row says which transformer was trained, how it was split and how long a step took. Few runs do not
tell all the constants of a machine, so each has a weak prior, by the order of magnitude of devices
of its class: what no row tells stays there, and widens whatever hangs on it. What the constants
miss is carried over to rows alike (`train_step_likeness`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from scaleopt.fitting.fit import check_rows
from scaleopt.fitting.parameters import Parameters
from scaleopt.fitting.prediction import Prediction
from scaleopt.fitting.prior import Prior
from scaleopt.fitting.provenance import Provenance
from scaleopt.fitting.ranges import check_level
from scaleopt.fitting.result import Fit, plain
from scaleopt.fitting.scatter import KindNoise
from scaleopt.fitting.train_step_likeness import Misses, alike
from scaleopt.fitting.train_step_priors import PRIORS, Believed, believed
from scaleopt.fitting.train_step_probes import PROBED, probe_priors
from scaleopt.fitting.train_step_rows import NEEDED, asked_for, training_columns
from scaleopt.fitting.train_step_solve import (
    ObserveTrainStep,
    Solved,
    log_time_of,
    solve_turns,
)
from scaleopt.fitting.uncertainty import Covariance
from scaleopt.models.machine import Machine
from scaleopt.units import format_si

_TOLD = 0.7
"""A constant whose deviation the rows bring below this share of its prior's is told by them."""
_DEGREES = 30.0
"""Of Student's t for the constants: with priors on all of them, few rows leave as many as many."""
_IMPOSSIBLE = 8.0
"""Deviations of a prior: a device a hundred times as fast as its median is within them."""
_NOTES = ("Every constant has a weak prior, assumed by the class of device.",)
_LARGE = 4.0
"""Rows of a shape whose habit is larger than so many of the others' are counted as outliers."""
_RUNS = 4000
_ROWS_COUNTED = 20
"""With fewer rows the largest of their misses, or Student's t where it is more, gives the range."""


@dataclass(frozen=True, repr=False)
class TrainStepFit(Fit[Machine]):
    """A machine fitted to training steps; it predicts rows as they stand in a table."""

    misses: Misses
    resting: tuple[str, ...]
    """Constants that the rows hardly tell, and that rest on their priors."""

    @property
    def provenance(self) -> dict[str, Provenance]:
        """Where each constant is from; one that rests on its prior is assumed."""
        found = super().provenance
        for name in self.resting:
            found[name] = "assumed"
        return found

    def columns_from(self, table: pd.DataFrame) -> dict[str, np.ndarray]:
        """What the machine takes, from rows of training steps."""
        return training_columns(table)

    def predict(
        self, table: pd.DataFrame | None = None, *, level: float = 0.9, **columns: Any
    ) -> Prediction:
        """Seconds of training steps still to be measured.

        Args:
            table: rows with the columns of `train_step` rows.
            level: the share of measurements within the range.
            columns: the same as numbers or arrays, instead of a table.

        Returns:
            The time, nearer to the rows fitted than the machine alone is where they are alike, and
            its range: what is not known of the constants, and what such rows miss.

        Raises:
            ValueError: a row that lacks a column, or a split that does not fit its devices.
        """
        check_level(level)
        asked, shape = asked_for(table, columns)
        rows = training_columns(asked)
        if self.failure:
            zero = np.zeros(shape)
            return Prediction(zero + np.nan, zero, zero + np.inf)
        if not len(rows["devices"]):
            return Prediction(*(np.zeros(shape) for _ in Prediction._fields))
        log_time, slope = log_time_of(self.parameters, self.point, rows)
        expected, variance, slope = self.misses.carry(alike(rows), slope)
        variance = variance + np.einsum("ij,jk,ik->i", slope, self.covariance.matrix, slope)
        reach = self._reach(level) * np.sqrt(variance)
        time = np.exp(log_time + expected)
        ranges = time, time * np.exp(-reach), time * np.exp(reach)
        return Prediction(*(each.reshape(shape) for each in ranges))

    def correction(self, table: pd.DataFrame | None = None, **columns: Any) -> np.ndarray:
        """How many times slower than the machine alone says runs like these were measured to be.

        What `predict` gives is the machine's seconds times this; a hundred thousand rows take
        about a second.

        Args:
            table: rows with the columns of `train_step` rows.
            columns: the same as numbers or arrays, instead of a table.

        Returns:
            The factor of each row; 1 for what is unlike all that was measured.

        Raises:
            ValueError: a row that lacks a column, or a split that does not fit its devices.
        """
        asked, shape = asked_for(table, columns)
        rows = training_columns(asked)
        if self.failure:
            return np.full(shape, np.nan)
        return np.exp(self.misses.expected(alike(rows))).reshape(shape)

    def _reach(self, level: float) -> float:
        """How many standard deviations a share `level` of rows stays within."""
        counted = np.sort(np.abs(self.misses.deviation))
        place = int(np.ceil(level * (len(counted) + 1))) - 1
        if len(counted) >= _ROWS_COUNTED and place < len(counted):
            return float(counted[place])
        # Habits have heavy tails, of which few rows show little: at least the largest counts.
        largest = counted[min(place, len(counted) - 1)]
        return max(float(largest), float(special.stdtrit(len(counted) + 1, 0.5 + level / 2)))


def fit_train_steps(
    table: pd.DataFrame,
    *,
    fixed: Mapping[str, float] | None = None,
    priors: Mapping[str, Prior] | None = None,
) -> TrainStepFit:
    """Fit a machine to rows of kind `train_step`, and to what rows of a probe tell beforehand.

    Args:
        table: rows with `time_s` and the columns of `NEEDED`; those of `DEFAULTS` and `nodes` where
            they differ from what is taken otherwise. Rows of `PROBED` are used as `probe_priors`
            says, those of other kinds are left out.
        fixed: constants that are known, such as {"crowding": 0.0}.
        priors: what is known of others, instead of `PRIORS`.

    Returns:
        The fit of a `Machine`.

    Raises:
        ValueError: a missing column or cell, a split that does not fit its devices, more different
            runs than memory holds, or a constant that the machine does not have.
    """
    whole, known = table, dict(fixed or {})
    learnt, notes = {}, _NOTES
    if "op" in whole:
        table = whole[whole["op"] == "train_step"]
        learnt, told = probe_priors(whole, PRIORS)
        notes = (*notes, *told, *_unused(whole))
    learnt = {name: prior for name, prior in learnt.items() if name not in known}
    check_rows(table, ["time_s", *NEEDED])
    every = training_columns(table)
    run = pd.DataFrame(every).groupby(list(every), sort=False).ngroup().to_numpy()
    _, first, run, repeats = np.unique(
        run, return_index=True, return_inverse=True, return_counts=True
    )
    if len(first) > _RUNS:
        raise ValueError(
            f"{len(first)} different runs are more than the {_RUNS} that are fitted together; "
            "give a sample of them, such as table.sample(1000)"
        )
    columns = {name: column[first] for name, column in every.items()}
    log_time = np.bincount(run, np.log(table["time_s"].to_numpy(float))) / repeats
    belief = believed(columns["node_size"], known, learnt | dict(priors or {}))
    parameters, factor, _ = belief
    found = solve_turns(belief, columns, log_time, repeats.astype(float))
    point = parameters.start()._replace(u=found.u)
    values = point.values()
    free = len(values)
    spread = Covariance(found.covariance, np.zeros((0, free)), np.ones(free), _DEGREES)
    resting = np.sqrt(np.diag(found.covariance)) > _TOLD * np.log(factor)
    resting &= [name not in learnt for name in parameters.names]
    return TrainStepFit(
        model=plain(parameters.model(values)),
        estimate=values,
        parameters=parameters,
        point=point,
        constrained=point,
        covariance=spread,
        noise=(_noise(found, repeats),),
        observe=ObserveTrainStep.of(columns),
        columns=columns,
        table=table.copy(),
        predicted=np.exp(log_time - found.misses.miss)[run],
        unidentified=_untold(parameters, values, factor, resting),
        notes=notes,
        failure=_failure(belief, found.u),
        misses=found.misses,
        resting=tuple(np.array(parameters.names)[resting].tolist()),
    )


def _unused(table: pd.DataFrame) -> tuple[str, ...]:
    """A sentence on each kind of rows that tells nothing here."""
    others = table.loc[~table["op"].isin([*PROBED, "train_step"]), "op"].value_counts()
    return tuple(f"Rows of kind {op} ({count}) are not used." for op, count in others.items())


def _failure(belief: Believed, u: np.ndarray) -> str | None:
    """Why the numbers must not be used: no machine has such constants."""
    parameters = belief.parameters
    away = np.abs(belief.precision @ (u - np.asarray(parameters.start().u)))
    if not np.max(away) > _IMPOSSIBLE:
        return None
    name = parameters.names[int(np.argmax(away))]
    return (
        f"no machine is like these rows: {name} would have to be {np.max(away):.0f} deviations "
        "from what such devices have; check that time_s is in seconds and what each row says"
    )


def _noise(found: Solved, repeats: np.ndarray) -> KindNoise:
    scales, miss = found.misses.scales, np.abs(found.misses.miss)
    return KindNoise(
        name="train_step",
        rows=len(miss),
        outliers=int(np.sum(found.misses.where.size > _LARGE)),
        repeat_noise=float(scales[6]),
        misfit=float(np.hypot(scales[0], scales[2])),
        round_shift=0.0,
        deviations=np.sort(miss),
        repeated=bool((repeats > 1).any()),
    )


def _untold(
    parameters: Parameters, values: np.ndarray, factor: np.ndarray, resting: np.ndarray
) -> tuple[str, ...]:
    """A sentence for each constant that rests on its prior."""
    constants = zip(parameters.names, parameters.units, values, factor, strict=True)
    return tuple(
        f"{name} is hardly told by these rows: {format_si(value, unit)} rests on what is assumed "
        f"of such devices, within a factor of {within:.3g}."
        for (name, unit, value, within), rests in zip(constants, resting, strict=True)
        if rests
    )
