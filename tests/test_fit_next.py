"""The next measurement: against the variance counted by brute force, and where nothing is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import simulated
from jax.tree_util import Partial
from simulated_machine import MACHINE, training_runs

import scaleopt as so
from scaleopt.units import Seconds

FLOPS, SIZE = 1e14, 1e8


def amdahl(devices, *, serial: Seconds, work: Seconds):
    return serial + work / devices


LAW = Partial(amdahl, serial=1.0, work=1.0)
COULD = pd.DataFrame({"op": "step", "devices": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]})


def amdahl_table(seed, devices=(1, 2, 4), noise=0.03):
    random = np.random.default_rng(seed)
    devices = np.repeat(np.asarray(devices, float), 8)
    time = (0.5 + 12 / devices) * np.exp(random.normal(0, noise, len(devices)))
    return pd.DataFrame({"op": "step", "devices": devices, "time_s": time})


def serial(law):
    return law.keywords["serial"]


def best_devices(step):
    return so.optimal_devices(step, FLOPS, SIZE)


def test_the_choice_is_that_of_brute_force():
    """Invert the information of the old rows and each new one by hand, in the parameters' logs."""
    found = so.fit(LAW, amdahl_table(2))
    assert found.noise[0].misfit == 0
    values = found.model.keywords
    noise = found.noise[0].repeat_noise
    covariance = found.covariance.matrix
    assert list(found.names) == ["serial", "work"]

    def variance(rows):
        information = np.linalg.inv(covariance)
        for devices in rows:
            parts = np.array([values["serial"], values["work"] / devices])
            information = information + np.outer(parts, parts) / parts.sum() ** 2 / noise**2
        slope = np.array([values["serial"], 0.0])
        return slope @ np.linalg.inv(information) @ slope

    chosen = []
    for _ in range(3):
        worth = [
            np.log(variance(chosen) / variance([*chosen, devices]))
            / (devices * amdahl(devices, **values))
            for devices in COULD["devices"]
        ]
        chosen.append(COULD["devices"][int(np.argmax(worth))])
    next_ = so.next_measurement(found, COULD, target=serial, count=3)
    assert next_["devices"].tolist() == chosen
    assert next_["deviation"].iloc[-1] == pytest.approx(np.sqrt(variance(chosen)), rel=1e-6)


def test_the_promise_is_kept():
    """Once the chosen rows are measured, the target is about as sharp as was said."""
    table, random = amdahl_table(2), np.random.default_rng(1)
    found = so.fit(LAW, table)
    chosen = so.next_measurement(found, COULD, target=serial, count=40)
    time = (0.5 + 12 / chosen["devices"]) * np.exp(random.normal(0, 0.03, len(chosen)))
    both = pd.concat([table, chosen[["op", "devices"]].assign(time_s=time)], ignore_index=True)
    after = so.propagate(serial, so.fit(LAW, both), 0.6827)
    # 64 rows place the noise, and so the deviation, to a tenth; three of those.
    assert (after.high - after.low) / 2 == pytest.approx(chosen["deviation"].iloc[-1], rel=0.3)


def test_what_it_costs_decides():
    found = so.fit(LAW, amdahl_table(0))
    dear = COULD.assign(cost_s=np.where(COULD["devices"] == 1, 1e-6, 1.0))
    free = so.next_measurement(found, dear, target=serial)
    assert free["devices"].tolist() == [1.0]
    assert free["cost_s"].tolist() == [1e-6]


def test_a_direction_that_no_row_sees_comes_first():
    table = simulated.table(0, works=(1e14,), sizes=(1e8,), reduced=())
    found = so.calibrate(table)
    assert np.isinf(so.optimal_devices(found, FLOPS, SIZE).high)
    could = simulated.table(0).drop(columns=["time_s", "repeat"]).drop_duplicates()
    chosen = so.next_measurement(found, could, target=best_devices, count=30)
    assert chosen["op"].iloc[0] == "all_reduce"
    assert chosen["deviation"].is_monotonic_decreasing


def test_where_the_model_misses_a_new_cell_is_worth_more_than_a_repeat():
    random = np.random.default_rng(0)
    table = amdahl_table(0, devices=(1, 2, 4, 8, 16, 32), noise=0.01)
    miss = dict(zip(COULD["devices"], random.normal(0, 0.1, 6), strict=True))
    table["time_s"] *= np.exp(table["devices"].map(miss))
    found = so.fit(LAW, table)
    assert found.noise[0].misfit > 0.01
    could = pd.DataFrame({"op": "step", "devices": [32.0, 33.0], "cost_s": 1.0})
    assert so.next_measurement(found, could, target=serial)["devices"].tolist() == [33.0]


def test_wrong_questions_are_refused():
    found = so.fit(LAW, amdahl_table(0))
    with pytest.raises(ValueError, match="no candidates"):
        so.next_measurement(found, COULD.iloc[:0], target=serial)
    with pytest.raises(ValueError, match="no column 'devices'"):
        so.next_measurement(found, COULD.drop(columns="devices"), target=serial)
    with pytest.raises(ValueError, match="depends on no parameter"):
        so.next_measurement(found, COULD, target=lambda law: jnp.asarray(1.0))
    with pytest.raises(ValueError, match="one finite number"):
        so.next_measurement(found, COULD, target=lambda law: law(jnp.arange(1.0, 3.0)))
    with pytest.raises(ValueError, match="count=0"):
        so.next_measurement(found, COULD, target=serial, count=0)
    failed = so.fit(Partial(lambda devices, work: -work / devices, work=1.0), amdahl_table(0))
    with pytest.raises(ValueError, match="the fit failed"):
        so.next_measurement(failed, COULD, target=serial)


def test_a_table_is_predicted_as_its_columns_are():
    found = so.calibrate(simulated.table(0))
    rows = simulated.table(1).iloc[[0, 50, 200]]
    by_table = found.predict(rows)
    by_columns = found.predict(
        op=rows["op"], devices=rows["devices"], flops=rows["flops"], size=rows["size_bytes"]
    )
    for one, other in zip(by_table, by_columns, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="not both"):
        found.predict(rows, devices=3)
    assert not jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]


def test_runs_of_training_may_be_what_is_measured_next():
    """With columns left out; the first is the one that leaves least open by itself."""
    runs = training_runs(MACHINE)
    fit = so.calibrate(runs)
    one = runs.iloc[[0]].drop(columns=["time_s", "recompute"]).assign(tensor=1, data=1, pipeline=1)
    both = pd.concat([one.assign(devices=1), one.assign(tensor=4, devices=4)]).assign(cost_s=1.0)

    def log_beta(machine):
        return jnp.log(machine.beta)

    chosen = so.next_measurement(fit, both, target=log_beta, count=2)
    alone = [so.next_measurement(fit, both.iloc[[k]], target=log_beta) for k in (0, 1)]
    least = min(each["deviation"].iloc[0] for each in alone)
    assert chosen["deviation"].iloc[0] == pytest.approx(least)
    np.testing.assert_allclose(chosen["predicted_s"], _by_machine(fit, chosen))
    now = fit.covariance.deviation[fit.names.index("beta")]
    assert now > chosen["deviation"].iloc[0] > chosen["deviation"].iloc[1]
    assert chosen["deviation_before"].tolist()[1:] == chosen["deviation"].tolist()[:-1]
    assert chosen["deviation_before"].iloc[0] == pytest.approx(now)


def _by_machine(fit, rows):
    return fit.predict(rows).time / fit.correction(rows)
