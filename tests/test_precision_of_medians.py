"""The interval that decides when to stop, against its own promise."""

import numpy as np
import pytest
from scipy import stats

from probes.precision import _rank, median_width, settled


@pytest.mark.parametrize("count", [6, 9, 15, 30, 61, 200])
def test_the_interval_is_that_of_order_statistics(count):
    """As many are left out at each end as leave less than 2.5 % beyond."""
    rank = _rank(count)
    assert stats.binom.cdf(rank, count, 0.5) <= 0.025 < stats.binom.cdf(rank + 1, count, 0.5)


def test_few_samples_bound_nothing():
    assert _rank(5) == -1
    assert median_width([1.0, 1.0]) == float("inf")


@pytest.mark.parametrize("count", [8, 15, 40])
def test_the_interval_holds_the_median(count):
    """2,000 draws of skewed times: 95 % and a little more, as order statistics come whole."""
    random = np.random.default_rng(count)
    drawn = np.sort(random.lognormal(0, 0.3, (2000, count)), axis=1)
    rank = _rank(count)
    held = (drawn[:, rank] <= 1) & (drawn[:, count - 1 - rank] >= 1)
    assert held.mean() >= 0.945


def test_one_unsteady_cell_in_ten_is_let_go():
    steady, wild = [1.0, 1.01] * 10, [1.0, 2.0] * 10
    assert settled([steady] * 9 + [wild], 0.05)
    assert not settled([steady] * 8 + [wild] * 2, 0.05)
    assert not settled([steady[:4]] * 10, 0.05)
