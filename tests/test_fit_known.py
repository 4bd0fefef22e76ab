"""Weights and priors: against scipy's least squares of the same residuals."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import simulated
from jax.tree_util import Partial
from scipy.optimize import least_squares

import scaleopt as so
from scaleopt.units import Seconds

DEVICES = np.tile([1.0, 2.0, 4.0, 8.0], 12)


def amdahl(devices, *, serial: Seconds, work: Seconds):
    return serial + work / devices


LAW = Partial(amdahl, serial=1.0, work=1.0)


def table_of(seed, weight: Any = 1.0, noise=0.03):
    random = np.random.default_rng(seed)
    scatter = noise / np.sqrt(weight)
    time = (0.5 + 12 / DEVICES) * np.exp(random.normal(0, 1, DEVICES.size) * scatter)
    return pd.DataFrame({"op": "step", "devices": DEVICES, "time_s": time, "count": weight})


def tukey_root(e, c=4.685):
    square = np.minimum((e / c) ** 2, 1.0)
    return np.sign(e) * np.minimum(np.abs(e), c) * np.sqrt(1 - square + square**2 / 3)


def by_scipy(table, fit, prior=None):
    """Tukey's loss, with the noise that the fit found, minimised anew from the truth."""
    residual = np.log(table["time_s"]) - np.log(fit.rows["predicted_s"])
    root = np.sqrt(table["count"].to_numpy(float))
    scale = np.median(np.abs(root * residual)) / 0.6744897501960817

    def misses(u):
        e = root * (np.log(table["time_s"]) - np.log(np.exp(u[0]) + np.exp(u[1]) / DEVICES))
        known = [] if prior is None else [(u[0] - np.log(prior.value)) / np.log(prior.factor)]
        return np.concatenate([tukey_root(e / scale), known])

    return np.exp(least_squares(misses, np.log([0.5, 12.0]), xtol=1e-12, ftol=1e-12, gtol=1e-12).x)


@pytest.mark.parametrize("prior", [None, so.Prior(0.8, 1.05)], ids=["weights", "prior"])
def test_the_estimate_is_that_of_scipy(prior):
    weight = np.where(np.arange(DEVICES.size) % 3 == 0, 9.0, 1.0)
    table = table_of(0, weight)
    priors = {"serial": prior} if prior else None
    found = so.fit(LAW, table, weights="count", priors=priors)
    # The scale is estimated once more after the last solve, which moves the optimum a little.
    assert found.estimate == pytest.approx(by_scipy(table, found, prior), rel=1e-3)


def test_equal_weights_change_nothing():
    table = table_of(0, np.full(DEVICES.size, 4.0))
    plain, weighted = so.fit(LAW, table), so.fit(LAW, table, weights="count")
    np.testing.assert_allclose(plain.estimate, weighted.estimate, rtol=1e-9)
    np.testing.assert_allclose(plain.ranges(), weighted.ranges(), rtol=1e-6)


def test_a_prior_joins_the_rows_by_their_precision():
    table, prior = table_of(2), so.Prior(0.5, 1.02)
    alone, joined = so.fit(LAW, table), so.fit(LAW, table, priors={"serial": prior})
    information = np.linalg.inv(alone.covariance.matrix)
    information[0, 0] += 1 / np.log(prior.factor) ** 2
    expected = np.sqrt(np.diag(np.linalg.inv(information)))
    # The curvature is taken at another point and with another scale.
    np.testing.assert_allclose(joined.covariance.deviation, expected, rtol=0.1)


def test_a_prior_settles_what_the_rows_cannot_tell():
    def law(devices, *, a: Seconds, b: Seconds, work: Seconds):
        return a + b + work / devices

    start = Partial(law, a=1.0, b=1.0, work=1.0)
    assert so.fit(start, table_of(0)).unidentified
    known = so.fit(start, table_of(0), priors={"a": so.Prior(0.2, 1.05)})
    assert not known.unidentified
    assert known.model.keywords == pytest.approx({"a": 0.2, "b": 0.3, "work": 12}, rel=0.25)


def test_what_is_no_prior_or_weight_is_refused():
    table = table_of(0)
    with pytest.raises(ValueError, match="no such free parameter"):
        so.fit(LAW, table, priors={"rate": so.Prior(1.0, 2.0)})
    with pytest.raises(ValueError, match="factor above 1"):
        so.fit(LAW, table, priors={"work": so.Prior(1.0, 1.0)})
    with pytest.raises(TypeError, match=r"priors\['work'\] is 5; give so.Prior\(value, factor\)"):
        so.fit(LAW, table, priors={"work": 5})  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="no such column"):
        so.fit(LAW, table, weights="weight")
    with pytest.raises(ValueError, match="a weight is above 0"):
        so.fit(LAW, table.assign(count=0.0), weights="count")


def test_an_older_fit_is_a_prior_of_a_new_one():
    many, few = table_of(0), table_of(1).iloc[:4]
    known = so.fit(LAW, many).priors()
    assert set(known) == {"serial", "work"}
    assert known["work"].value == pytest.approx(12, rel=0.05)
    alone, joined = so.fit(LAW, few), so.fit(LAW, few, priors=known)
    widths = [np.divide(*each.ranges()[::-1]) for each in (joined, alone, so.fit(LAW, many))]
    assert np.all(widths[0] < widths[1])
    # Four rows more than 48 sharpen little; what they say of the noise is little too.
    np.testing.assert_allclose(np.log(widths[0]), np.log(widths[2]), rtol=1.0)


def test_a_calibration_takes_what_is_known():
    table = simulated.table(0, sizes=(1e10,), works=(1e14,), reduced=())
    assert "cannot be told apart" in so.calibrate(table).unidentified[0]
    found = so.calibrate(
        table,
        priors={"serial_time": so.Prior(simulated.SERIAL_TIME, 1.05)},
        fixed={"overlap": 0.0},
    )
    assert "cannot be told apart" not in "".join(found.unidentified)
    assert found.model.beta == pytest.approx(simulated.BETA, rel=0.25)
    with pytest.raises(ValueError, match=r"fixed\['speed'\]: a step model has rate"):
        so.calibrate(table, fixed={"speed": 1.0})
    with pytest.raises(ValueError, match="from 0 up"):
        so.calibrate(table, fixed={"overlap": -1.0})
