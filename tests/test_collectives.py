"""Every collective and algorithm against its simulation, and bandwidths both ways."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import network

import scaleopt as so
from scaleopt.models.collectives import collective_time
from scaleopt.models.schedules import ALGORITHMS

ALPHA, BETA = 8e-6, 1 / 25e9
SIZES = (0.0, 1e6, 1e12)


def test_every_algorithm_has_a_simulation():
    known = {(collective, name) for collective in ALGORITHMS for name in ALGORITHMS[collective]}
    assert known == set(network.SIMULATED)


@pytest.mark.parametrize(("collective", "algorithm"), network.SIMULATED)
def test_a_collective_takes_what_its_messages_take(collective, algorithm):
    """Whole, not cut into pieces, for every N from 1 to 64, up to what adding 126 floats rounds."""
    simulate = network.SIMULATED[collective, algorithm]
    counts = np.arange(1, 65)
    with jax.enable_x64(True):
        for size in SIZES:
            whole = 1 if "binary_tree" in algorithm else None
            formula = collective_time(collective, algorithm, size, counts, ALPHA, BETA, 0.0, whole)
            for devices, seconds in zip(counts.tolist(), np.asarray(formula), strict=True):
                exact = float(simulate(size, devices, ALPHA, BETA))
                assert seconds == pytest.approx(exact, rel=1e-9, abs=1e-300), (devices, size)


@pytest.mark.parametrize("algorithm", ["binary_tree", "double_binary_tree"])
def test_a_tree_takes_what_its_pieces_take(algorithm):
    simulate = network.SIMULATED["all_reduce", algorithm]
    with jax.enable_x64(True):
        for pieces in (2, 7):
            for size in (0.0, 1e9):
                formula = so.all_reduce_time(
                    size, np.arange(1, 65), ALPHA, BETA, algorithm=algorithm, pieces=pieces
                )
                for devices, seconds in enumerate(np.asarray(formula), 1):
                    exact = simulate(size, devices, ALPHA, BETA, pieces)
                    assert seconds == pytest.approx(exact, rel=1e-9, abs=1e-300), (devices, pieces)


@given(st.integers(1, 300), st.floats(0, 1e10), st.sampled_from([1, 2]))
def test_a_tree_is_cut_into_the_best_number_of_pieces(devices, size, trees):
    """No number of pieces beats the best real one, and the nearest whole one all but reaches it."""
    algorithm = ("binary_tree", "double_binary_tree")[trees - 1]
    with jax.enable_x64(True):
        best = float(so.all_reduce_time(size, devices, ALPHA, BETA, algorithm=algorithm))
        times = so.all_reduce_time(
            size, devices, ALPHA, BETA, algorithm=algorithm, pieces=np.arange(1, 5001)
        )
    least = float(np.min(np.asarray(times)))
    assert best <= least * (1 + 1e-12)
    assert least <= best * 1.03  # from k to k + 1 the best lies between two whole numbers


def test_two_trees_approach_half_the_time_of_one():
    times = [
        float(so.all_reduce_time(1e12, 64, ALPHA, BETA, algorithm=name))
        for name in ("binary_tree", "double_binary_tree")
    ]
    assert times[0] / times[1] == pytest.approx(2, rel=0.01)
    assert times[1] == pytest.approx(2e12 * BETA, rel=0.01)


def test_pieces_are_refused_where_nothing_is_cut():
    with pytest.raises(ValueError, match="pieces=4 was given, and ring sends whole shares"):
        so.all_reduce_time(1.0, 2, 1.0, 1.0, pieces=4)


@given(st.integers(3, 300), st.sampled_from(sorted(ALGORITHMS["all_reduce"])))
def test_a_crossover_is_where_a_tree_takes_over(devices, other):
    first = "double_binary_tree"
    size = so.crossover_size(first, other, devices, ALPHA, BETA)
    if not 0 < size < float("inf"):
        return
    with jax.enable_x64(True):
        one, two = (
            float(collective_time("all_reduce", name, size, devices, ALPHA, BETA, 0.0))
            for name in (first, other)
        )
    assert one == pytest.approx(two, rel=1e-9)


@given(st.integers(1, 12), st.integers(1, 6), st.floats(0, 1e12))
def test_levels_take_what_their_rings_take(inside, across, size):
    alphas, betas = (2e-6, 2e-5), (3e-12, 2e-11)
    exact = network.hierarchical_all_reduce(size, inside, across, alphas, betas)
    with jax.enable_x64(True):
        time = so.hierarchical_all_reduce_time(
            size, jnp.array([inside, across]), jnp.array(alphas), jnp.array(betas)
        )
    assert float(time) == pytest.approx(float(exact), rel=1e-9, abs=1e-300)


def test_three_levels_are_two_around_one():
    """Reduce-scatter inside, the two outer levels on what is left, all-gather inside."""
    parts, alpha, beta = [4.0, 3.0, 5.0], [1e-6, 5e-6, 2e-5], [3e-12, 1e-11, 4e-11]
    with jax.enable_x64(True):
        three = so.hierarchical_all_reduce_time(
            1e9, jnp.array(parts), jnp.array(alpha), jnp.array(beta)
        )
        outer = so.hierarchical_all_reduce_time(
            1e9 / 4, jnp.array(parts[1:]), jnp.array(alpha[1:]), jnp.array(beta[1:])
        )
        inner = so.reduce_scatter_time(1e9, 4, alpha[0], beta[0])
        inner += so.all_gather_time(1e9, 4, alpha[0], beta[0])
    assert float(three) == pytest.approx(float(outer + inner), rel=1e-12)


def test_one_level_is_a_ring():
    one = so.hierarchical_all_reduce_time(1e9, 8, ALPHA, BETA)
    assert float(one) == pytest.approx(float(so.all_reduce_time(1e9, 8, ALPHA, BETA)))


def test_the_ring_saturates_in_bandwidth_and_grows_in_latency():
    with jax.enable_x64(True):
        assert float(so.all_reduce_time(1e9, 1e6, 0.0, BETA)) == pytest.approx(2e9 * BETA, rel=2e-6)
        grown = so.all_reduce_time(0.0, 1e6, ALPHA, BETA)
        assert float(grown) == pytest.approx(2e6 * ALPHA, rel=2e-6)


@pytest.mark.parametrize("power", range(17))
def test_powers_of_two_are_counted_exactly(power):
    """A logarithm in float32 rounds; a step too many at 2^k would be an error of 1/k."""
    assert float(so.broadcast_time(0.0, 2.0**power, 1.0, 0.0)) == power
    assert float(so.broadcast_time(0.0, 2.0**power + 1, 1.0, 0.0)) == power + 1


def test_an_unknown_algorithm_is_refused():
    for call in (so.all_reduce_time, so.all_gather_time, so.all_to_all_time):
        with pytest.raises(ValueError, match="algorithm='tree' is not known for all_"):
            call(1.0, 2, 1.0, 1.0, algorithm="tree")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="collective='gather' is not known"):
        so.bus_bandwidth(1.0, 1.0, 2, collective="gather")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("collective", ALGORITHMS)
@given(devices=st.integers(2, 512), size=st.floats(1e3, 1e12), time=st.floats(1e-6, 1e3))
def test_bus_bandwidth_both_ways(collective, devices, size, time):
    with jax.enable_x64(True):
        bandwidth = so.bus_bandwidth(size, time, devices, collective=collective)
        back = so.bus_time(size, bandwidth, devices, collective=collective)
    assert float(back) == pytest.approx(time, rel=1e-12)


@pytest.mark.parametrize(
    ("collective", "size", "factor"),
    [
        ("all_reduce", 1.0, 14 / 8),
        ("all_gather", 1.0, 7 / 8),
        ("reduce_scatter", 1.0, 7 / 8),
        ("all_to_all", 8.0, 7 / 8),
        ("permute", 8.0, 1.0),
        ("broadcast", 1.0, 1.0),
        ("reduce", 1.0, 1.0),
    ],
)
def test_bus_bandwidth_is_that_of_nccl_tests(collective, size, factor):
    """nccl-tests' size of an all-to-all or sendrecv is one device's; its factors for N = 8."""
    bus = so.bus_bandwidth(size * 1e9, 1.0, 8, collective=collective)
    assert float(bus) == pytest.approx(factor * 1e9, rel=1e-6)


@pytest.mark.parametrize(("collective", "algorithm"), network.SIMULATED)
def test_no_algorithm_beats_the_bus(collective, algorithm):
    """The implied bandwidth of a link never exceeds the link's own."""
    counts = np.arange(2, 65)
    with jax.enable_x64(True):
        time = collective_time(collective, algorithm, 1e12, counts, ALPHA, BETA, 0.0)
        bus = so.bus_bandwidth(1e12, time, counts, collective=collective)
    assert np.all(np.asarray(bus) <= (1 + 1e-12) / BETA)


@given(st.integers(2, 256), st.floats(1e-7, 1e-3), st.floats(1e-12, 1e-9))
def test_at_the_crossover_two_algorithms_take_the_same_time(devices, alpha, beta):
    pair = ("recursive_doubling", "rabenseifner")
    with jax.enable_x64(True):
        size = so.crossover_size(*pair, devices, alpha, beta)
        if not 0 < size < float("inf"):
            return
        one, other = (
            float(collective_time("all_reduce", name, size, devices, alpha, beta, 0.0))
            for name in pair
        )
        assert one == pytest.approx(other, rel=1e-9)
        assert so.best_algorithm(size / 100, devices, alpha, beta) != "ring" or devices < 4


def test_two_algorithms_that_tie_cross_where_they_tie():
    """6 + 6x = 8 + 4x at x = βM/α = 1."""
    size = so.crossover_size("binomial_tree", "double_binary_tree", 5, ALPHA, BETA)
    assert size == pytest.approx(ALPHA / BETA, rel=1e-6)
    assert so.crossover_size("double_binary_tree", "ring", 2, 0.0, BETA) == float("inf")


def test_a_tree_is_best_where_folding_and_rings_are_dear():
    assert so.best_algorithm(1e8, 1500, ALPHA, BETA) == "double_binary_tree"
    assert so.best_algorithm(1e9, 1500, ALPHA, BETA, collective="broadcast") != "binomial_tree"


def test_unknown_collectives_and_algorithms_are_refused_in_words():
    with pytest.raises(ValueError, match="collective='gather' is not known; use one of"):
        so.best_algorithm(1.0, 2, 1.0, 1.0, collective="gather")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="'tree' is not known for all_reduce; use one of ring"):
        so.crossover_size("tree", "ring", 2, 1.0, 1.0)
    with pytest.raises(ValueError, match="pieces=0; an array is cut into 1 or more"):
        so.all_reduce_time(1.0, 2, 1.0, 1.0, algorithm="binary_tree", pieces=0)


def test_the_best_algorithm_is_that_of_least_time():
    for devices in (2, 6, 8, 48, 64, 1500):
        for size in (8.0, 1e5, 1e8):
            times = {
                name: float(collective_time("all_reduce", name, size, devices, ALPHA, BETA, 0.0))
                for name in ALGORITHMS["all_reduce"]
            }
            best = so.best_algorithm(size, devices, ALPHA, BETA)
            assert times[best] == min(times.values())


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=4), st.floats(1.0, 64.0))
def test_an_envelope_lies_below_its_protocols_by_no_more_than_it_says(times, sharpness):
    found = float(so.envelope_time(jnp.array(times), sharpness))
    least = min(times)
    assert least * len(times) ** (-1 / sharpness) * (1 - 1e-5) <= found <= least * (1 + 1e-5)
