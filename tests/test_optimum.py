"""N*: against brute force over whole N, differences, and a search that knows no closed form."""

import jax
import numpy as np
import pandas as pd
import pytest
import simulated
from hypothesis import given
from hypothesis import strategies as st

import scaleopt as so
from scaleopt.show.record import record
from scaleopt.show.text import report

STEP = so.StepTime(rate=120e12, alpha=8e-6, beta=1 / 25e9, serial_time=0.0167)
MACHINES = 1000
MOST = 3000


def random_machines(seed=0):
    """Machines and workloads whose best N lies anywhere from 1 to beyond `MOST`."""
    random = np.random.default_rng(seed)
    for _ in range(MACHINES):
        rate, alpha = 10 ** random.uniform(10, 15), 10 ** random.uniform(-7, -3)
        beta, launch = 10 ** random.uniform(-12, -9), 10 ** random.uniform(-6, -3)
        overlap = random.choice([0.0, random.uniform(0, 1)])
        compute = 10 ** random.uniform(-4, 2)
        size = random.uniform(0, 1) * compute / (2 * beta) * 10 ** random.uniform(-3, 0.3)
        step = so.StepTime(rate, alpha, beta, 1e-3, launch, 0.7, overlap)
        yield step, compute * rate, size


def seconds(step, devices, flops, size):
    """The step model written out once more, in NumPy."""
    compute = flops / (step.rate * step.compute_efficiency) / devices
    reduce = 2 * (devices - 1) * (step.alpha + step.beta * size / devices)
    exposed = np.maximum(reduce - step.overlap * compute, 0)
    return step.serial_time + step.launch + compute + exposed


def test_whole_best_is_that_of_brute_force_on_random_machines():
    every = np.arange(1.0, MOST + 1)
    for step, flops, size in random_machines():
        times = seconds(step, every, flops, size)
        best = so.best_devices(step, flops, size, max_devices=MOST)
        # Where two whole N tie to the last digit of float64 either is the best.
        assert times[best - 1] <= times.min() * (1 + 1e-14), (step, flops, size)
        assert 1 <= best <= MOST


def test_the_limit_is_never_exceeded():
    for most in (1, 2, 8, 227, 228, 10_000):
        assert so.best_devices(STEP, 1e14, 1e8, max_devices=most) == min(227, most)
        assert float(so.optimal_devices(STEP, 1e14, 1e8, max_devices=most)) <= most


def test_closed_form_is_the_textbook_one():
    expected = np.sqrt((1e14 / 120e12 - 2 * 1e8 / 25e9) / (2 * 8e-6))
    assert float(so.optimal_devices(STEP, 1e14, 1e8)) == pytest.approx(expected, rel=1e-5)


machines = st.builds(
    so.StepTime,
    rate=st.floats(1e10, 1e15),
    alpha=st.floats(1e-7, 1e-4),
    beta=st.floats(1e-12, 1e-9),
    launch=st.sampled_from([0.0, 1e-6, 1e-3]),
    compute_efficiency=st.floats(0.1, 1),
    overlap=st.sampled_from([0.0, 0.3, 0.9]),
)

optimum = jax.jit(so.optimal_devices)
slopes_of_optimum = jax.jit(jax.grad(so.optimal_devices, argnums=(0, 1, 2)))
optimum_by_search = jax.jit(
    lambda step, flops, size: so.optimal_devices(lambda *a: step(*a), flops, size, max_devices=1e9)
)


@given(machines, st.floats(0.1, 100), st.floats(0, 0.4))
def test_gradients_of_the_optimum_are_its_differences(step, compute, share):
    with jax.enable_x64(True):
        flops = compute * step.rate
        size = share * compute / (2 * step.beta)
        slopes = slopes_of_optimum(step, flops, size)
        leaves, shape = jax.tree.flatten((step, flops, size))
        for place, slope in enumerate(jax.tree.leaves(slopes)):
            leaf = leaves[place]
            if leaf == 0:
                assert np.isfinite(slope)
                continue
            found = []
            for nudge in (1e-6, -1e-6):
                moved = [*leaves[:place], leaf * (1 + nudge), *leaves[place + 1 :]]
                found.append(float(optimum(*jax.tree.unflatten(shape, moved))))
            difference = (found[0] - found[1]) / (2e-6 * leaf)
            # A difference of 1e-6 leaves ten digits of N*, and N* has a bend where overlap ends.
            room = 1e-4 * abs(difference) + 1e-9 * found[0] / leaf
            assert float(slope) == pytest.approx(difference, abs=room)


@given(machines, st.floats(0.1, 100), st.floats(0, 0.4))
def test_a_callable_is_minimised_to_the_same_optimum(step, compute, share):
    with jax.enable_x64(True):
        flops, size = compute * step.rate, share * compute / (2 * step.beta)
        closed = float(optimum(step, flops, size))
        found = float(optimum_by_search(step, flops, size))
        reached = float(step(found, flops, size) / step(closed, flops, size))
    assert reached == pytest.approx(1, abs=1e-4 if step.overlap else 1e-9)
    if not step.overlap:
        assert found == pytest.approx(closed, rel=1e-4)


def test_a_callable_is_differentiated_through_its_condition():
    def slope(time):
        return jax.grad(lambda flops: so.optimal_devices(time, flops, 1e8))(1e14)

    # float32 leaves about three digits of a second derivative.
    assert float(slope(lambda *a: STEP(*a))) == pytest.approx(float(slope(STEP)), rel=1e-2)


def test_best_of_a_callable_is_found_by_trial():
    assert so.best_devices(lambda *a: STEP(*a), 1e14, 1e8, max_devices=1000) == 227
    with pytest.raises(ValueError, match="max_devices is needed"):
        so.best_devices(lambda *a: STEP(*a), 1e14, 1e8)


def test_one_device_is_best_where_no_split_pays():
    assert float(so.optimal_devices(STEP, 1e10, 1e12)) == 1.0
    assert so.best_devices(STEP, 1e10, 1e12) == 1
    gradient = jax.grad(lambda step: so.optimal_devices(step, 1e10, 1e12))(STEP)
    assert all(float(slope) == 0.0 for slope in jax.tree.leaves(gradient))


def test_without_latency_there_is_no_best_number():
    free = so.StepTime(rate=120e12, alpha=0.0, beta=1 / 25e9)
    assert np.isinf(so.optimal_devices(free, 1e14, 1e8))
    assert float(so.optimal_devices(free, 1e14, 1e8, max_devices=64)) == 64.0
    assert so.best_devices(free, 1e14, 1e8, max_devices=64) == 64
    with pytest.raises(ValueError, match=r"alpha is 0 s.* give max_devices"):
        so.best_devices(free, 1e14, 1e8)
    gradient = jax.grad(lambda step: so.optimal_devices(step, 1e14, 1e8))(free)
    assert all(np.isfinite(float(slope)) for slope in jax.tree.leaves(gradient))


def test_a_callable_that_always_falls_has_no_best_number():
    def falling(devices, flops, size):
        return flops / devices

    assert np.isinf(so.optimal_devices(falling, 1e14, 0.0))
    assert float(so.optimal_devices(falling, 1e14, 0.0, max_devices=1000)) == 1000.0


def test_a_limit_between_whole_numbers_is_not_exceeded():
    assert so.best_devices(STEP, 1e14, 1e8, max_devices=8.5) == 8  # pyright: ignore


@pytest.mark.parametrize(("flops", "size"), [(0.0, 1.0), (float("nan"), 1.0), (1e9, -1.0)])
def test_a_step_without_work_is_refused(flops, size):
    with pytest.raises(ValueError, match=r"flops=|size="):
        so.best_devices(STEP, flops, size)


@pytest.mark.parametrize("most", [0, -1, float("nan")])
def test_a_limit_below_one_is_refused(most):
    for choose in (so.optimal_devices, so.best_devices):
        with pytest.raises(ValueError, match="must be 1 or more"):
            choose(STEP, 1e14, 1e8, max_devices=most)


def test_intervals_of_the_optimum_hold_the_truth():
    truth = float(so.optimal_devices(STEP, 1e14, 1e8))
    held = 0
    for seed in range(40):
        fit = so.calibrate(simulated.table(seed))
        optimal = so.optimal_devices(fit, 1e14, 1e8)
        assert optimal.low < optimal.value < optimal.high < 1.1 * optimal.low
        held += optimal.low <= truth <= optimal.high
    assert held >= 35  # at 95 % fewer than 35 of 40 has a chance of one in a hundred


def test_whole_numbers_have_whole_intervals():
    fit = so.calibrate(simulated.table(0))
    best = so.best_devices(fit, 1e14, 1e8)
    assert best.low <= best.value <= best.high
    assert all(number == int(number) for number in best[:3])
    assert so.best_devices(fit, 1e14, 1e8, max_devices=8)[:3] == (8.0, 8.0, 8.0)


def test_what_the_rows_do_not_see_leaves_the_optimum_open():
    fit = so.calibrate(simulated.table(0, works=(1e14,), sizes=(1e9,), reduced=()))
    other = so.optimal_devices(fit, 1e13, 1e9)
    assert (other.low, other.high) == (1.0, np.inf)
    assert np.isnan(other.value)
    best = so.best_devices(fit, 1e13, 1e9, max_devices=100)
    assert best[1:3] == (1.0, 100.0)
    assert np.isnan(best.value)
    assert so.optimal_devices(fit, 1e14, 1e9).low > 1.0


def test_where_nothing_is_told_no_number_looks_like_an_answer():
    """Three rows: a choice has no best, no time there, no share and no contradiction."""
    table = pd.DataFrame({"op": "step", "devices": [1, 2, 4], "time_s": [0.01, 0.006, 0.004]})
    fit = so.calibrate(table.assign(flops=1e9, size_bytes=1e6))
    choice = so.choose_devices(fit, 1e9, 1e6, max_devices=4)
    assert choice.open
    assert np.isnan([choice.optimal.value, choice.best.value, float(choice.time.time)]).all()
    assert (choice.shares, choice.limit, choice.contradiction) == ({}, "not told", None)
    assert np.isnan(so.best_devices(fit, 1e9, 1e6).value)
    assert "any number may be" in report(fit, choice, {})
    told = record(fit, choice, {})["choice"]
    assert told["best_devices"]["value"] is None
    assert told["time_s"]["value"] is None


def test_an_optimum_at_a_limit_is_no_more_certain_than_elsewhere():
    """N* held at 1 or at the most does not move, but what it is made of is not seen."""
    for seed in range(4):
        fit = so.calibrate(simulated.table(seed, works=(1e14,), sizes=(1e9,), reduced=()))
        assert so.optimal_devices(fit, 1e13, 1e9)[1:3] == (1.0, np.inf)
        assert so.best_devices(fit, 2e13, 1e9, max_devices=4)[1:3] == (1.0, 4.0)


def test_a_choice_tells_what_double_costs_and_what_limits():
    fit = so.calibrate(simulated.table(0))
    choice = so.choose_devices(fit, 1e14, 1e8, max_devices=8)
    best = choice.optimal.value
    expected = seconds(fit.model, 2 * best, 1e14, 1e8) / seconds(fit.model, best, 1e14, 1e8) - 1
    assert choice.slowdown_at_double == pytest.approx(expected, rel=1e-9)
    assert choice.limit == "compute"
    assert sum(choice.shares.values()) == pytest.approx(1.0)
    assert choice.speedup == pytest.approx(
        seconds(fit.model, 1, 1e14, 1e8) / seconds(fit.model, 8, 1e14, 1e8), rel=1e-9
    )
    with pytest.raises(ValueError, match="flops=0"):
        so.choose_devices(fit, 0.0, 1e8, max_devices=8)


def test_a_machine_is_told_where_its_best_is_found():
    machine = so.Machine(rate=2e14, bandwidth=1.5e12, alpha=8e-6, beta=5e-12)
    for ask in (so.optimal_devices, so.best_devices):
        with pytest.raises(TypeError, match=r"a number of devices alone has no time; use so\.plan"):
            ask(machine, 1e14, 1e8)  # pyright: ignore
    for curve in (so.strong_scaling, so.weak_scaling):
        with pytest.raises(TypeError, match=r"use so\.plan"):
            curve(machine, np.arange(1, 3), 1e14, 1e8)  # pyright: ignore
