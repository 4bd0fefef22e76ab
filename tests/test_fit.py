"""Fits of any model: against scipy and truth, on wild rows, at the edge of what rows can tell."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from jax.tree_util import Partial
from scipy.optimize import least_squares

import scaleopt as so
from scaleopt.units import Fraction, Seconds

DEVICES = np.tile([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], 8)


def amdahl(devices, *, serial: Seconds, work: Seconds):
    return serial + work / devices


LAW = Partial(amdahl, serial=1.0, work=1.0)


def amdahl_table(seed, noise=0.03, serial=0.5, work=12.0, wild=0.0):
    random = np.random.default_rng(seed)
    time = (serial + work / DEVICES) * np.exp(random.normal(0, noise, DEVICES.size))
    time = np.where(random.random(DEVICES.size) < wild, 3 * time, time)
    return pd.DataFrame({"op": "step", "devices": DEVICES, "time_s": time})


def test_clean_data_give_what_scipy_gives():
    table = amdahl_table(0)
    found = so.fit(LAW, table)

    def residual(u):
        return np.log(table["time_s"]) - np.log(np.exp(u[0]) + np.exp(u[1]) / DEVICES)

    expected = np.exp(least_squares(residual, [0.0, 0.0]).x)
    low, high = found.ranges(0.6827)
    error = (high - low) / 2
    # An estimator of 95 % efficiency differs from the best by sqrt(1/0.95 - 1) = 0.23 standard
    # errors; three times that is rare.
    assert np.all(np.abs(found.estimate - expected) < 0.69 * error)
    assert found.failure is None
    assert not found.unidentified


def test_without_noise_the_truth_comes_back():
    keywords = so.fit(LAW, amdahl_table(0, noise=0.0)).model.keywords
    assert keywords == pytest.approx({"serial": 0.5, "work": 12.0}, rel=1e-6)


@pytest.mark.parametrize("start", [1e-6, 1e6])
def test_the_start_does_not_matter(start):
    far = so.fit(Partial(amdahl, serial=start, work=start), amdahl_table(0))
    assert far.estimate == pytest.approx(so.fit(LAW, amdahl_table(0)).estimate, rel=1e-6)


def test_wild_rows_have_no_say():
    found = so.fit(LAW, amdahl_table(3, wild=0.1))
    assert found.model.keywords == pytest.approx({"serial": 0.5, "work": 12.0}, rel=0.05)
    assert found.noise[0].outliers >= 3


def test_predictions_contain_the_measurements_to_come():
    found = so.fit(LAW, amdahl_table(1))
    new = amdahl_table(2)
    predicted = found.predict(devices=new["devices"], level=0.9)
    inside = (new["time_s"] >= predicted.low) & (new["time_s"] <= predicted.high)
    # 48 new rows at 90 %: below 38 or above 47 has a chance of about one in a hundred.
    assert 38 <= inside.sum() <= 48
    assert predicted.time == pytest.approx(0.5 + 12 / new["devices"], rel=0.05)


def test_wider_levels_give_wider_intervals():
    found = so.fit(LAW, amdahl_table(1))
    reaches = []
    for level in (0.5, 0.9, 0.99):
        low, high = found.interval(level)
        value = found.model.keywords["serial"]
        assert low.keywords["serial"] < value < high.keywords["serial"]
        reaches.append(high.keywords["serial"] - low.keywords["serial"])
    assert reaches == sorted(reaches)


def test_a_fixed_number_stays():
    found = so.fit(Partial(amdahl, serial=0.5, work=1.0), amdahl_table(0), fixed=("serial",))
    assert found.model.keywords["serial"] == 0.5
    assert found.names == ("work",)


def test_a_zero_is_a_term_left_out():
    found = so.fit(Partial(amdahl, serial=0.0, work=1.0), amdahl_table(0, serial=0.0))
    assert found.names == ("work",)
    assert found.model.keywords == pytest.approx({"serial": 0.0, "work": 12.0}, rel=0.02)


def test_a_fraction_stays_a_fraction():
    def law(devices, *, single: Seconds, parallel: Fraction):
        return single / so.amdahl_speedup(devices, parallel)

    found = so.fit(Partial(law, single=1.0, parallel=0.5), amdahl_table(0))
    assert found.model.keywords == pytest.approx({"single": 12.5, "parallel": 0.96}, rel=0.02)
    low, high = found.interval(0.95)
    assert 0 < low.keywords["parallel"] < 0.96 < high.keywords["parallel"] < 1


def test_a_fraction_at_its_limit_is_at_least_so_much():
    def law(devices, *, single: Seconds, parallel: Fraction):
        return single / so.amdahl_speedup(devices, parallel)

    for seed in range(6):
        table = amdahl_table(seed, serial=0.0, noise=0.2)
        found = so.fit(Partial(law, single=1.0, parallel=0.5), table)
        assert found.failure is None
        low, high = found.interval(0.95)
        assert 0.9 < low.keywords["parallel"] <= found.model.keywords["parallel"] <= 1.0
        assert high.keywords["parallel"] == 1.0
        assert "parallel is consistent with 1, at least" in found.unidentified[0]


def test_a_column_that_is_bound_stays_bound():
    def law(devices, flops, *, work: Seconds):
        return flops * work / devices

    table = amdahl_table(0, serial=0.0).assign(flops=7.0)
    found = so.fit(Partial(law, flops=2.0, work=1.0), table, fixed=("flops",))
    assert found.model.keywords["work"] == pytest.approx(6.0, rel=0.02)


def test_predict_names_what_it_does_not_know():
    found = so.fit(LAW, amdahl_table(0))
    with pytest.raises(ValueError, match=r"predict takes devices; unknown: \['size'\], lacking"):
        found.predict(size=1.0)


def test_a_term_that_is_not_there_is_at_most_so_much():
    found = so.fit(LAW, amdahl_table(11, serial=0.0, noise=0.2))
    low, high = found.interval(0.95)
    assert low.keywords["serial"] == 0.0 < high.keywords["serial"] < 0.2
    assert "serial is consistent with 0, at most" in found.unidentified[0]


def test_a_rate_that_does_not_show_is_at_least_so_much():
    def law(devices, *, serial: Seconds, rate: so.units.FlopsPerSecond):
        return serial + 1e9 / (rate * devices)

    table = amdahl_table(4, serial=1.0, work=0.0)
    found = so.fit(Partial(law, serial=1.0, rate=1e10), table)
    low, high = found.interval(0.95)
    assert np.isinf(high.keywords["rate"])
    assert low.keywords["rate"] > 1e10
    assert "rate is consistent with no limit" in found.unidentified[0]
    assert np.isfinite(found.predict(devices=4.0).high)


def test_parameters_that_only_act_together_are_named():
    def law(devices, *, a: Seconds, b: Seconds, work: Seconds):
        return a + b + work / devices

    found = so.fit(Partial(law, a=1.0, b=1.0, work=1.0), amdahl_table(0))
    assert "a and b cannot be told apart" in found.unidentified[0]
    low, high = found.interval(0.95)
    assert (low.keywords["a"], high.keywords["a"]) == (0.0, np.inf)
    assert low.keywords["work"] > 11
    assert high.keywords["work"] < 13
    known = found.predict(devices=[1.0, 64.0])
    assert np.all(np.isfinite(known.high))


def test_a_parameter_without_effect_is_named():
    def law(devices, *, work: Seconds, idle: Seconds):
        return work / devices + 0 * idle

    found = so.fit(Partial(law, work=1.0, idle=1.0), amdahl_table(0, serial=0.0))
    assert "idle has no effect on these rows" in found.unidentified[0]


def test_more_parameters_than_rows_leave_everything_open():
    found = so.fit(LAW, amdahl_table(0).iloc[:1])
    assert np.all(np.isinf(found.ranges(0.95)[1]))
    assert "no more independent rows than parameters" in found.unidentified[0]
    assert np.isinf(found.predict(devices=4.0).high)
    unknown = so.propagate(lambda law: law.keywords["work"], found)
    assert (unknown.low, unknown.high) == (-np.inf, np.inf)


def test_misfit_widens_the_intervals():
    """Repeats agree, but the law is wrong: the cells, not the rows, are what was seen."""
    time = (0.5 + 12 / DEVICES) * np.where(np.log2(DEVICES) % 2 == 0, 1.1, 0.9)
    random = np.random.default_rng(0)
    table = pd.DataFrame({"op": "step", "devices": DEVICES})
    table["time_s"] = time * np.exp(random.normal(0, 0.01, time.size))
    wrong, right = so.fit(LAW, table).noise[0], so.fit(LAW, amdahl_table(0)).noise[0]
    assert wrong.misfit == pytest.approx(0.1, rel=0.35)  # six cells give a scatter to a third
    assert wrong.repeat_noise == pytest.approx(0.01, rel=0.3)
    assert right.misfit == 0.0


def test_a_model_that_gives_no_time_fails_and_says_so():
    def law(devices, *, work: Seconds):
        return -work / devices

    found = so.fit(Partial(law, work=1.0), amdahl_table(0))
    assert "gives no positive, finite time" in (found.failure or "")
    assert "the fit failed" in found.summary()
    assert np.all(np.isinf(found.ranges()[1]))
    unknown = found.predict(devices=[2.0, 4.0])
    assert np.all(np.isnan(unknown.time))
    assert np.all(np.isinf(unknown.high))


def test_propagation_of_a_sum_is_that_of_its_parts():
    found = so.fit(LAW, amdahl_table(0))
    low, high = found.interval(0.95)
    work = so.propagate(lambda model: model.keywords["work"], found, 0.95)
    # 4,000 draws place a 2.5 % quantile to about 4 % of the interval's width.
    width = high.keywords["work"] - low.keywords["work"]
    assert work.low == pytest.approx(low.keywords["work"], abs=0.06 * width)
    assert work.high == pytest.approx(high.keywords["work"], abs=0.06 * width)


def test_chained_rows_need_a_model_that_counts():
    table = amdahl_table(0).assign(method="chain 4")
    with pytest.raises(ValueError, match="does not take `operations`"):
        so.fit(LAW, table)

    def law(devices, operations, *, launch: Seconds, work: Seconds):
        return launch + operations * work / devices

    both = pd.concat([table.assign(time_s=1 + 48 / DEVICES), table.assign(method="single")])
    both.loc[both["method"] == "single", "time_s"] = np.asarray(1 + 12 / DEVICES)
    found = so.fit(Partial(law, launch=3.0, work=3.0), both.reset_index(drop=True))
    assert found.model.keywords == pytest.approx({"launch": 1.0, "work": 12.0}, rel=1e-6)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"time_s": -1.0}, "row 0: time_s is -1.0; it must be a number above 0"),
        ({"time_s": np.nan}, "row 0: time_s is nan"),
        ({"devices": np.nan}, "row 0: devices is nan; it must be a number from 1 up"),
    ],
)
def test_rows_that_cannot_be_fitted_are_refused(change, complaint):
    table = amdahl_table(0)
    table.loc[0, list(change)] = list(change.values())
    with pytest.raises(ValueError, match=complaint):
        so.fit(LAW, table)


def test_wrong_models_and_tables_are_refused():
    table = amdahl_table(0)
    with pytest.raises(ValueError, match="has no column 'devices'"):
        so.fit(LAW, table.drop(columns="devices"))
    with pytest.raises(ValueError, match="no rows"):
        so.fit(LAW, table.iloc[:0])
    with pytest.raises(ValueError, match="fixed='work2' is not a number of the model"):
        so.fit(LAW, table, fixed=("work2",))
    with pytest.raises(ValueError, match="serial starts at -1"):
        so.fit(Partial(amdahl, serial=-1.0, work=1.0), table)
    with pytest.raises(ValueError, match="has no free number"):
        so.fit(Partial(amdahl, serial=1, work=0.0), table)
    with pytest.raises(ValueError, match="takes 'serial', which is no column"):
        so.fit(amdahl, table)
    with pytest.raises(TypeError, match="cannot be called"):
        so.fit(3.0, table)
    with pytest.raises(ValueError, match="level=95"):
        so.fit(LAW, table).interval(95)


def test_fitting_leaves_the_precision_of_jax_alone():
    before = jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
    so.fit(LAW, amdahl_table(0))
    assert jax.config.jax_enable_x64 == before  # pyright: ignore[reportAttributeAccessIssue]
    assert jnp.asarray(1.0).dtype == jnp.float32
