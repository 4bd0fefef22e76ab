"""A loss of the user's own: known ones written out give what they give, others their minimum."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from jax.tree_util import Partial
from scipy.optimize import minimize

import scaleopt as so
from scaleopt.fitting.loss import TUKEY


def amdahl(devices, *, serial, work):
    return serial + work / devices


@pytest.fixture(scope="module")
def table():
    """Twenty repeats on five counts with 5 % noise, and one row in twenty three times too long."""
    random = np.random.default_rng(7)
    devices = np.repeat([1, 2, 4, 8, 16], 20)
    time = (1 + 8 / devices) * np.exp(0.05 * random.normal(size=100))
    time[::20] *= 3
    return pd.DataFrame({"op": "step", "devices": devices, "time_s": time})


def fitted(table, loss):
    return so.fit(Partial(amdahl, serial=2.0, work=5.0), table, loss=loss)


def tukey(e):
    left = 1 - jnp.minimum((e / TUKEY) ** 2, 1.0)
    return TUKEY**2 / 6 * (1 - left**3)


def test_tukeys_written_out_is_tukeys(table):
    ours, theirs = fitted(table, tukey), fitted(table, "tukey")
    # Both end where the slope is 1e-8 of a parameter's noise.
    assert ours.estimate == pytest.approx(theirs.estimate, rel=1e-7)
    assert ours.standard_error == pytest.approx(theirs.standard_error, rel=1e-5)


def test_squares_written_out_have_their_minimum(table):
    # Their noise is another estimate, on which the place of the minimum does not depend.
    ours, theirs = fitted(table, lambda e: e**2 / 2), fitted(table, "squares")
    assert ours.estimate == pytest.approx(theirs.estimate, rel=1e-7)


def test_students_t_is_at_its_minimum(table):
    fit = fitted(table, lambda e: 2.5 * jnp.log1p(e**2 / 4))
    log_time, scale = np.log(table["time_s"].to_numpy()), fit.noise[0].repeat_noise

    def loss(u, scale):
        miss = log_time - np.log(np.exp(u[0]) + np.exp(u[1]) / table["devices"].to_numpy())
        return np.sum(np.log1p((miss / scale) ** 2 / 4))

    found = minimize(loss, np.log([2.0, 5.0]), args=(scale,), method="BFGS", tol=1e-9)
    # The scale in the fit is that of the kind, which says the same to a few percent; the minimum
    # moves by less than a hundredth of that.
    assert np.exp(found.x) == pytest.approx(fit.estimate, rel=2e-3)
    # Wild rows pull less than squares let them.
    truth = np.array([1.0, 8.0])
    squares = fitted(table, "squares").estimate
    assert np.all(np.abs(fit.estimate - truth) < np.abs(squares - truth))


@pytest.mark.parametrize(
    ("loss", "says"),
    [
        ("huber", "choose one of tukey, squares"),
        (lambda e: jnp.abs(e), "curved there"),
        (lambda e: jnp.cosh(e - 1), "least at a residual of 0"),
        (lambda e: jnp.sqrt(e), "not finite"),
        (lambda e: jnp.stack([e, e]), "one number for one residual"),
    ],
)
def test_a_loss_that_cannot_be_is_refused(table, loss, says):
    with pytest.raises(ValueError, match=says):
        fitted(table, loss)
