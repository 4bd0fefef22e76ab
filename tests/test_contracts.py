"""Every exported formula and model keeps the contracts; a new one joins by being exported."""

import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from hypothesis import given

import scaleopt as so
from scaleopt.models.collectives import collective_time
from scaleopt.models.schedules import ALGORITHMS
from scaleopt.testing import check_model, subject
from scaleopt.units import Bytes, Count, Excess, Seconds, SecondsPerByte

FORMULAS = [
    getattr(so, name)
    for name in dir(so)
    if getattr(getattr(so, name), "__module__", "").startswith("scaleopt.models")
    and inspect.isfunction(getattr(so, name))
    and "model" not in inspect.signature(getattr(so, name)).parameters
]
"""Of numbers alone; what takes a whole transformer is held to its own oracles."""
MODELS = [so.StepTime(rate=1e12, alpha=1e-6, beta=1e-10)]


def test_all_formulas_are_found():
    assert {"amdahl_speedup", "all_reduce_time", "ridge_point"} <= {f.__name__ for f in FORMULAS}


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda formula: formula.__name__)
def test_formula_keeps_the_contracts(formula):
    check_model(formula)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_model_keeps_the_contracts(model):
    check_model(model)


def test_a_wrong_dimension_is_named():
    def transfer(size: Bytes, beta: SecondsPerByte) -> Seconds:
        return size * jnp.asarray(beta) ** 2

    with pytest.raises(AssertionError, match="transfer is not in s"):
        check_model(transfer)


def test_a_wrong_direction_is_named():
    def transfer(alpha: Seconds, hidden: Seconds) -> Seconds:
        both = jnp.asarray(alpha) + hidden
        return jnp.asarray(alpha) ** 2 / jnp.where(both > 0, both, 1.0)

    with pytest.raises(AssertionError, match=r"transfer: the time goes from .* when hidden is"):
        check_model(transfer)


def test_a_time_that_is_not_a_number_is_named():
    def transfer(size: Bytes, alpha: Seconds, beta: SecondsPerByte) -> Seconds:
        return jnp.asarray(alpha) + beta * jnp.asarray(size) * size / size

    with pytest.raises(AssertionError, match="transfer: the time is not a number"):
        check_model(transfer)


def test_a_time_that_falls_with_an_excess_is_named():
    def waiting(time: Seconds, spread: Excess) -> Seconds:
        return jnp.asarray(time) * jnp.exp(-jnp.asarray(spread))

    with pytest.raises(AssertionError, match=r"waiting: the time goes from .* when spread is"):
        check_model(waiting)


def test_a_time_that_jumps_at_the_end_of_its_domain_is_named():
    def transfer(size: Bytes, alpha: Seconds, beta: SecondsPerByte) -> Seconds:
        alpha, beta = jnp.asarray(alpha), jnp.asarray(beta)
        return jnp.where(jnp.asarray(size) > 0, alpha + beta * size, 0.0)

    with pytest.raises(AssertionError, match=r"transfer: towards size = 0.0 it goes to"):
        check_model(transfer)


@pytest.mark.parametrize(
    ("collective", "algorithm"), [(c, name) for c in ALGORITHMS for name in ALGORITHMS[c]]
)
def test_every_algorithm_keeps_the_contracts(collective, algorithm):
    def time(
        size: Bytes, devices: Count, alpha: Seconds, beta: SecondsPerByte, launch: Seconds
    ) -> Seconds:
        return collective_time(collective, algorithm, size, devices, alpha, beta, launch)

    check_model(time, examples=8)


@given(so.testing.machines(), so.testing.works(), so.testing.devices())
def test_a_drawn_machine_takes_its_parts_of_time_for_a_drawn_work(machine, work, devices):
    with jax.enable_x64(True):
        terms = jitted_terms(machine, float(devices), *work)
    parts = [float(part) for part in jax.tree.leaves(terms)]
    assert all(0 <= part < float("inf") for part in parts)
    assert float(terms.compute) > 0


@given(so.testing.links(), so.testing.works(), so.testing.devices())
def test_a_drawn_link_carries_a_drawn_work(link, work, devices):
    with jax.enable_x64(True):
        time = float(jitted_ring(work.size, float(devices), *link))
    assert time >= link.launch


jitted_terms = jax.jit(so.StepTime.terms)
jitted_ring = jax.jit(
    lambda size, devices, alpha, beta, launch: so.all_reduce_time(
        size, devices, alpha, beta, launch=launch
    )
)


def test_a_gradient_that_is_not_a_number_is_named():
    def root(alpha: Seconds, other: Seconds) -> Seconds:
        return jnp.sqrt(jnp.asarray(alpha)) * jnp.sqrt(jnp.asarray(other))

    with pytest.raises(AssertionError, match="the derivative by alpha is"):
        check_model(root)


def test_a_missing_unit_is_named():
    class Model(eqx.Module):
        alpha: float

        def __call__(self, size: Bytes) -> Seconds:
            return self.alpha * size

    with pytest.raises(TypeError, match="alpha has no unit"):
        subject(Model(1.0))
