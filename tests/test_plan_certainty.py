"""How sure a plan on a fit is: against whole plans on the machines that are drawn."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from simulated_machine import MACHINE, training_runs

import scaleopt as so
from scaleopt.fitting.propagate import drawn_points
from scaleopt.models.transformer import Transformer
from scaleopt.models.zero import zero_terms
from scaleopt.planning.certainty import certainty
from scaleopt.planning.plan import plan
from scaleopt.units import GB, hour

TRUTH = replace(MACHINE, micro_batch_overhead=1e-3)
GPT = Transformer(hidden=2048, layers=24, heads=16, seq_len=1024, vocab=51200)
RUN: dict[str, Any] = {
    "devices": 32,
    "global_batch": 256,
    "memory": 40 * GB,
    "price": 2 / hour,
    "tokens": 1e10,
}


@pytest.fixture(scope="module")
def fit():
    return so.calibrate(training_runs(TRUTH))


@pytest.fixture(scope="module")
def found(fit):
    return plan(GPT, fit, deadline=48 * hour, **RUN)


_seconds = jax.jit(lambda *run: zero_terms(*run).total)


def seconds_on(machine, best):
    """Of a step on a machine, as the models say."""
    with jax.enable_x64(True):
        split = jax.tree.map(float, best.split)
        return float(_seconds(machine, jax.tree.map(float, GPT), split, float(best.zero)))


def test_the_choice_is_near_the_true_best(found):
    truly = plan(GPT, TRUTH, deadline=48 * hour, **RUN)
    assert found.best is not None
    assert truly.best is not None
    truth = seconds_on(TRUTH, found.best)
    assert truth / truly.best.step_time - 1 < 0.05
    assert found.certainty is not None
    low, high = found.certainty.time
    assert low < found.best.time < high
    assert low < truth * found.best.steps < high


def test_odds_are_odds(found):
    sure = found.certainty
    assert sure is not None
    odds = [candidate.probability for candidate in sure.candidates]
    assert odds == sorted(odds, reverse=True)
    assert 0 < sum(odds) <= 1 + 1e-9
    assert 0 <= sure.best <= max(odds)
    assert sure.regret >= 0
    assert 0 <= sure.kept["deadline"] <= 1
    assert "How sure:" in found.explain()


def test_the_list_holds_what_a_whole_plan_finds_on_drawn_machines(fit, found):
    """Regret and odds come from the best layouts by the fit; here nothing is left out."""
    draws = 5
    sure = certainty(fit, found.searched[0], found.best, draws=draws, level=0.9)
    with jax.enable_x64(True):
        points = drawn_points(fit, draws)
        values = [np.asarray(points._replace(u=u).values()) for u in np.asarray(points.u)]
    regrets = []
    for drawn in values:
        machine = jax.tree.map(float, fit.parameters.model(drawn))
        whole = plan(GPT, machine, **RUN)
        assert whole.best is not None
        regrets.append(seconds_on(machine, found.best) / whole.best.step_time - 1)
    assert min(regrets) > -1e-9
    assert sure.regret == pytest.approx(np.mean(regrets), abs=1e-4)


def test_where_it_leaves_what_was_measured_is_said(found):
    text = found.explain()
    assert "Beyond what was measured:" in text
    assert "devices 32: at most 16 in the rows fitted" in text


def test_a_mixture_on_a_fit_of_dense_runs_has_a_range_about_its_own_time(fit):
    mixture = Transformer(
        hidden=2048,
        layers=24,
        heads=16,
        seq_len=1024,
        vocab=51200,
        experts=4,
        active_experts=2,
    )
    found = plan(mixture, fit, **RUN)
    assert found.best is not None
    assert found.certainty is not None
    low, high = found.certainty.time
    assert low < found.best.time < high
    assert sum(candidate.probability for candidate in found.certainty.candidates) > 0.9
    assert "a mixture of experts: rows fitted are of dense models" in found.explain()
