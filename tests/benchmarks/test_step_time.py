"""A million T(N), alone and with gradients: the compiled model against the same formulas in NumPy.

Command: pytest tests/benchmarks --benchmark-enable

Both count in float64, for every N from 1 to a million; the gradient is by alpha, beta, rate and
serial_time. What counts is the ratio of the two medians of a group in one run. Without the option
each runs once, untimed, and both are compared.

With gradients a call returns 40 MB of new arrays. Where the allocator has handed the last ones back
to the system, fetching the pages again takes longer than the arithmetic, for one or for both, and
the ratio says little. To have them kept (glibc), put before the command

    MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=2000000000 MALLOC_MMAP_THRESHOLD_=33000000
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scaleopt as so

FLOPS, SIZE = 1e15, 1e9
AT = {"alpha": 5e-6, "beta": 1 / 25e9, "rate": 1e14, "serial_time": 0.0167}
DEVICES = np.arange(1, 1_000_001, dtype=float)
ROUNDING = 1e-12  # some ten roundings of float64, with room

alone = pytest.mark.benchmark(group="a million T(N)", min_rounds=100)
derived = pytest.mark.benchmark(group="a million T(N), each with its gradient", min_rounds=100)


def seconds(parameters, devices):
    return so.StepTime(**parameters)(devices, FLOPS, SIZE)


def with_gradient(parameters, devices):
    return jax.vmap(jax.value_and_grad(seconds), in_axes=(None, 0))(parameters, devices)


def compiled(function, benchmark):
    """What the function gives at all N, timed once it is compiled."""
    with jax.enable_x64(True):
        parameters = {name: jnp.asarray(value) for name, value in AT.items()}
        devices, fast = jnp.asarray(DEVICES), jax.jit(function)
        jax.block_until_ready(fast(parameters, devices))
        return benchmark(lambda: jax.block_until_ready(fast(parameters, devices)))


def seconds_by_hand(parameters, devices):
    """T(N), written out."""
    alpha, beta, rate, serial_time = (parameters[name] for name in AT)
    messages = 2 * (devices - 1)
    compute = FLOPS / (devices * rate)
    return serial_time + compute + messages * alpha + messages / devices * (SIZE * beta)


def gradient_by_hand(parameters, devices):
    """T(N) and its derivatives, written out, each intermediate once."""
    alpha, beta, rate, serial_time = (parameters[name] for name in AT)
    compute = FLOPS / (devices * rate)
    by_alpha = 2 * (devices - 1)
    by_beta = by_alpha / devices * SIZE
    time = serial_time + compute + by_alpha * alpha + by_beta * beta
    slopes = {
        "alpha": by_alpha,
        "beta": by_beta,
        "rate": -compute / rate,
        "serial_time": np.ones_like(devices),
    }
    return time, slopes


@alone
def test_compiled(benchmark):
    found = compiled(seconds, benchmark)
    np.testing.assert_allclose(found, seconds_by_hand(AT, DEVICES), rtol=ROUNDING)


@alone
def test_numpy(benchmark):
    found = benchmark(seconds_by_hand, AT, DEVICES)
    np.testing.assert_allclose(found, gradient_by_hand(AT, DEVICES)[0], rtol=ROUNDING)


@derived
def test_compiled_gradient(benchmark):
    found, slopes = compiled(with_gradient, benchmark)
    expected, by_hand = gradient_by_hand(AT, DEVICES)
    np.testing.assert_allclose(found, expected, rtol=ROUNDING)
    assert set(slopes) == set(by_hand)
    for name, slope in by_hand.items():
        np.testing.assert_allclose(slopes[name], slope, rtol=ROUNDING, err_msg=name)


@derived
def test_numpy_gradient(benchmark):
    """Against differences of T, so that the two gradients are not alike by one mistake."""
    time, slopes = benchmark(gradient_by_hand, AT, DEVICES)
    for name, slope in slopes.items():
        step = 1e-4 * AT[name]
        above, below = (
            seconds_by_hand(AT | {name: AT[name] + change}, DEVICES) for change in (step, -step)
        )
        # What rounding T leaves of a difference, and the cubic term of the reciprocal of the rate.
        lost = 4 * np.finfo(float).eps * time / step
        assert (np.abs((above - below) / (2 * step) - slope) <= lost + 2e-8 * np.abs(slope)).all()
