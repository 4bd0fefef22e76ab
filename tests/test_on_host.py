"""NumPy on a function's trace against XLA's program of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import simulated

import scaleopt as so
from scaleopt.fitting.many import problem_of
from scaleopt.fitting.on_host import at_each
from scaleopt.fitting.operations import program_of
from scaleopt.models.machine import Machine, smooth_maximum
from scaleopt.models.transformer import Transformer
from scaleopt.planning.asking.offer import Offer
from scaleopt.planning.plan import plan

PLACES = np.random.default_rng(0).uniform(0.5, 4.0, (2, 20_000))


def everything(x, y):
    """Each operation that is known."""
    sure = jnp.isfinite(x) & ~(x > 3) | (x == y) | (x != y)
    powers = x**3 + jnp.sqrt(x) - jnp.abs(-x) * jnp.exp(-y) / jnp.log1p(x) + jnp.expm1(y)
    steps = jnp.floor(x) + jnp.ceil(y) + jnp.square(y) + jnp.tanh(x) + jnp.exp2(y)
    slope = jax.grad(lambda z: z * jax.lax.stop_gradient(z) / (z + jnp.abs(z) ** 0.5))(x)
    ends = jnp.minimum(x, y) + jnp.maximum(x, 2.0) + jnp.clip(x, 1.0, y)
    return {
        "first": jnp.where(sure & (x >= y), powers, steps) + slope,
        "second": (ends, smooth_maximum(x, y)),
    }


def gathered(x, y):
    """With an array on its way."""
    return jnp.sum(jnp.stack([x, y, x]) * jnp.arange(3.0)), jnp.round(x) + y


@pytest.mark.parametrize("function", [everything, gathered])
@pytest.mark.parametrize("second", [PLACES[1], PLACES[1, :1], 2.0], ids=["many", "one", "number"])
def test_it_is_what_xla_says(function, second):
    found = at_each(jax.jit(function), PLACES[0], second)
    with jax.enable_x64(True):
        expected = jax.jit(jax.vmap(function))(PLACES[0], np.broadcast_to(second, PLACES[0].shape))
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert mine.dtype == np.float64
        np.testing.assert_allclose(mine, theirs, rtol=1e-14)  # powers are rounded otherwise


def test_nothing_that_a_plan_takes_from_the_models_is_compiled(monkeypatch):
    monkeypatch.setattr("scaleopt.fitting.on_host._at_many", None)
    model = Transformer(
        hidden=1024, layers=4, heads=8, seq_len=512, vocab=32000, experts=4, active_experts=2
    )
    machine = Machine(rate=1e14, bandwidth=1e12, alpha=1e-5, beta=1e-11)
    shaken = Offer(machine, 8, 80e9, interruptions=1e-7, checkpoint=60.0)
    assert "Where a step goes" in plan(model, [shaken], global_batch=16, steps=10).explain()


def test_one_number_gives_one():
    assert at_each(jax.jit(gathered), 1.0, 3.0)[0].shape == ()
    assert at_each(jax.jit(everything), 1.0, 3.0)["first"].shape == ()


def test_what_is_known_early_changes_nothing():
    number = jax.ShapeDtypeStruct((), np.float64)
    with jax.enable_x64(True):
        whole = program_of(jax.jit(everything).trace(number, number).jaxpr)
    assert whole is not None
    partly = whole.knowing(PLACES[1])
    assert len(partly.steps) < len(whole.steps)
    for mine, theirs in zip(partly(PLACES[0]), whole(*PLACES), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_one_point_of_a_fit_is_answered_as_many_are():
    fit = so.calibrate(simulated.table(0))
    seconds, theta = problem_of(fit).seconds, np.stack([fit.estimate, 2 * fit.estimate])
    assert seconds.by_numpy is not None
    compiled = seconds(theta)
    for place, each in enumerate(theta):
        for mine, theirs in zip(seconds(each[None]), compiled, strict=True):
            np.testing.assert_allclose(mine[0], theirs[place], rtol=1e-13)  # a sum's last digits


def test_nothing_that_a_report_takes_from_the_models_is_compiled(monkeypatch):
    for module in ("seconds", "propagate", "on_host"):
        monkeypatch.setattr(f"scaleopt.fitting.{module}._at_many", None)
    fit = so.calibrate(simulated.table(0, wild=0.05))
    assert "best of up to 64" in so.report(fit, so.choose_devices(fit, 1e14, 1e8, 64), {})
