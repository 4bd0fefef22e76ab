"""Formulas with a planted fault: the contracts and the oracles must find every one."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import network
from oracles.precise import PRECISE

import scaleopt as so
from scaleopt.testing import check_model, subject
from scaleopt.units import (
    Bytes,
    BytesPerSecond,
    Count,
    Excess,
    FlopsPerByte,
    FlopsPerSecond,
    Fraction,
    Ratio,
    Seconds,
    SecondsPerByte,
    real,
)


def swapped_factor(size: Bytes, devices: Count, alpha: Seconds, beta: SecondsPerByte) -> Seconds:
    return 2 * (devices - 1) / devices * alpha + 2 * (devices - 1) * beta * size


def missing_minus_one(size: Bytes, devices: Count, alpha: Seconds, beta: SecondsPerByte) -> Seconds:
    return 2 * devices * (alpha + beta * size / devices)


def lost_two(size: Bytes, devices: Count, alpha: Seconds, beta: SecondsPerByte) -> Seconds:
    return (devices - 1) * (alpha + beta * size / devices)


def latency_once(size: Bytes, devices: Count, alpha: Seconds, beta: SecondsPerByte) -> Seconds:
    return 2 * alpha + 2 * (devices - 1) / devices * beta * size


def bandwidth_for_beta(
    size: Bytes, devices: Count, alpha: Seconds, beta: SecondsPerByte
) -> Seconds:
    return 2 * (devices - 1) * (alpha + size / beta / devices)


def parallel_for_serial(devices: Count, parallel_fraction: Fraction) -> Ratio:
    return 1 / (parallel_fraction + (1 - parallel_fraction) / jnp.asarray(devices))


def amdahl_for_gustafson(devices: Count, parallel_fraction: Fraction) -> Ratio:
    return so.amdahl_speedup(devices, parallel_fraction)


def inverted_efficiency(speedup: Ratio, devices: Count) -> Ratio:
    return devices / jnp.asarray(speedup)


def inverted_ridge(peak_rate: FlopsPerSecond, bandwidth: BytesPerSecond) -> FlopsPerByte:
    return bandwidth / jnp.asarray(peak_rate)


def gibibytes(latency: Seconds, bandwidth: BytesPerSecond) -> Bytes:
    return jnp.asarray(latency) * bandwidth * (1e9 / 2**30)


def maximum_for_minimum(
    intensity: FlopsPerByte, peak_rate: FlopsPerSecond, bandwidth: BytesPerSecond
) -> FlopsPerSecond:
    return jnp.maximum(jnp.asarray(peak_rate), intensity * bandwidth)


def karp_flatt_without_correction(speedup: Ratio, devices: Count) -> Ratio:
    return 1 / jnp.asarray(speedup) - 1 / jnp.asarray(devices)


def negative_latency(size: Bytes, alpha: Seconds, beta: SecondsPerByte) -> Seconds:
    return beta * jnp.asarray(size) - alpha


def cut_gradient(size: Bytes, alpha: Seconds, beta: SecondsPerByte) -> Seconds:
    return alpha + jax.lax.stop_gradient(beta * jnp.asarray(size))


def counted_levels(size: Bytes, devices: Count, alpha: Seconds, beta: SecondsPerByte) -> Seconds:
    return jnp.log2(jnp.asarray(devices) + 1) * (alpha + beta * jnp.asarray(size))


def spread_for_all(mean_time: Seconds, spread: Excess, devices: Count) -> Seconds:
    return jnp.asarray(mean_time) * (1 + jnp.asarray(spread) * jnp.sqrt(jnp.asarray(devices)))


def permuted_whole(size: Bytes, devices: Count, alpha: Seconds, beta: SecondsPerByte) -> Seconds:
    return alpha + beta * jnp.asarray(size) + 0 * jnp.asarray(devices)


def python_branch(size: Bytes, alpha: Seconds, beta: SecondsPerByte) -> Seconds:
    return alpha + beta * size if float(np.asarray(size)) > 0 else real(alpha)[0]


MUTANTS = [
    (swapped_factor, "all_reduce_time"),
    (missing_minus_one, "all_reduce_time"),
    (lost_two, "all_reduce_time"),
    (latency_once, "all_reduce_time"),
    (bandwidth_for_beta, "all_reduce_time"),
    (parallel_for_serial, "amdahl_speedup"),
    (amdahl_for_gustafson, "gustafson_speedup"),
    (inverted_efficiency, "efficiency"),
    (inverted_ridge, "ridge_point"),
    (gibibytes, "bytes_in_flight"),
    (maximum_for_minimum, "attainable_rate"),
    (karp_flatt_without_correction, "karp_flatt"),
    (negative_latency, "send_time"),
    (cut_gradient, "send_time"),
    (python_branch, "send_time"),
    (counted_levels, "broadcast_time"),
    (spread_for_all, "slowest_time"),
    (permuted_whole, "permute_time"),
]


def differs_from_oracle(mutant, name):
    """Whether the mutant and the fifty-digit formula disagree at typical numbers."""
    typical = {
        "s": 1e-5,
        "B": 1e8,
        "FLOP": 1e12,
        "FLOP/s": 1e14,
        "B/s": 1e12,
        "s/B": 4e-11,
        "FLOP/B": 30.0,
    }
    tagged = {"count": 8.0, "fraction": 0.9, "ratio": 6.0, "excess": 0.1}
    numbers = {
        argument: tagged[tag] if tag else typical[unit]
        for argument, (unit, tag) in subject(mutant).units.items()
    }
    launch = [0.0] if "launch" in inspect.signature(getattr(so, name)).parameters else []
    exact = float(PRECISE[name](*numbers.values(), *launch))
    return not np.isclose(float(mutant(**numbers)), exact, rtol=1e-4)


@pytest.mark.parametrize(
    ("mutant", "name"), MUTANTS, ids=lambda part: getattr(part, "__name__", "")
)
def test_a_mutant_does_not_survive(mutant, name):
    found = [differs_from_oracle(mutant, name)]
    try:
        check_model(mutant, examples=12)
    except (AssertionError, jax.errors.JAXTypeError):
        found.append(True)
    assert any(found), f"{mutant.__name__} survived"


def test_contracts_alone_find_what_has_the_wrong_dimension_direction_or_gradient():
    for mutant in (inverted_ridge, negative_latency, cut_gradient):
        with pytest.raises((AssertionError, jax.errors.JAXTypeError)):
            check_model(mutant, examples=12)


def test_a_simulation_finds_a_missing_minus_one():
    exact = network.ring_all_reduce(1e8, 8, 1e-5, 4e-11)
    assert float(missing_minus_one(1e8, 8, 1e-5, 4e-11)) != pytest.approx(exact, rel=1e-3)
    assert float(so.all_reduce_time(1e8, 8, 1e-5, 4e-11)) == pytest.approx(exact, rel=1e-6)
