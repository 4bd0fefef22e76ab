"""A million T(N), alone and with gradients: the compiled model against the same formulas in NumPy.

Command: pytest tests/benchmarks/test_step_time.py --benchmark-enable

Both count in float64, for every N from 1 to a million; the gradient is by alpha, beta, rate and
serial_time. Without the option each runs once, untimed, and both are compared.

With gradients a call returns 40 MB of new arrays. Where the allocator has handed the last ones back
to the system, fetching the pages again takes longer than the arithmetic, for one or for both, and
the ratio says little. To have them kept (glibc), put before the command

    MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=2000000000 MALLOC_MMAP_THRESHOLD_=33000000
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from paired import paired

import scaleopt as so

FLOPS, SIZE = 1e15, 1e9
AT = {"alpha": 5e-6, "beta": 1 / 25e9, "rate": 1e14, "serial_time": 0.0167}
DEVICES = np.arange(1, 1_000_001, dtype=float)
ROUNDING = 1e-12  # some ten roundings of float64, with room


def seconds(parameters, devices):
    return so.StepTime(**parameters)(devices, FLOPS, SIZE)


def with_gradient(parameters, devices):
    return jax.vmap(jax.value_and_grad(seconds), in_axes=(None, 0))(parameters, devices)


def compiled(function):
    """The function at all N, compiled."""
    with jax.enable_x64(True):
        parameters = {name: jnp.asarray(value) for name, value in AT.items()}
        devices, fast = jnp.asarray(DEVICES), jax.jit(function)

    def call():
        with jax.enable_x64(True):
            return jax.block_until_ready(fast(parameters, devices))

    call()
    return call


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


@pytest.mark.benchmark(group="a million T(N)")
def test_it_takes_less_than_numpy(benchmark):
    mine, theirs, ratio = paired(
        benchmark, compiled(seconds), lambda: seconds_by_hand(AT, DEVICES), rounds=100
    )
    np.testing.assert_allclose(mine, theirs, rtol=ROUNDING)
    assert ratio < 1


@pytest.mark.benchmark(group="a million T(N), each with its gradient")
def test_gradients_take_less_than_numpy(benchmark):
    """NumPy's are held against differences of T, so that both are not alike by one mistake."""
    (found, slopes), (time, by_hand), ratio = paired(
        benchmark, compiled(with_gradient), lambda: gradient_by_hand(AT, DEVICES), rounds=100
    )
    np.testing.assert_allclose(found, time, rtol=ROUNDING)
    assert set(slopes) == set(by_hand)
    for name, slope in by_hand.items():
        np.testing.assert_allclose(slopes[name], slope, rtol=ROUNDING, err_msg=name)
        step = 1e-4 * AT[name]
        above, below = (
            seconds_by_hand(AT | {name: AT[name] + change}, DEVICES) for change in (step, -step)
        )
        # What rounding T leaves of a difference, and the cubic term of the reciprocal of the rate.
        lost = 4 * np.finfo(float).eps * time / step
        assert (np.abs((above - below) / (2 * step) - slope) <= lost + 2e-8 * np.abs(slope)).all()
    assert ratio < 1
