"""Constants of a machine from the step times of training runs: rows of kind `train_step`.

A row says which transformer was trained, how it was split and how long a step took. Few runs do not
tell all the constants of a machine, so each has a weak prior, by the order of magnitude of devices
of its class: what no row tells stays there, and widens whatever hangs on it. What the constants
miss is carried over to rows alike (`train_step_likeness`).
"""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pandas as pd
from scipy import special

from scaleopt.fitting.fit import check_rows
from scaleopt.fitting.parameters import Parameters, free_parameters, values_of
from scaleopt.fitting.provenance import Provenance
from scaleopt.fitting.result import Fit, Prediction, check_level, plain
from scaleopt.fitting.scatter import KindNoise
from scaleopt.fitting.train_step_likeness import Misses, alike
from scaleopt.fitting.train_step_rows import NEEDED, training_columns
from scaleopt.fitting.train_step_solve import (
    PRIORS,
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
_ROWS_COUNTED = 20
"""With fewer rows their misses are too few to count, and Student's t gives the range."""


@dataclass(frozen=True, repr=False)
class TrainStepFit(Fit[Machine]):
    """A machine fitted to training steps; it predicts rows as they stand in a table."""

    misses: Misses

    @property
    def provenance(self) -> dict[str, Provenance]:
        """Where each constant is from; one that rests on its prior is assumed."""
        found = super().provenance
        for name in _resting(self.names, self.covariance.matrix):
            found[name] = "assumed"
        return found

    def predict(
        self, table: pd.DataFrame | None = None, *, level: float = 0.9, **columns: Any
    ) -> Prediction:
        """Seconds of training steps still to be measured.

        Args:
            table: rows with the columns of `train_step` rows.
            level: the share of measurements within the range.
            columns: the same as arrays, instead of a table.

        Returns:
            The time, nearer to the rows fitted than the machine alone is where they are alike, and
            its range: what is not known of the constants, and what such rows miss.

        Raises:
            ValueError: a row that lacks a column, or a split that does not fit its devices.
        """
        check_level(level)
        rows = training_columns(pd.DataFrame(columns) if table is None else table)
        log_time, slope = log_time_of(self.parameters, self.point, rows)
        expected, variance, slope = self.misses.carry(alike(rows), slope)
        variance = variance + np.einsum("ij,jk,ik->i", slope, self.covariance.matrix, slope)
        reach = self._reach(level) * np.sqrt(variance)
        time = np.exp(log_time + expected)
        return Prediction(time, time * np.exp(-reach), time * np.exp(reach))

    def _reach(self, level: float) -> float:
        """How many standard deviations a share `level` of rows stays within."""
        counted = np.sort(np.abs(self.misses.deviation))
        place = int(np.ceil(level * (len(counted) + 1))) - 1
        if len(counted) >= _ROWS_COUNTED and place < len(counted):
            return float(counted[place])
        return float(special.stdtrit(len(counted) + 1, 0.5 + level / 2))


def fit_train_steps(table: pd.DataFrame) -> TrainStepFit:
    """Fit a machine to rows of kind `train_step`.

    Args:
        table: rows with `time_s` and the columns of `NEEDED`; those of `DEFAULTS` and `nodes` where
            they differ from what is taken otherwise.

    Returns:
        The fit of a `Machine`, with `PRIORS` on its constants.

    Raises:
        ValueError: a missing column or cell, or a split that does not fit its devices.
    """
    check_rows(table, ["time_s", *NEEDED])
    columns = training_columns(table)
    start = Machine(**{name: prior.value for name, prior in PRIORS.items()}, node_size=8)
    parameters = free_parameters(start)
    found = solve_turns(parameters, columns, np.log(table["time_s"].to_numpy(float)))
    point = parameters.start()._replace(u=found.u)
    with jax.enable_x64(True):
        values = np.asarray(values_of(point))
    spread = Covariance(found.covariance, np.zeros((0, len(values))), np.ones(len(values)), 30.0)
    return TrainStepFit(
        model=plain(parameters.model(values)),
        estimate=values,
        parameters=parameters,
        point=point,
        constrained=point,
        covariance=spread,
        noise=(_noise(found),),
        observe=ObserveTrainStep.of(columns),
        columns=columns,
        rows=table.assign(predicted_s=table["time_s"] / np.exp(found.misses.miss)),
        unidentified=_untold(parameters, values, found.covariance),
        notes=("Every constant has a weak prior, assumed by the class of device.",),
        failure=None,
        misses=found.misses,
    )


def _noise(found: Solved) -> KindNoise:
    scales, miss = found.misses.scales, np.abs(found.misses.miss)
    return KindNoise(
        name="train_step",
        rows=len(miss),
        outliers=int(np.sum(found.say < 1e-3)),
        repeat_noise=float(scales[6]),
        misfit=float(np.hypot(scales[0], scales[2])),
        round_shift=0.0,
        deviations=np.sort(miss),
    )


def _untold(parameters: Parameters, values: np.ndarray, covariance: np.ndarray) -> tuple[str, ...]:
    """A sentence for each constant that rests on its prior."""
    resting = _resting(parameters.names, covariance)
    return tuple(
        f"{name} is hardly told by these rows: {format_si(value, unit)} rests on what is assumed "
        f"of such devices, within a factor of {PRIORS[name].factor:g}."
        for name, unit, value in zip(parameters.names, parameters.units, values, strict=True)
        if name in resting
    )


def _resting(names: tuple[str, ...], covariance: np.ndarray) -> list[str]:
    """The constants whose deviation the rows hardly bring below their prior's."""
    deviations = zip(names, np.sqrt(np.diag(covariance)), strict=True)
    return [name for name, it in deviations if it > _TOLD * np.log(PRIORS[name].factor)]
