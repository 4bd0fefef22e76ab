"""How sure a plan on a fit is: against whole plans on the machines that are drawn."""

import json
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from simulated_machine import MACHINE, training_runs, without_habits

import scaleopt as so
from scaleopt.fitting.propagate import drawn_points
from scaleopt.fitting.train_step_likeness import alike
from scaleopt.fitting.train_step_rows import training_columns
from scaleopt.models.transformer import Transformer
from scaleopt.models.zero import zero_terms
from scaleopt.planning.odds.certainty import certainty
from scaleopt.planning.odds.drawn_layouts import _SEED
from scaleopt.planning.odds.drawn_offer import drawn_offer
from scaleopt.planning.odds.trial import first_trial
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
def habitual():
    """Of a machine on which two devices share a layer badly."""
    runs = training_runs(TRUTH, 40)
    return so.calibrate(runs.assign(time_s=runs["time_s"] * np.where(runs["tensor"] == 2, 1.3, 1)))


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
    assert truth / truly.best.step_time - 1 < 0.05  # rows scatter by 3 %, and thirty tell of it
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


def test_the_list_holds_what_a_whole_plan_finds_on_drawn_machines(fit):
    """Regret and odds come from the best layouts by the fit; here nothing is left out.

    Without what runs alike took, which a machine does not know.
    """
    draws, fit = 5, without_habits(fit)
    found = plan(GPT, fit, **RUN)
    assert found.best is not None
    sure = certainty(found.searched, found.best, draws=draws, level=0.9)
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
    # What the list leaves out is worth less than a tenth of a percent of the five chosen.
    assert sure.regret == pytest.approx(np.mean(regrets), abs=1e-4)


def test_a_program_is_told_what_a_person_is(found):
    told = json.loads(json.dumps(found.record(), allow_nan=False))
    assert told["best"] == found.best.row()
    assert told["explanation"] == found.explain()
    assert told["provenance"] == found.provenance
    saved = told["a_tenth_better_saves"]
    assert max(saved, key=saved.get) == "rate"
    sure = told["certainty"]
    assert sure["time_s"] == list(found.certainty.time)
    assert sure["try_first"] == found.certainty.trial.row()


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
    assert 0 < found.certainty.best <= 1
    assert "a mixture of experts: rows fitted are of dense models" in found.explain()


def rows_of(found):
    """Configurations as rows of training steps."""
    sizes = {name: getattr(GPT, name) for name in ("hidden", "layers", "heads", "seq_len", "vocab")}
    return pd.DataFrame([it.row() for it in found]).assign(**sizes)


def test_a_plan_takes_what_the_fit_predicts(habitual):
    found = plan(GPT, habitual, **RUN)
    ranked = found.ranked(50)
    took = np.array([it.step_time for it in ranked])
    np.testing.assert_allclose(took, habitual.predict(rows_of(ranked)).time, rtol=1e-9)
    terms, _ = found.searched[0].breakdown(ranked[0])
    assert sum(terms.values()) == pytest.approx(ranked[0].step_time)
    by_machine = sum(part for name, part in terms.items() if name != "beyond the model")
    assert by_machine == pytest.approx(seconds_on(habitual.model, ranked[0]), rel=1e-9)


def test_every_configuration_is_corrected_by_its_own_likeness(habitual):
    """With options tried in turns, and on one node and several; the fit's own function tells."""
    small: dict[str, Any] = RUN | {"devices": [4, 16], "global_batch": 16}
    told, machine = plan(GPT, habitual, **small), plan(GPT, habitual.model, **small)
    side = told.searched[0]
    factors = []
    for mine, plain in zip(side.scores(), machine.searched[0].scores(), strict=True):
        held = np.isfinite(mine.held)  # the others say nothing new
        layout, option = np.nonzero(held)
        configured = [
            side.configured(mine.rows[:, at], int(which), 1.0, 1.0)
            for at, which in zip(layout, option, strict=True)
        ]
        factor = (mine.seconds / plain.seconds)[held]
        np.testing.assert_allclose(factor, habitual.correction(rows_of(configured)), rtol=1e-9)
        factors.append(factor)
    assert np.ptp(np.concatenate(factors)) > 0.1


def test_what_is_drawn_beyond_the_machine_has_the_mean_and_the_width_of_the_prediction(habitual):
    misses, draws = habitual.misses, 4000
    rows = alike(training_columns(rows_of(plan(GPT, habitual, **RUN).ranked(5))))
    constants = misses.slope.shape[1]
    mean, variance, slope = misses.carry(rows, np.zeros((5, constants)))
    truly = variance - misses.scales[6] ** 2  # a measurement's own noise is none of the run's
    still = np.zeros((draws, constants))
    drawn = misses.drawn(rows, still, np.random.default_rng(1))
    # Four standard errors of a mean and of a variance of so many draws.
    np.testing.assert_array_less(np.abs(drawn.mean(0) - mean), 4 * np.sqrt(truly / draws))
    np.testing.assert_allclose(drawn.var(0), truly, rtol=4 * np.sqrt(2 / draws))
    moved = misses.drawn(rows, still + 0.01, np.random.default_rng(1)) - drawn
    np.testing.assert_allclose(moved, 0.01 * slope.sum(1) * np.ones((draws, 1)), atol=1e-12)


def test_of_a_mixture_rows_of_dense_models_tell_nothing(habitual):
    mixture = replace(GPT, experts=4, active_experts=2)
    by_fit, by_machine = (plan(mixture, it, **RUN) for it in (habitual, habitual.model))
    assert by_fit.best is not None
    assert by_machine.best is not None
    assert by_fit.best.step_time == pytest.approx(by_machine.best.step_time, rel=1e-12)


def test_what_to_try_first_is_one_of_the_candidates_and_saves_less_than_is_lost(habitual):
    found = plan(GPT, habitual, **RUN)
    sure = found.certainty
    assert sure is not None
    assert sure.trial is not None
    assert 0 < sure.gain < sure.regret
    assert f"try first: {sure.trial.headline}; to know" in found.explain()


def test_what_is_known_is_not_tried():
    """Nothing is open about one candidate, or the other is worse whatever comes out."""
    random = np.random.default_rng(3)
    open_ = 0.1 * random.standard_normal(400)
    far = np.stack([np.zeros(400), 2 + open_], axis=1)
    assert first_trial(far).gain == 0
    together = np.stack([open_, 0.05 + open_], axis=1)  # what moves both alike changes no choice
    assert first_trial(together).gain == pytest.approx(0, abs=1e-12)


def test_a_trial_of_two_open_runs_gains_what_the_theory_says():
    """E max(0, X) of a normal of s is s/√(2π), and X is what is learnt of the difference."""
    random, draws = np.random.default_rng(4), 40_000
    common, own = 0.05 * random.standard_normal((2, draws))
    found = first_trial(np.stack([common, common + own], axis=1))
    # The second alone tells half of the difference: own follows it by ½, with √½ of its width.
    assert found.gain == pytest.approx(0.05 * np.sqrt(0.5) / np.sqrt(2 * np.pi), rel=0.05)
    assert found.place == 1


def test_the_range_holds_as_many_draws_as_it_says(habitual):
    """And so a deadline at its end is kept as often."""
    found = plan(GPT, habitual, **RUN)
    assert found.certainty is not None
    low, high = found.certainty.time
    again = plan(GPT, habitual, deadline=high, **RUN)
    assert again.certainty is not None
    assert found.best is not None
    assert again.best is not None
    assert again.best.row() == found.best.row()
    assert again.certainty.kept["deadline"] >= 0.95
    assert low < found.best.time < high


@pytest.mark.parametrize("forced", [{"sequence_parallel": (True,)}, {"zero": (2,)}])
def test_a_forced_option_leaves_the_rivals_in(habitual, forced):
    """With one tensor device, or one replica, the option is no news, but the only one."""
    bound = plan(GPT, habitual, **RUN, **forced)
    assert bound.best is not None
    drawn = drawn_offer(bound.searched[0], bound.best, 16)
    assert len(np.unique(drawn.rows, axis=1).T) > 50  # one where it is taken for idle


def test_a_run_that_breaks_a_deadline_by_little_is_a_rival(habitual):
    """It may keep it on a drawn machine, and is cheaper there."""
    wide: dict[str, Any] = RUN | {"devices": range(1, 33)}
    cheap = plan(GPT, habitual, objective="cost", **wide)
    assert cheap.best is not None
    tight = plan(GPT, habitual, objective="cost", deadline=0.99 * cheap.best.time, **wide)
    assert tight.best is not None
    drawn = drawn_offer(tight.searched[0], tight.best, 16)
    assert cheap.best.devices in drawn.devices
    assert cheap.best.devices < tight.best.devices


def test_the_best_of_another_offer_is_a_rival(habitual):
    own: dict[str, Any] = {name: RUN[name] for name in ("memory", "price")}
    alone = plan(GPT, habitual, **RUN)
    assert alone.best is not None
    assert alone.certainty is not None
    machine = replace(TRUTH, rate=0.98 * TRUTH.rate)
    rest = {name: RUN[name] for name in ("global_batch", "tokens")}
    offers = [so.Offer(it, 32, name=name, **own) for name, it in (("a", habitual), ("b", machine))]
    both = plan(GPT, offers, **rest)
    assert both.certainty is not None
    assert {it.found.offer.name for it in both.certainty.candidates} == {"a", "b"}
    assert both.certainty.best < 1


def test_a_machine_that_was_given_wins_or_not_on_the_machines_of_its_rival(habitual):
    own: dict[str, Any] = {name: RUN[name] for name in ("memory", "price")}
    machine = replace(TRUTH, rate=1.1 * TRUTH.rate)
    rest = {name: RUN[name] for name in ("global_batch", "tokens")}
    offers = [so.Offer(it, 32, name=name, **own) for name, it in (("a", habitual), ("b", machine))]
    found = plan(GPT, offers, **rest)
    assert found.best is not None
    assert found.certainty is not None
    assert found.best.offer.name == "b"
    assert found.certainty.time == (found.best.time, found.best.time)
    assert 0 < found.certainty.best < 1
    assert "the run takes" not in found.explain().partition("How sure:")[2]


def test_a_choice_by_numbers_of_devices_states_no_regret(habitual):
    found = plan(GPT, habitual, objective="devices", deadline=24 * hour, **RUN)
    assert found.certainty is not None
    assert np.isnan(found.certainty.regret)
    assert found.certainty.trial is None
    json.dumps(found.record(), allow_nan=False)


def test_machines_and_misses_are_drawn_apart(habitual):
    """A miss that followed a constant by chance would be taken for what the fit knows."""
    draws = 4000
    constants = habitual.misses.slope.shape[1]
    with jax.enable_x64(True):
        change = np.asarray(drawn_points(habitual, draws).u) - np.asarray(habitual.point.u)
    rows = alike(training_columns(rows_of(plan(GPT, habitual, **RUN).ranked(constants))))
    still = habitual.misses.drawn(rows, 0 * change, np.random.default_rng(_SEED))
    together = np.corrcoef(change.T, still.T)[:constants, constants:]
    assert np.abs(together).max() < 5 / np.sqrt(draws)


def test_candidates_are_told_as_the_plan_tells_them(found):
    """The same run has the same seconds everywhere: those of the fitted machine."""
    ranked = {str(it): it.step_time for it in found.ranked(None)}
    told = [it.found for it in found.certainty.candidates if str(it.found) in ranked]
    assert told
    for each in told:
        assert each.step_time == pytest.approx(ranked[str(each)], rel=1e-9)
