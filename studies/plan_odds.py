"""Are the odds right that a plan gives its own choice?

Command: python studies/plan_odds.py   (--quick: one draw of fifty runs instead of six, no figure)

Fifty of vTrain's runs inside a node are fitted, drawn as for `training_published`. For each job (a
model, batch and number of devices) of which several splits were measured, the split that is
predicted to be the fastest is chosen among them, with the odds and the expected loss that a plan
would state: from machines drawn from the fit, and from what runs are drawn to take beyond them. The
measured times tell whether it was the fastest, and what it lost. Then the run that a plan would
have tried first is made known, and the choice is made anew. The same is asked of the machine alone,
as if its model were the truth but for its constants. Needs the tables: SCALEOPT_DATA names their
folder.

Finding: over 125 jobs and six draws of the fifty runs the choice is the fastest in 92 % of the
jobs, and its odds say 94 %; it loses 0.57 % on average where 0.18 % is expected, since a few runs
are out of line with all others by far more than is drawn. One run tried first brings the loss to
0.26 %. By the machine alone, as if its model were true, the choice is the fastest in 83 % while its
odds say 98 %, and it loses 2.4 %, or 2.1 % after a trial.
"""

import sys
from collections.abc import Callable
from functools import partial

import jax
import numpy as np
import pandas as pd
import training_runs as runs
from frame import BLUE, GREY, ORANGE, panels, present
from matplotlib.figure import Figure
from training_published import JOB, split

import scaleopt as so
from scaleopt.fitting.propagate import drawn_points
from scaleopt.fitting.train_step import TrainStepFit
from scaleopt.fitting.train_step_likeness import alike
from scaleopt.fitting.train_step_rows import training_columns
from scaleopt.fitting.train_step_solve import log_time_of
from scaleopt.planning.odds.trial import expected_after, first_trial

FEW, DRAWS = 50, 256
BINS = (0.0, 0.6, 0.8, 0.9, 0.97, 1.0)
WAYS = {"machine and likeness": True, "machine alone": False}


def jobs(seed: int) -> pd.DataFrame:
    """A row for each job and way: odds and loss as stated, and as measured."""
    every = runs.vtrain_node().reset_index(drop=True)
    few, _ = split(every, FEW, smaller=False, seed=seed)
    fit = so.calibrate(few)
    assert isinstance(fit, TrainStepFit)
    drawn = {way: _drawn(fit, every, likeness) for way, likeness in WAYS.items()}
    beyond = fit.correction(every)
    predicted = fit.predict(every).time
    predicted = dict(zip(WAYS, (predicted, predicted / beyond), strict=True))
    rows = []
    for _, group in every.groupby(list(JOB)):
        if len(group) == 1:
            continue
        place, measured = group.index.to_numpy(), group["time_s"].to_numpy()
        for way, seconds in drawn.items():
            here, ours = seconds(place), int(np.argmin(predicted[way][place]))
            rows.append(
                {
                    "way": way,
                    "odds": np.mean(here.argmin(axis=1) == ours),
                    "expected loss": np.mean(here[:, ours] / here.min(axis=1) - 1),
                    "fastest": float(measured.argmin() == ours),
                    "loss": measured[ours] / measured.min() - 1,
                    **_after_trial(np.log(here), measured),
                }
            )
    return pd.DataFrame(rows).assign(seed=seed)


def _after_trial(log_time: np.ndarray, measured: np.ndarray) -> dict[str, float]:
    """What a trial is expected to gain, and what the choice made after it loses."""
    trial = first_trial(log_time)
    known = np.log(measured[trial.place])
    ours = int(expected_after(log_time, trial.place, known).argmin())
    return {"expected gain": trial.gain, "loss after": measured[ours] / measured.min() - 1}


def _drawn(
    fit: TrainStepFit, rows: pd.DataFrame, likeness: bool
) -> Callable[[np.ndarray], np.ndarray]:
    """A function of the places of some rows that gives their seconds, (draws, rows)."""
    columns = training_columns(rows)
    log_time, slope = log_time_of(fit.parameters, fit.point, columns)
    with jax.enable_x64(True):
        points = drawn_points(fit, DRAWS)
    change = np.asarray(points.u) - np.asarray(fit.point.u)

    def seconds(place: np.ndarray) -> np.ndarray:
        machine = log_time[place] + change @ slope[place].T
        if not likeness:
            return np.exp(machine)
        # A stream of its own for each job, and not that of the machines.
        random = np.random.default_rng([1, int(place[0])])
        where = alike({name: column[place] for name, column in columns.items()})
        return np.exp(machine + fit.misses.drawn(where, change, random))

    return seconds


def numbers(found: pd.DataFrame) -> pd.DataFrame:
    """By way, over all jobs and draws: what was stated and what was so."""
    shown = ["odds", "fastest", "expected loss", "loss", "expected gain", "loss after"]
    means = found.groupby("way", sort=False)[shown].mean()
    return 100 * means.assign(jobs=found.groupby("way").size() / 100)


def draw(found: pd.DataFrame) -> Figure:
    """How often a choice was the fastest, by the odds that it was given."""
    figure, (axes,) = panels(width=6.0, height=5.0)
    axes.plot([0, 1], [0, 1], color=GREY, lw=0.8)
    for (way, rows), color in zip(found.groupby("way", sort=False), (BLUE, ORANGE), strict=True):
        binned = rows.groupby(pd.cut(rows["odds"], BINS, include_lowest=True), observed=True)
        share, count = binned["fastest"].mean(), binned.size()
        axes.errorbar(
            binned["odds"].mean(),
            share,
            yerr=1.645 * np.sqrt(share * (1 - share) / count),
            fmt="o",
            color=color,
            label=way,
        )
    axes.set(xlabel="odds stated", ylabel="share that was the fastest")
    axes.set(xlim=(0, 1.03), ylim=(0, 1.03))
    axes.legend(frameon=False)
    return figure


if __name__ == "__main__":
    told = pd.concat([jobs(seed) for seed in range(1 if "--quick" in sys.argv else 6)])
    present(__doc__, "plan_odds", numbers(told), partial(draw, told))
