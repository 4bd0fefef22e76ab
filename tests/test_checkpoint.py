"""Interruptions and checkpoints: against a simulation, and against the exact best interval."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import lambertw

from scaleopt.models.checkpoint import checkpoint_interval, interrupted_time


@settings(max_examples=40)
@given(st.floats(1.0, 600.0), st.floats(1e-7, 2e-4))
def test_daly_is_near_the_exact_best_interval(checkpoint, rate):
    # The derivative vanishes where λτ = 1 + W(−e^(−λδ − 1)).
    exact = (1 + lambertw(-np.exp(-rate * checkpoint - 1)).real) / rate
    # Daly's series leaves less than a percent where a checkpoint is short beside 1/λ.
    assert float(checkpoint_interval(checkpoint, rate)) == pytest.approx(exact, rel=0.01)


def test_the_expected_time_is_what_a_simulation_takes():
    interval, checkpoint, restart, rate = 300.0, 20.0, 60.0, 1 / 1500
    draw = np.random.default_rng(0)
    pieces = 20_000
    spent = 0.0
    for _ in range(pieces):
        while (failure := draw.exponential(1 / rate)) < interval + checkpoint:
            spent += failure
            # A restart may be interrupted too, and is begun anew.
            while (again := draw.exponential(1 / rate)) < restart:
                spent += again
            spent += restart
        spent += interval + checkpoint
    found = interrupted_time(pieces * interval, interval, checkpoint, restart, rate)
    # The mean of 20,000 pieces scatters by about 0.5 %.
    assert float(found) == pytest.approx(spent, rel=0.02)


def test_without_failures_only_checkpoints_cost():
    assert float(interrupted_time(100.0, 10.0, 1.0, 5.0, 0.0)) == pytest.approx(110.0)
    assert float(interrupted_time(100.0, np.inf, 1.0, 5.0, 0.0)) == 100.0
    assert float(checkpoint_interval(10.0, 0.0)) == np.inf
