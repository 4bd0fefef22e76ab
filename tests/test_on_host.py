"""NumPy on a function's trace against XLA's program of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scaleopt.models.machine import Machine, smooth_maximum
from scaleopt.planning.on_host import at_each

PLACES = np.random.default_rng(0).uniform(0.5, 4.0, (2, 20_000))


def everything(x, y):
    """Each operation that is known."""
    sure = jnp.isfinite(x) & ~(x > 3) | (x == y) | (x != y)
    powers = x**3 + jnp.sqrt(x) - jnp.abs(-x) * jnp.exp(-y) / jnp.log1p(x) + jnp.expm1(y)
    steps = jnp.floor(x) + jnp.ceil(y) + jnp.square(y) + jnp.tanh(x)
    ends = jnp.minimum(x, y) + jnp.maximum(x, 2.0) + jnp.clip(x, 1.0, y)
    return {
        "first": jnp.where(sure & (x >= y), powers, steps),
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


def test_what_is_elementwise_is_not_compiled():
    rate = jax.jit(lambda machine, x: machine.rate * x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scaleopt.planning.on_host._program", None)
        found = at_each(rate, Machine(rate=2.0, bandwidth=1.0, alpha=0.0, beta=0.0), PLACES[0])
    np.testing.assert_array_equal(found, 2 * PLACES[0])


def test_one_number_gives_one():
    assert at_each(jax.jit(gathered), 1.0, 3.0)[0].shape == ()
    assert at_each(jax.jit(everything), 1.0, 3.0)["first"].shape == ()
