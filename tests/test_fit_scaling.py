"""Scaling curves from numbers of devices and times alone."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scaleopt as so
from scaleopt.fitting.scaling_misfit import DRIFT, independent, lasting, variance_ahead
from scaleopt.fitting.term_sets import TERMS, effects
from scaleopt.testing import check_model

DEVICES = np.array([1.0, 2, 4, 8, 16, 32, 64])
DATA = Path(os.environ.get("SCALEOPT_DATA", Path(__file__).parents[2] / "shared" / "data"))

TRUTHS = {
    "perfect": so.ScalingTime(100.0),
    "Amdahl": so.ScalingTime(100.0, serial_time=1.0),
    "surface": so.ScalingTime(100.0, surface_time=20.0),
    "latency": so.ScalingTime(100.0, latency_time=0.3),
    "USL": so.ScalingTime(100.0, serial_time=2.0, contention_time=0.05),
    "everything": so.ScalingTime(100.0, 0.5, 10.0, 0.1, 0.02),
}


def simulated(truth, seed, noise, devices=DEVICES):
    scatter = np.random.default_rng(seed).normal(0, noise, len(devices))
    return np.asarray(truth(devices)) * np.exp(scatter)


def test_the_curve_keeps_the_contracts():
    check_model(so.ScalingTime(8.0))


def test_the_curve_holds_the_textbook_laws():
    share = so.ScalingTime(0.95, serial_time=0.05)
    speedup = np.asarray(share(1.0) / share(DEVICES))
    assert speedup == pytest.approx(np.asarray(so.amdahl_speedup(DEVICES, 0.95)), rel=1e-6)
    sigma, kappa = 0.03, 1e-4
    law = so.ScalingTime(1 - sigma, serial_time=sigma, contention_time=kappa)
    throughput = np.asarray(so.usl_throughput(DEVICES, 1.0, sigma, kappa))
    assert 1 / np.asarray(law(DEVICES)) == pytest.approx(throughput, rel=1e-6)


def test_effects_are_the_terms_written_out():
    n = DEVICES
    plain = [1 / n, n**0, (1 - 1 / n) * n ** (-2 / 3), np.log2(n), n - 1]
    assert effects(n) == pytest.approx(np.stack(plain, axis=1), rel=1e-12)


MISSES = {
    "perfect": 0.1,
    "Amdahl": 0.1,
    "surface": 0.1,
    "latency": 0.1,
    "USL": 0.25,
    "everything": 0.25,
}
"""Bounds of the median error at N = 128, found 21 % for the last two: seven points do not settle
five terms, and the odds against contention, and the misfit expected of any curve, pull the forecast
below the truth."""


@pytest.mark.parametrize("name", TRUTHS)
def test_a_clean_curve_is_forecast(name):
    """From N ≤ 64 at 1 % noise, N = 128 in the median of 12 tables.

    The band holds the truth in all: a misfit is expected that these tables do not have.
    """
    truth = TRUTHS[name]
    exact = float(truth(128.0))
    found = [
        so.fit_scaling(DEVICES, time_s=simulated(truth, seed, 0.01)).predict(devices=128)
        for seed in range(12)
    ]
    assert np.median([abs(float(each.time) / exact - 1) for each in found]) < MISSES[name]
    assert np.mean([each.low <= exact <= each.high for each in found]) > 0.9


def test_bands_hold_what_they_say():
    """Over six truths, 20 tables each at 3 % noise: 90 % bands at N = 128 and 256."""
    held = []
    ahead = np.array([128.0, 256.0])
    for truth in TRUTHS.values():
        for seed in range(20):
            fit = so.fit_scaling(DEVICES, time_s=simulated(truth, seed, 0.03))
            measured = simulated(truth, 1000 + seed, 0.03, ahead)
            found = fit.predict(devices=ahead)
            held += list((found.low <= measured) & (measured <= found.high))
    # 240 draws of 90 % scatter by 2 points; the misfit expected makes bands wide on clean curves.
    assert np.mean(held) > 0.86


@pytest.mark.parametrize(
    ("name", "term"), [("USL", "contention_time"), ("latency", "latency_time")]
)
def test_support_is_of_the_term_that_is_there(name, term):
    """From ten doublings of N: six, at a misfit expected of 8 %, leave it undecided."""
    devices = 2.0 ** np.arange(11)

    def support(truth):
        times = simulated(TRUTHS[truth], 0, 0.005, devices)
        return so.fit_scaling(devices, time_s=times)

    fit = support(name)
    table = fit.terms()["probability"].to_dict()
    assert list(table) == list(TERMS)
    assert table[term] > 0.5
    assert support("perfect").terms()["probability"].to_dict()[term] < 0.3
    assert sum(each.weight for each in fit.sets) == pytest.approx(1.0, abs=1e-12)


def test_the_misfit_is_that_of_the_walk_s_covariance():
    """Against the dense covariance σ² (1 + DRIFT min(l, l')), l = log₂(N/N₁), without a filter."""
    count = np.array([2.0, 3, 8, 12, 64])
    residuals = np.random.default_rng(0).normal(size=(5, 3))
    asked = np.array([5.0, 64, 100, 1024])
    place, ahead = np.log2(count / 2), np.log2(asked / 2)
    inverse = np.linalg.inv(np.eye(5) + DRIFT * np.minimum.outer(place, place))
    apart = independent(count, residuals)
    assert apart.T @ apart == pytest.approx(residuals.T @ inverse @ residuals, rel=1e-10)
    likeness = DRIFT * np.minimum.outer(ahead, place) @ inverse
    walk = lasting(count, residuals)
    carried = [np.interp(ahead, place, column) for column in walk.T]
    assert np.transpose(carried) == pytest.approx(likeness @ residuals, rel=1e-10)
    variance = 1 + DRIFT * ahead - np.sum(likeness * DRIFT * np.minimum.outer(ahead, place), axis=1)
    assert variance_ahead(count, asked)[1:] == pytest.approx(variance[1:], rel=1e-10)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.1, 100.0), min_size=7, max_size=7))
def test_time_and_throughput_are_one(times):
    by_time = so.fit_scaling(DEVICES, time_s=times)
    by_rate = so.fit_scaling(DEVICES, throughput=1 / np.array(times))
    ahead = np.array([3.0, 128.0])
    time, rate = by_time.predict(devices=ahead), by_rate.predict(devices=ahead)
    # Two reciprocals cost an ulp of each time, and the weights of sets take it up a little.
    assert 1 / rate.time == pytest.approx(time.time, rel=1e-9)
    assert 1 / rate.high == pytest.approx(time.low, rel=1e-9)
    assert 1 / rate.low == pytest.approx(time.high, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(7)), st.floats(1e-6, 1e6))
def test_order_and_unit_do_not_matter(order, unit):
    times = simulated(TRUTHS["everything"], 3, 0.05)
    first = so.fit_scaling(DEVICES, time_s=times).predict(devices=200)
    places = list(order)
    second = so.fit_scaling(DEVICES[places], time_s=unit * times[places]).predict(devices=200)
    assert np.array(second) == pytest.approx(unit * np.array(first), rel=1e-9)


def test_repeats_are_taken_by_their_median_and_widen_the_band():
    times = simulated(TRUTHS["Amdahl"], 0, 0.0)
    scattered = np.concatenate([times, 0.7 * times, 1.4 * times])
    many = so.fit_scaling(np.tile(DEVICES, 3), time_s=scattered)
    once = so.fit_scaling(DEVICES, time_s=times)
    assert many.rows["time_s"].to_numpy() == pytest.approx(times, rel=1e-12)
    assert set(many.rows["repeats"]) == {3}
    wide, narrow = many.predict(devices=64), once.predict(devices=64)
    assert wide.high / wide.low > narrow.high / narrow.low


def test_bands_widen_away_from_the_points_and_keep_their_value():
    fit = so.fit_scaling(DEVICES, time_s=simulated(TRUTHS["Amdahl"], 1, 0.02))
    found = fit.predict(devices=[[64, 128], [512, 4096]])
    ratio = (found.high / found.low).ravel()
    assert found.time.shape == (2, 2)
    assert np.all(np.diff(ratio) > 0)
    assert np.all((found.low <= found.time) & (found.time <= found.high))
    wide = fit.predict(devices=128, level=0.99)
    assert wide.high > fit.predict(devices=128).high


def test_constant_times_are_serial():
    fit = so.fit_scaling(DEVICES, time_s=np.full(7, 2.0))
    assert float(fit.predict(devices=128).time) == pytest.approx(2.0, rel=0.05)
    assert fit.terms()["probability"]["serial_time"] > 0.95


def test_every_term_says_where_it_is_from():
    fit = so.fit_scaling([1, 2, 4, 8], time_s=[8.0, 4.0, 2.0, 1.0])
    assert set(fit.provenance) == set(fit.terms().index)
    assert fit.provenance["parallel_time"] == "fitted"


def test_two_points_give_a_wide_band_and_no_certainty():
    fit = so.fit_scaling([1, 2], time_s=[2.0, 1.1])
    found = fit.predict(devices=64)
    assert found.high / found.low > 4
    assert fit.terms()["probability"].iloc[1:].max() < 0.75


@pytest.mark.parametrize(
    ("devices", "given_columns", "words"),
    [
        ([1, 2], {}, "either time_s or throughput"),
        ([1, 2], {"time_s": [1, 2], "throughput": [1, 2]}, "one of them and not both"),
        ([1, 2, 4], {"time_s": [1.0, 2]}, "the same length"),
        ([1, 2], {"time_s": [1.0, 0.0]}, "row 1: time_s is 0.0"),
        ([1, 2], {"throughput": [-1.0, 2.0]}, "row 0: throughput is -1.0"),
        ([1, 2], {"time_s": [1.0, np.nan]}, "row 1: time_s is nan"),
        ([1, np.inf], {"time_s": [1.0, 2.0]}, "row 1: devices is inf"),
        ([0, 1], {"time_s": [1.0, 2.0]}, "row 0: devices is 0.0"),
        ([4, 4], {"time_s": [1.0, 2.0]}, "measure on more"),
        ([], {"time_s": []}, "measure on more"),
    ],
)
def test_wrong_rows_are_named(devices, given_columns, words):
    with pytest.raises(ValueError, match=words):
        so.fit_scaling(devices, **given_columns)


def test_wrong_questions_are_named():
    fit = so.fit_scaling([1, 2, 4], time_s=[4.0, 2.0, 1.0])
    with pytest.raises(ValueError, match="from 1 up"):
        fit.predict(devices=0)
    with pytest.raises(ValueError, match="a share between 0 and 1"):
        fit.predict(devices=8, level=1.0)


def test_the_summary_tells_terms_sets_and_scatter():
    text = so.fit_scaling(DEVICES, time_s=simulated(TRUTHS["USL"], 0, 0.01)).summary()
    assert all(name in text for name in TERMS)
    assert "likeliest of" in text
    assert "up to 64" in text


@pytest.mark.skipif(not DATA.is_dir(), reason="the published tables are absent: set SCALEOPT_DATA")
def test_published_strong_scaling_is_forecast_as_the_study_says():
    import strong_scaling_published as study

    table = study.compared(study.strong_series())
    found = study.totals(table, "strong")
    assert (found["series"], found["points"]) == (22, 58)
    # The study's own numbers, to the digits that it states.
    assert found["ours median %"] == pytest.approx(9.9, abs=0.05)
    assert found["ours mean %"] == pytest.approx(15.9, abs=0.05)
    assert found["held"] == pytest.approx(0.88, abs=0.005)
    assert found["Amdahl median %"] == pytest.approx(20.2, abs=0.05)
    assert found["Amdahl mean %"] == pytest.approx(22.3, abs=0.05)
