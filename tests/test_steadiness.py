"""Drift and two modes are said where they were put in, and nowhere else."""

import numpy as np
import pandas as pd
import pytest
import simulated

import scaleopt as so
from scaleopt.data.steadiness import two_modes, unsteady
from scaleopt.show.remarks import remarks


def table(seed, *, drift=0.0, slow=0.0, slower=1.6, rounds=20, noise=0.05):
    """20 cells, two repeats a round; times drift over the rounds, and a share is of a slow mode."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(rounds):
        mood = random.normal(0, 0.02)
        for cell in range(20):
            for repeat in range(2):
                time = 1e-4 * 2.0**cell * (1 + drift) ** (number / (rounds - 1))
                time *= slower if random.random() < slow else 1.0
                time *= np.exp(mood + random.normal(0, noise))
                rows.append(("all_reduce", 2, 4.0 * 2**cell, number, repeat, time))
    columns = pd.Index(["op", "devices", "size_bytes", "round", "repeat", "time_s"])
    return pd.DataFrame(rows, columns=columns)


def test_a_steady_machine_is_not_accused():
    """A trend counts at one chance in 200, so a hundred quiet tables may well show one."""
    accused = [unsteady(table(seed)) for seed in range(100)]
    assert sum(map(bool, accused)) <= 3


def test_heavy_tails_are_not_two_modes():
    random = np.random.default_rng(5)
    found = [two_modes(0.1 * random.standard_t(3, 24)) for _ in range(400)]
    assert sum(modes is not None for modes in found) <= 8


@pytest.mark.parametrize(("drift", "word"), [(0.2, "rise by"), (-0.15, "fall by")])
def test_a_drift_is_said(drift, word):
    said = unsteady(table(1, drift=drift))
    assert len(said) == 1
    assert word in said[0]
    stated = float(said[0].split("by ")[1].split(" %")[0]) / 100
    assert stated == pytest.approx(abs(drift), abs=0.06)


def test_two_modes_are_said():
    said = unsteady(table(2, slow=0.4))
    assert len(said) == 1
    assert "two modes in" in said[0]
    assert "1.6 times apart" in said[0]


def test_one_wild_row_is_not_a_mode():
    assert unsteady(table(3, slow=0.03)) == []


def test_few_rows_say_nothing():
    assert unsteady(table(4, rounds=2)) == []
    assert unsteady(table(4).iloc[:0]) == []
    assert unsteady(table(4).drop(columns="round")) == []


def test_two_runs_that_differ_are_not_two_modes():
    """Each run of itself is steady; how much runs differ is for the fit to say."""
    ends = pd.concat([table(5), table(6)], ignore_index=True)
    ends = ends.assign(run=np.repeat([0, 1], len(ends) // 2))
    ends["time_s"] *= np.where(ends["run"] == 1, 1.6, 1.0)
    assert "two modes" in " ".join(unsteady(ends.drop(columns="run")))
    assert unsteady(ends) == []


def test_one_run_alone_does_not_know_how_runs_differ():
    rows = simulated.table(0)
    for run, said in ((0, True), (rows.index % 2, False)):
        found = so.calibrate(rows.assign(run=run))
        sentences = remarks(found, None, {})["What to be careful about:"]
        assert any("all rows are of one start" in sentence for sentence in sentences) == said
