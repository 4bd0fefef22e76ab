"""Values and derivatives against fifty digits: 1e-12 in float64, 1e-5 in float32."""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.precise import PRECISE
from test_contracts import FORMULAS, MODELS

from scaleopt.models.collectives import collective_time
from scaleopt.models.schedules import ALGORITHMS
from scaleopt.testing import quantities, reality, subject

# ⌈log₂ N⌉ is a staircase: flat where it has a derivative, and N = 1 is the edge of a stair.
DRAWS = 12
STAIRCASES = {"broadcast_time", "reduce_time"}


def test_every_formula_has_an_oracle():
    assert {subject(formula).name for formula in FORMULAS + MODELS} == set(PRECISE)


def draws(of):
    """Physically meaningful numbers, spread over their orders of magnitude, the same each time."""
    random = np.random.default_rng(len(of.name))
    for _ in range(DRAWS):
        yield {name: typical(random, *unit) for name, unit in of.units.items()}


def typical(random, unit, tag):
    low, high = reality(unit, tag)
    return float(np.float32(np.exp(random.uniform(np.log(low), np.log(high)))))


@pytest.mark.parametrize("formula", FORMULAS + MODELS, ids=lambda formula: subject(formula).name)
def test_formula_is_precise(formula):
    of = subject(formula)
    derive = jax.jit(jax.value_and_grad(lambda numbers: jnp.sum(of(numbers))))
    for numbers in draws(of):
        exact, slopes = in_fifty_digits(of, numbers)
        for double, tolerance in ((True, 1e-12), (False, 1e-5)):
            with jax.enable_x64(double):
                value, found = derive(numbers)
            # The last digit of an argument moves the result by its derivative: no formula can be
            # more precise than that.
            swing = sum(abs(slope * numbers[name]) for name, slope in slopes.items())
            room = tolerance * (abs(exact) + swing)
            assert abs(mp.mpf(float(value)) - exact) <= room, numbers
            for name, slope in slopes.items():
                error = abs(mp.mpf(float(found[name])) - slope)
                assert error <= tolerance * abs(slope) + 10 * room / numbers[name], (name, numbers)


@pytest.mark.parametrize(
    ("collective", "algorithm"), [(c, name) for c in ALGORITHMS for name in ALGORITHMS[c]]
)
@settings(max_examples=30)
@given(
    size=quantities("B", edges=True),
    devices=st.integers(1, 100_000),
    alpha=quantities("s", edges=True),
    beta=quantities("s/B", edges=True),
)
def test_an_algorithm_is_as_precise_in_single_precision(collective, algorithm, **numbers):
    numbers = {name: float(np.float32(number)) for name, number in numbers.items()}
    single, double = (timed(collective, algorithm, x64, **numbers) for x64 in (False, True))
    assert single == pytest.approx(double, rel=1e-5, abs=0)


def timed(collective, algorithm, x64, size, devices, alpha, beta):
    with jax.enable_x64(x64):
        return float(collective_time(collective, algorithm, size, devices, alpha, beta, 0.0))


def in_fifty_digits(of, numbers):
    """The exact value and derivatives."""
    oracle, arguments, slopes = PRECISE[of.name], list(map(mp.mpf, numbers.values())), {}
    for place, name in enumerate(numbers):

        def along(x, place=place):
            return oracle(*arguments[:place], x, *arguments[place + 1 :])

        flat = of.name in STAIRCASES and name == "devices"
        step = arguments[place] * mp.mpf(10) ** -20
        slopes[name] = mp.mpf(0) if flat else mp.diff(along, arguments[place], h=step)
    return oracle(*arguments), slopes
