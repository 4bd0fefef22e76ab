"""Steps against batch: the trade of McCandlish et al., and its fit."""

import numpy as np
import pytest

from scaleopt.fitting.critical_batch import fit_critical_batch
from scaleopt.models.batch import samples_to_target, steps_to_target

BATCHES = np.array([32.0, 64, 128, 256, 512, 1024, 2048, 4096])


def test_steps_and_samples_keep_the_hyperbola():
    fewest, least, critical = 1000.0, 5e5, 500.0
    steps = np.asarray(steps_to_target(BATCHES, least, critical))
    samples = np.asarray(samples_to_target(BATCHES, least, critical))
    np.testing.assert_allclose(samples, steps * BATCHES, rtol=1e-5)
    np.testing.assert_allclose((steps / fewest - 1) * (samples / least - 1), 1.0, rtol=1e-4)


def test_an_infinite_critical_batch_costs_nothing():
    assert float(steps_to_target(100.0, 1e4, np.inf)) == 100.0


def test_the_critical_batch_is_found_and_its_interval_holds_it():
    inside = 0
    for seed in range(20):
        noise = np.exp(np.random.default_rng(seed).normal(0, 0.03, len(BATCHES)))
        found = fit_critical_batch(BATCHES, 1000 * (1 + 500 / BATCHES) * noise, level=0.9)
        low, high = found.critical_batch.low, found.critical_batch.high
        inside += low <= 500 <= high
        assert found.critical_batch.value == pytest.approx(500, rel=0.2)
    assert inside >= 15  # 18 of 20 expected; 14 or fewer comes once in 90 such tests


@pytest.mark.parametrize(
    ("batch", "steps", "says"),
    [
        ([1, 2], [3, 4], "2 different batches do not tell"),
        ([1, 2, 3], [3, 4], "3 batches and 2 numbers of steps"),
        ([1, 2, 0], [3, 4, 5], r"batch holds 0\.0; each must be above 0"),
        ([1, 2, 4], [3, 4, np.nan], "steps holds nan"),
    ],
)
def test_runs_that_cannot_tell_are_refused(batch, steps, says):
    with pytest.raises(ValueError, match=says):
        fit_critical_batch(batch, steps)
