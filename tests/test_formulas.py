"""Laws against exact rational arithmetic, a simulation, and each other."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import rational

import scaleopt as so

SINGLE = 1e-5  # float32 keeps seven digits and a formula here loses at most two

devices = st.integers(1, 4096)
percent = st.integers(0, 100).map(lambda n: Fraction(n, 100))


growths = st.integers(1, 200).map(lambda n: Fraction(n, 4))
small = st.integers(0, 100).map(lambda n: Fraction(n, 1000))


@pytest.mark.parametrize(
    ("formula", "law"),
    [
        (so.amdahl_speedup, rational.amdahl),
        (so.gustafson_speedup, rational.gustafson),
        (so.gustafson_fraction, rational.gustafson_fraction),
        (so.amdahl_fraction, rational.amdahl_fraction),
    ],
    ids=lambda part: part.__name__,
)
@given(n=devices, p=percent)
def test_a_law_is_exact(formula, law, n, p):
    assert float(formula(n, float(p))) == pytest.approx(float(law(n, p)), rel=SINGLE)


@given(devices, percent, growths)
def test_sun_ni_is_exact(n, p, growth):
    exact = rational.sun_ni(n, p, growth)
    found = so.sun_ni_speedup(n, float(p), float(growth))
    assert float(found) == pytest.approx(float(exact), rel=SINGLE)


@given(st.integers(2, 4096), percent)
def test_karp_flatt_is_exact(n, p):
    with jax.enable_x64(True):
        found = so.karp_flatt(float(rational.amdahl(n, p)), n)
    assert float(found) == pytest.approx(float(rational.karp_flatt(n, p)), rel=1e-9, abs=1e-12)


@given(devices, small, small)
def test_usl_is_exact(n, contention, coherency):
    exact = rational.usl(n, 90, contention, coherency)
    found = so.usl_throughput(n, 90, float(contention), float(coherency))
    assert float(found) == pytest.approx(float(exact), rel=SINGLE)


@given(st.floats(0, 0.5), st.floats(1e-6, 0.1))
def test_past_its_peak_the_throughput_of_usl_falls(contention, coherency):
    """Falls at once, and towards λ/(κ N): twice as far out it is half as much."""
    peak = float(so.usl_peak_devices(contention, coherency))
    most = float(so.usl_peak_throughput(1.0, contention, coherency))
    times = [float(so.usl_throughput(peak * k, 1.0, contention, coherency)) for k in (1, 2, 1e3)]
    assert most == pytest.approx(times[0], rel=SINGLE)
    assert times[1] < times[0]
    with jax.enable_x64(True):
        far = 1e6 * (1 + contention) / coherency
        ends = [float(so.usl_throughput(n, 1.0, contention, coherency)) for n in (far, 2 * far)]
    assert ends[0] / ends[1] == pytest.approx(2, rel=1e-4)


@given(st.integers(2, 512), st.floats(0.01, 0.99))
def test_karp_flatt_finds_the_serial_fraction_of_amdahl(n, p):
    with jax.enable_x64(True):
        found = so.karp_flatt(so.amdahl_speedup(n, p), n)
    assert float(found) == pytest.approx(1 - p, rel=1e-9)


def test_amdahl_approaches_its_limit():
    assert float(so.amdahl_speedup(1e9, 0.95)) == pytest.approx(float(so.amdahl_limit(0.95)))
    assert np.isinf(so.amdahl_limit(1.0))


def test_karp_flatt_on_one_device_is_unknown():
    assert np.isnan(so.karp_flatt(1.0, 1))


def test_efficiency_is_speedup_for_each_device():
    assert float(so.efficiency(so.amdahl_speedup(8, 1.0), 8)) == 1.0


def test_the_two_roofs_meet_at_the_ridge():
    peak, bandwidth = 990e12, 3.35e12
    ridge = so.ridge_point(peak, bandwidth)
    assert float(so.attainable_rate(ridge, peak, bandwidth)) == pytest.approx(peak, rel=SINGLE)
    half = so.attainable_rate(ridge / 2, peak, bandwidth)
    assert float(half) == pytest.approx(peak / 2, rel=SINGLE)


STEP = so.StepTime(rate=120e12, alpha=8e-6, beta=1 / 25e9, serial_time=0.0167, launch=1e-5)


@given(devices, st.floats(1e9, 1e16), st.floats(0, 1e11), st.floats(0, 1))
def test_terms_add_up_to_the_step(n, flops, size, overlap):
    step = so.StepTime(120e12, 8e-6, 1 / 25e9, 0.0167, 1e-5, 0.5, overlap, 4.0, 0.3, 0.1)
    terms = step.terms(n, flops, size)
    whole = float(step(n, flops, size))
    assert float(terms.total) == whole
    parts = [float(part) for part in jax.tree.leaves(terms)]
    assert len(parts) == 6
    assert sum(parts) == pytest.approx(whole, rel=1e-6)  # six numbers of seven digits


def test_step_is_its_equation():
    n, flops, size = Fraction(8), Fraction(10) ** 14, Fraction(10) ** 8
    exact = (
        Fraction(167, 10_000)
        + flops / (n * 120 * 10**12)
        + Fraction(1, 100_000)
        + 2 * (n - 1) * Fraction(8, 10**6)
        + 2 * (n - 1) / n * size / (25 * 10**9)
    )
    assert float(STEP(8, 1e14, 1e8)) == pytest.approx(float(exact), rel=SINGLE)


def test_overlap_hides_communication_only_as_far_as_there_is_compute():
    full = so.StepTime(120e12, 8e-6, 1 / 25e9, overlap=1.0)
    none = so.StepTime(120e12, 8e-6, 1 / 25e9)
    with jax.enable_x64(True):
        assert float(full.terms(8, 1e14, 1e8).communication) == 0.0
        little, without = (step.terms(8, 1e10, 1e10) for step in (full, none))
        hidden = float(without.communication - little.communication)
    assert hidden == pytest.approx(float(little.compute), rel=1e-9)


def test_large_python_integers_are_numbers_like_any():
    on_both = np.asarray(STEP(jnp.arange(1, 3), 10**14, 10**10))
    assert on_both[1] == pytest.approx(float(STEP(2, 1e14, 1e10)))


def test_parameters_may_be_large_integers_too():
    whole = so.StepTime(rate=120 * 10**12, alpha=8e-6, beta=1 / 25e9)
    assert float(whole(8, 10**14, 10**8)) == pytest.approx(0.1113, rel=1e-3)
    assert float(so.optimal_devices(whole, 10**14, 10**8)) == pytest.approx(227.1, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "value"),
    [("alpha", -1e-6), ("rate", 0.0), ("overlap", 1.5), ("serial_time", float("nan"))],
)
def test_impossible_parameters_are_refused(name, value):
    numbers = {"rate": 1e12, "alpha": 1e-6, "beta": 1e-10} | {name: value}
    with pytest.raises(ValueError, match=f"StepTime: {name} is {value}"):
        so.StepTime(**numbers)


def test_text_is_no_number_of_a_model():
    for make in (
        lambda: so.StepTime(rate="text", alpha=1e-6, beta=1e-10),  # pyright: ignore
        lambda: so.Parallelism(tensor="2"),  # pyright: ignore
        lambda: so.Machine("160 TFLOP/s", 1.5e12, 8e-6, 5e-12),  # pyright: ignore
    ):
        with pytest.raises(TypeError, match=r"give a number in SI, such as so\.units\.parse gives"):
            make()
