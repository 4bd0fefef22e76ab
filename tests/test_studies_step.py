"""The numbers that the studies of the step and its all-reduce state."""

import batch_and_overhead
import best_devices_example
import numpy as np
import pytest
import ring_limits
from oracles import network

import scaleopt as so

DOUBLE = 1e-9  # the studies count in float64; a simulation adds up to 126 floats
PRINTED = 5e-3  # numbers that a study rounds to three digits


def test_a_ring_takes_what_its_messages_take_and_keeps_to_its_limits():
    """For every N up to 64, each term alone and both together."""
    devices = range(2, 65)
    found = ring_limits.terms(devices).to_dict("index")
    size, alpha, beta = ring_limits.SIZE, ring_limits.ALPHA, ring_limits.BETA
    for count in devices:
        row = found[count]
        for column, (latency, inverse) in {
            "bandwidth": (0.0, beta),
            "latency": (alpha, 0.0),
            "ring": (alpha, beta),
        }.items():
            exact = network.ring_all_reduce(size, count, latency, inverse)
            assert row[column] * so.units.ms == pytest.approx(exact, rel=DOUBLE), (count, column)
        # Both terms stay below their limits, by one part in N.
        assert row["of 2βM"] == pytest.approx(1 - 1 / count, rel=DOUBLE)
        assert row["of 2Nα"] == pytest.approx(1 - 1 / count, rel=DOUBLE)


def test_ring_limits():
    assert pytest.approx(1024, rel=DOUBLE) == ring_limits.CROSSING
    found = ring_limits.compared().to_dict("index")
    for devices, ratio in {64: 1 / 16, 512: 0.5, 1024: 1.0, 2048: 2.0, 16_384: 16.0}.items():
        assert found[devices]["ratio"] == pytest.approx(ratio, rel=DOUBLE)
    for devices, column, expected in (
        (2, "bandwidth", 5.12),
        (64, "of 2βM", 0.984375),
        (64, "latency", 0.63),
        (1024, "latency", 10.23),
        (16_384, "latency", 163.83),
        (1024, "ring", 20.46),
        (1024, "Rabenseifner", 10.33),
        (1024, "recursive doubling", 51.25),
        (1024, "saved", 0.4951124),
        (1025, "Rabenseifner", 20.58),
    ):
        assert found[devices][column] == pytest.approx(expected, rel=1e-6), (devices, column)
    assert found[1025]["ring"] == pytest.approx(20.47, abs=0.005)
    assert found[1025]["saved"] < 0
    assert ring_limits.doubling_pays_below() == pytest.approx(156e3, rel=PRINTED)


def test_between_powers_of_two_the_ring_wins_up_to_the_crossing():
    between = [devices for devices in range(17, 4096) if devices & (devices - 1)]
    saved = ring_limits.compared(between)["saved"].to_numpy()
    assert [devices for devices, share in zip(between, saved, strict=True) if share < 0] == [
        devices for devices in between if devices <= 1035
    ]


@pytest.mark.parametrize("devices", [31, 32, 33, 64])
def test_the_other_algorithms_take_what_their_messages_take(devices):
    row = ring_limits.compared([devices]).to_dict("index")[devices]
    size, alpha, beta = ring_limits.SIZE, ring_limits.ALPHA, ring_limits.BETA
    doubling = network.recursive_doubling_all_reduce(size, devices, alpha, beta)
    halving = network.rabenseifner_all_reduce(size, devices, alpha, beta)
    assert row["recursive doubling"] * so.units.ms == pytest.approx(doubling, rel=DOUBLE)
    assert row["Rabenseifner"] * so.units.ms == pytest.approx(halving, rel=DOUBLE)


def test_best_devices_example():
    found = best_devices_example.example().to_dict("index")
    best = found["N*"]
    assert best["N"] == pytest.approx(((10 - 0.08) / 1e-5) ** 0.5, rel=DOUBLE)
    assert best["N"] == pytest.approx(995.99, abs=0.005)
    assert found["sqrt(W/(2rα))"]["N"] == pytest.approx(1000, rel=DOUBLE)
    assert best["T"] == pytest.approx(99.91, abs=0.005)
    assert best["bandwidth"] == pytest.approx(79.92, abs=0.005)
    assert best["efficiency"] == pytest.approx(0.1, rel=PRINTED)
    assert best["device-seconds"] == pytest.approx(99.5, abs=0.05)
    assert found["2N*"]["T"] == pytest.approx(104.89, abs=0.005)
    assert found["N*/2"]["T"] == pytest.approx(found["2N*"]["T"], rel=DOUBLE)
    assert found["best whole N"]["N"] == 996
    few = found["fewest within 5 %"]
    assert (few["N"], found["most within 5 %"]["N"]) == (498, 1994)
    assert few["device-seconds"] == pytest.approx(52.2, abs=0.05)
    assert few["slower"] == pytest.approx(0.05, abs=5e-4)
    assert few["saved"] == pytest.approx(0.475, abs=5e-4)


def test_the_fewest_within_five_percent_is_the_root_of_a_quadratic():
    """T = c + a/N + bN is 5 % above its least value 2 √(ab) + c at two N."""
    a, b = 10 - 0.08, 1e-5
    c = 0.08 - b
    more = 1.05 * (c + 2 * (a * b) ** 0.5) - c
    root = (more**2 - 4 * a * b) ** 0.5
    low, high = (more - root) / (2 * b), (more + root) / (2 * b)
    assert best_devices_example.nearly_best() == (int(np.ceil(low)), int(np.floor(high)))


def test_the_claimed_overhead():
    assert float(batch_and_overhead.overhead(1)) == 0.5
    assert float(batch_and_overhead.overhead(32)) == pytest.approx(5 / 165, rel=DOUBLE)
    found = batch_and_overhead.readings().to_dict("index")
    linear = found["compute grows with the batch"]
    assert linear["overhead of the step"] == pytest.approx(5 / 165, rel=DOUBLE)
    assert linear["overhead of the compute"] == pytest.approx(5 / 160, rel=DOUBLE)
    for reading, column, batch, fixed in (
        ("5 % of the step", "overhead of the step", 19, 65 / 31),
        ("5 % of the compute", "overhead of the compute", 20, 60 / 31),
    ):
        row = found[reading]
        assert row[column] == pytest.approx(0.05, rel=DOUBLE)
        assert row["all samples alike: batch"] == pytest.approx(batch, rel=DOUBLE)
        assert row["of it fixed"] == pytest.approx(fixed, rel=DOUBLE)
        # The first sample still takes 5 ms, and the 32 take what the reading needs.
        per_sample = 5 - row["of it fixed"]
        assert row["of it fixed"] + 32 * per_sample == pytest.approx(row["compute"], rel=DOUBLE)


def test_the_least_batch_keeps_the_overhead():
    """The model of the whole step, given the batch's work, communicates for 5 % of it."""
    of = batch_and_overhead
    step = so.StepTime(rate=of.RATE, alpha=of.ALPHA, beta=of.BETA)
    found = of.batches().to_dict("index")
    for devices in of.DEVICES:
        row = found[devices]
        terms = step.terms(devices, row["batch"] * of.RATE * of.SAMPLE, of.SIZE)
        share = float(terms.communication) / float(terms.total)
        assert share == pytest.approx(0.05, rel=1e-5)  # the model counts in float32


def test_the_least_batch_grows_as_the_rule_and_beyond():
    of = batch_and_overhead
    found = of.batches().to_dict("index")
    for devices in of.DEVICES:
        row = found[devices]
        x = of.ALPHA * devices / (of.BETA * of.SIZE)
        assert row["exponent"] == pytest.approx(1 + 1 / (devices - 1) + x / (1 + x), rel=DOUBLE)
    for devices, exponent, growth, each in (
        (2, 2.00, 3.01, 9.5),
        (24, 1.09, 2.14, 19.1),
        (500, 1.50, 3.00, 37.9),
        (50_000, 1.99, 3.98, 1919),
    ):
        row = found[devices]
        assert row["exponent"] == pytest.approx(exponent, rel=PRINTED)
        assert row["batch(2N)/batch(N)"] == pytest.approx(growth, rel=PRINTED)
        assert row["on each device"] == pytest.approx(each, rel=PRINTED)


@pytest.mark.parametrize(("times", "least", "at"), [(1, 1.09, 24), (16, 1.02, 91)])
def test_larger_gradients_come_nearer_to_doubling(times, least, at):
    of = batch_and_overhead
    devices = np.arange(2, 1000, dtype=float)
    exponents = of.exponent(devices, times * of.SIZE)
    assert exponents.min() == pytest.approx(least, rel=PRINTED)
    assert devices[exponents.argmin()] == at
    near = 1 + 2 * (of.ALPHA / (of.BETA * times * of.SIZE)) ** 0.5
    assert exponents.min() == pytest.approx(near, abs=3e-4)  # what the approximation leaves out
    assert (exponents > 1).all()
