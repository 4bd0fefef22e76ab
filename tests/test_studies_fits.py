"""What the studies of fits found, on their quick numbers."""

import certified_values
import interval_coverage
import numpy as np
import pytest


def test_fits_are_near_the_best_possible_and_their_intervals_hold_the_truth():
    errors, held, far = interval_coverage.found(200, 0.03, 0.05)
    # With 200 tables chance moves a ratio by some 2 %, and a share at 90 % by 2 points.
    assert np.all(errors["ratio"] < 1.10)
    assert np.all(np.abs(held[interval_coverage.LEVELS == 0.9] - 0.9) < 0.06)
    assert far < 0.01


@pytest.mark.parametrize("problem", ["Misra1a", "MGH09", "Thurber"])
def test_values_and_standard_errors_are_those_certified(problem):
    assert min(certified_values.digits(problem)) > 6


def test_the_universal_scalability_law_is_that_of_the_r_package():
    fit = certified_values.scalability()
    for name, value, error in zip(fit.names, fit.estimate, fit.standard_error, strict=True):
        printed, deviation = certified_values.PRINTED[name]
        # As many digits as are printed: of coherency four and three.
        assert value == pytest.approx(printed, rel=5e-4)
        assert error == pytest.approx(deviation, rel=2e-3)
