"""Many tables at once: against the same fits one by one, resampling, profiles, comparison."""

import numpy as np
import pandas as pd
import pytest
from jax.tree_util import Partial

import scaleopt as so
from scaleopt.units import Seconds

DEVICES = np.tile([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], 8)


def amdahl(devices, *, serial: Seconds, work: Seconds):
    return serial + work / devices


def ideal(devices, *, work: Seconds):
    return work / devices


LAW = Partial(amdahl, serial=1.0, work=1.0)


def times_of(tables, noise=0.03, serial=0.5, runs=0.0):
    random = np.random.default_rng(0)
    shift = np.repeat(random.normal(0, runs, (tables, 8)), 6, axis=1)
    scatter = random.normal(0, noise, (tables, DEVICES.size)) + shift
    return (serial + 12 / DEVICES) * np.exp(scatter)


def table_of(times):
    run = np.repeat(np.arange(8), 6)
    return pd.DataFrame({"op": "step", "devices": DEVICES, "time_s": times, "run": run})


def test_many_tables_give_what_each_gives_alone():
    times = np.concatenate([times_of(3), times_of(2, serial=0.0, noise=0.2)])
    alone = [so.fit(LAW, table_of(each)) for each in times]
    many = so.fit_many(alone[0], times)
    # Another start ends where the slope of the loss is 1e-8 of the noise.
    np.testing.assert_allclose(many.estimate, [f.estimate for f in alone], rtol=1e-6, atol=1e-9)
    for got, expected in zip(
        many.ranges(0.9), zip(*(f.ranges(0.9) for f in alone), strict=True), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-9)
    assert many.failure == (None,) * 5
    assert many.model(1).keywords == pytest.approx(alone[1].model.keywords, rel=1e-6)


def test_times_that_do_not_fit_the_design_are_refused():
    one = so.fit(LAW, table_of(times_of(1)[0]))
    with pytest.raises(ValueError, match=r"give \(tables, 48\)"):
        so.fit_many(one, np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"times\[1, 0\] is -1.0; it must be above 0"):
        so.fit_many(one, np.where(np.arange(2)[:, None] == 1, -1.0, np.ones((2, 48))))


def test_runs_that_hang_together_widen_the_interval():
    """The spread over tables is the truth that sandwich and bootstrap by run estimate."""
    times = times_of(200, noise=0.01, runs=0.05)
    table = table_of(times[0])
    plain, by_run = so.fit(LAW, table.drop(columns="run")), so.fit(LAW, table, cluster="run")
    truth = np.std(so.fit_many(plain, times).estimate, axis=0)
    drawn = np.std(so.bootstrap(by_run, "run", draws=200).estimate, axis=0)
    # Eight runs tell a spread to a quarter; twice that.
    np.testing.assert_allclose(by_run.standard_error, truth, rtol=0.5)
    np.testing.assert_allclose(drawn, truth, rtol=0.5)
    assert plain.standard_error[1] < 0.7 * by_run.standard_error[1]


def test_a_profile_of_a_law_that_is_almost_linear_is_the_interval():
    found = so.fit(LAW, table_of(times_of(1)[0]))
    profiled = so.profile(found, "work", 0.9)
    low, high = found.ranges(0.9)
    work = found.names.index("work")
    width = high[work] - low[work]
    assert profiled.low == pytest.approx(low[work], abs=0.1 * width)
    assert profiled.high == pytest.approx(high[work], abs=0.1 * width)
    with pytest.raises(ValueError, match="the fit has serial, work"):
        so.profile(found, "rate")


def test_a_profile_of_what_may_be_absent_begins_at_0():
    found = so.fit(LAW, table_of(times_of(1, serial=0.0, noise=0.2)[0]))
    profiled = so.profile(found, "serial")
    assert profiled.low == 0.0 < profiled.high < 0.3


def test_the_comparison_finds_the_law_that_made_the_rows():
    laws = {"ideal": Partial(ideal, work=9.0), "amdahl": LAW}
    real = so.compare(laws, table_of(times_of(1)[0]))
    assert real.models.index[0] == "amdahl"
    assert real.models["weight"].to_numpy()[0] > 0.95
    assert real.terms.loc["serial", "in_words"] == "strong"
    time, low, high = real.predict(devices=[64.0, 128.0], level=0.9)
    assert np.all((low < time) & (time < high))
    assert time == pytest.approx(0.5 + 12 / np.array([64, 128]), rel=0.1)
    none = so.compare(laws, table_of(times_of(1, serial=0.0)[0]))
    assert none.terms["support"].to_dict()["serial"] < 0.75
    with pytest.raises(ValueError, match="two of each"):
        so.compare({"amdahl": LAW}, table_of(times_of(1)[0]))


def test_one_law_for_two_clusters():
    times = times_of(2)
    both = pd.concat(
        [table_of(times[0]).assign(cluster="A"), table_of(3 * times[1]).assign(cluster="B")],
        ignore_index=True,
    )
    found = so.fit(LAW, both, by="cluster", own=("work", "serial"))
    assert found.names == ("serial[A]", "work[A]", "serial[B]", "work[B]")
    assert found.model["B"].keywords == pytest.approx({"serial": 1.5, "work": 36}, rel=0.1)
    time = found.predict(devices=[1.0, 1.0], cluster=["A", "B"]).time
    assert time == pytest.approx([12.5, 37.5], rel=0.05)
    np.testing.assert_allclose(found.predict(both).time, found.rows["predicted_s"], rtol=1e-12)
    shared = so.fit(LAW, both.assign(time_s=both["time_s"]), by="cluster", own=("work",))
    assert shared.names == ("serial", "work[A]", "work[B]")
    assert shared.model["A"].keywords["serial"] == shared.model["B"].keywords["serial"]
    with pytest.raises(ValueError, match="cluster \\['C'\\] was not fitted"):
        found.predict(devices=1.0, cluster="C")
    with pytest.raises(ValueError, match="no such free parameter"):
        so.fit(LAW, both, by="cluster", own=("rate",))
    with pytest.raises(ValueError, match="give the column of groups and what is their own"):
        so.fit(LAW, both, by="cluster")
