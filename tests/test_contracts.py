"""Every exported formula and model keeps the contracts; a new one joins by being exported."""

import inspect

import equinox as eqx
import jax.numpy as jnp
import pytest

import scaleopt as so
from scaleopt.testing import check_model, subject
from scaleopt.units import Bytes, Seconds, SecondsPerByte

FORMULAS = [
    getattr(so, name)
    for name in dir(so)
    if getattr(getattr(so, name), "__module__", "").startswith("scaleopt.models")
    and inspect.isfunction(getattr(so, name))
]
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
        return jnp.asarray(alpha) ** 2 / (alpha + hidden)

    with pytest.raises(AssertionError, match=r"transfer: the time goes from .* when hidden is"):
        check_model(transfer)


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
