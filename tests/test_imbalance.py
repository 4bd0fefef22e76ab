"""Waiting for the slowest: against quadrature, a draw of many steps, and dealing tasks by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slowest_of_many import exact

import scaleopt as so


@pytest.mark.parametrize("devices", [1, 2, 3, 5, 8, 16, 64, 256, 1000, 4096, 65_536, 10**6, 10**9])
def test_the_slowest_is_that_of_the_integral(devices):
    with jax.enable_x64(True):
        found = float(so.slowest_time(1.0, 1.0, devices)) - 1
    assert found == pytest.approx(exact(devices), rel=1.6e-3, abs=1e-12)


def test_the_slowest_is_that_of_drawn_steps():
    """40,000 steps: the mean of the maximum is known to 0.3 % of the spread."""
    random = np.random.default_rng(3)
    for devices in (2, 8, 32):
        drawn = random.normal(0.1, 0.005, (40_000, devices)).max(axis=1).mean()
        assert float(so.slowest_time(0.1, 0.05, devices)) == pytest.approx(drawn, abs=3e-5)


@given(st.integers(1, 2000), st.integers(1, 300))
def test_imbalance_is_that_of_dealing_tasks_round(tasks, devices):
    dealt = np.bincount(np.arange(tasks) % devices, minlength=devices)
    found = float(so.load_imbalance(tasks, devices))
    assert found == pytest.approx(dealt.max() / dealt.mean() - 1, rel=1e-5, abs=1e-12)


PLAIN = {"rate": 120e12, "alpha": 8e-6, "beta": 1 / 25e9, "serial_time": 0.0167}
WORK = (1e14, 1e8)


def test_what_more_devices_wait_for_costs_nothing_on_one():
    uneven = so.StepTime(**PLAIN, imbalance=0.3, spread=0.1)
    assert float(uneven(1, *WORK)) == pytest.approx(float(so.StepTime(**PLAIN)(1, *WORK)))


def test_the_slowest_device_is_waited_for():
    terms = so.StepTime(**PLAIN, imbalance=0.3, spread=0.1).terms(8, *WORK)
    assert float(terms.imbalance) == pytest.approx(0.3 * float(terms.compute), rel=1e-5)
    slowest = so.slowest_time(1.3 * terms.compute, 0.1, 8)
    busy = terms.compute + terms.imbalance + terms.straggling
    assert float(busy) == pytest.approx(float(slowest), rel=1e-5)


def test_only_the_last_micro_batch_hides_communication():
    little = so.StepTime(rate=1e14, alpha=0.0, beta=1e-9, overlap=0.5)
    many = so.StepTime(rate=1e14, alpha=0.0, beta=1e-9, overlap=0.5, accumulation=4)
    one, four = little.terms(8, 1e13, 1e8), many.terms(8, 4e13, 1e8)
    assert float(four.communication) == pytest.approx(float(one.communication), rel=1e-5)
    assert float(four.compute) == pytest.approx(4 * float(one.compute), rel=1e-5)


def test_an_all_reduce_of_ones_own_takes_the_place_of_the_ring():
    step = so.StepTime(**PLAIN, overlap=0.2)
    ring = so.all_reduce_time(WORK[1], 8, step.alpha, step.beta)
    assert float(step(8, *WORK, all_reduce=ring)) == pytest.approx(float(step(8, *WORK)))
    assert float(step.terms(8, *WORK, all_reduce=0.0).communication) == 0


steps = st.builds(
    so.StepTime,
    rate=st.floats(1e13, 1e15),
    alpha=st.floats(1e-6, 1e-4),
    beta=st.floats(1e-12, 1e-9),
    launch=st.sampled_from([0.0, 1e-3]),
    overlap=st.sampled_from([0.0, 0.6]),
    accumulation=st.sampled_from([1.0, 4.0]),
    imbalance=st.sampled_from([0.0, 0.4, 3.0]),
    spread=st.sampled_from([None, 0.01, 0.2, 0.6]),
)
MOST = 4000


@settings(max_examples=60)
@given(steps, st.floats(0.1, 10), st.floats(0, 1.2), st.sampled_from([1, 2, 3, 5, 50, MOST]))
def test_the_best_of_uneven_steps_is_that_of_brute_force(step, compute, share, most):
    flops, size = compute * step.rate, share * compute / (2 * step.beta)
    with jax.enable_x64(True):
        times = np.asarray(every(step, flops, size))[:most]
        best = so.best_devices(step, flops, size, max_devices=most)
        real = float(optimum(step, flops, size, float(most)))
        reached = float(step(real, flops, size))
    assert 1 <= real <= most
    assert times[best - 1] <= times.min() * (1 + 1e-12)
    assert reached <= times.min() * (1 + 1e-9)


optimum = jax.jit(
    lambda step, flops, size, most: so.optimal_devices(step, flops, size, max_devices=most)
)


@pytest.mark.parametrize(
    ("step", "size", "expected"),
    [
        (so.StepTime(1e14, 0.0, 1e-10, overlap=1.0), 0.0, float("inf")),
        (so.StepTime(1e14, 0.0, 0.0, spread=0.1), 0.0, float("inf")),
        (so.StepTime(1e14, 0.0, 1e-10, imbalance=0.5), 6e9, 1.0),
        (so.StepTime(1e14, 0.0, 1e-10, imbalance=0.5), 1e9, float("inf")),
        (so.StepTime(1e14, 1.0, 0.0, imbalance=0.5), 0.0, 1.0),
    ],
)
def test_the_ends_of_what_is_best(step, size, expected):
    """Without latency every device pays, unless what sets in with the second is never won back."""
    assert float(so.optimal_devices(step, 1e14, size)) == expected


def test_a_whole_best_may_lie_in_another_valley_than_the_real_one():
    """The kink at 1.29 is the least of all, and of whole numbers 160 beats 1 and 2."""
    step = so.StepTime(1e14, 9e-6, 1e-10, overlap=1.0, accumulation=4.0, spread=0.24)
    assert float(so.optimal_devices(step, 1e14, 4.25e9)) == pytest.approx(1.294, rel=1e-3)
    assert so.best_devices(step, 1e14, 4.25e9) == 160


def test_the_optimum_of_a_spread_takes_arrays():
    step = so.StepTime(**PLAIN, spread=0.1)
    both = so.optimal_devices(step, jnp.array([1e13, 1e14]), 0.0)
    each = [float(so.optimal_devices(step, flops, 0.0)) for flops in (1e13, 1e14)]
    assert np.asarray(both) == pytest.approx(each, rel=1e-5)


def test_the_optimum_on_a_staircase_is_at_the_foot_of_a_step():
    """A tree's levels make T jump at powers of two; brute force finds 16 383 before one."""
    step = so.StepTime(rate=1e14, alpha=5e-6, beta=1 / 25e9)

    def time(devices, flops, size):
        tree = so.all_reduce_time(
            size, devices, step.alpha, step.beta, algorithm="double_binary_tree"
        )
        return step(devices, flops, size, all_reduce=tree)

    with jax.enable_x64(True):
        whole = so.best_devices(time, 1e15, 1e9, max_devices=30_000)
        for most in (20_000, 30_000):
            real = float(so.optimal_devices(time, 1e15, 1e9, max_devices=most))
            assert whole <= real < whole + 1
    assert whole == 16_383


@jax.jit
def every(step, flops, size):
    return step(jnp.arange(1.0, MOST + 1), flops, size)


def test_strong_scaling_is_amdahl_where_nothing_is_sent():
    step = so.StepTime(rate=1e14, alpha=0.0, beta=0.0, serial_time=0.05)
    devices = jnp.array([1, 2, 8, 1000])
    curve = so.strong_scaling(step, devices, 0.95e14, 0.0)
    law = so.amdahl_speedup(devices, 0.95)
    assert np.asarray(curve.speedup) == pytest.approx(np.asarray(law), rel=1e-5)
    expected = so.efficiency(law, devices)
    assert np.asarray(curve.efficiency) == pytest.approx(np.asarray(expected), rel=1e-5)


def test_weak_scaling_is_gustafson_where_nothing_is_sent():
    """Per device 0.95 s of divided work beside 0.05 s serial: Gustafson's fraction at every N."""
    step = so.StepTime(rate=1e14, alpha=0.0, beta=0.0, serial_time=0.05)
    devices = jnp.array([1, 2, 8, 1000])
    curve = so.weak_scaling(step, devices, 0.95e14, 0.0)
    done = 0.05 + 0.95 * np.asarray(devices)  # seconds on one device for the grown work
    assert np.asarray(curve.time) == pytest.approx(np.ones(4), rel=1e-5)
    assert np.asarray(so.gustafson_speedup(devices, 0.95)) == pytest.approx(done, rel=1e-5)
    assert np.asarray(curve.speedup) == pytest.approx(np.asarray(devices), rel=1e-5)
