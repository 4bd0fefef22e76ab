"""What a scaling curve lacks lasts along N: points that are near each other miss it alike.

No sum of a few terms is the whole truth, and where a network or a cache begins to matter the curve
stays wrong for all that follows. The log of measured over curve is taken as a random walk along
log₂N that starts at the fewest devices, seen through scatter of the variance σ²:

log T_i − log f(N_i) = w(N_i) + e_i,   Var e = σ²,   Var(w(2N) − w(N)) = DRIFT σ²

Kalman's filter makes the residuals independent, for the fit; the walk that is left, which the
forecast carries on, comes from its smoother. Between two points it is a straight line in log N.

Source: J. Durbin and S. J. Koopman, "Time Series Analysis by State Space Methods", 2nd ed., 2012,
chapter 2 (the local level model).
"""

import numpy as np

DRIFT = 3.0
"""Variance that the walk gains with each doubling of N, over that of one measurement."""


def independent(count: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Residuals, each less what those at fewer devices lead one to expect, in units of σ.

    Args:
        count: (rows,), N, ascending.
        columns: (rows, any), residuals or what they are linear in.
    """
    before = _variances(count)
    expected = np.zeros(columns.shape[1:])
    found = np.empty_like(columns)
    for place, (variance, row) in enumerate(zip(before, columns, strict=True)):
        found[place] = (row - expected) / np.sqrt(1 + variance)
        expected = expected + variance / (1 + variance) * (row - expected)
    return found


def lasting(count: np.ndarray, residuals: np.ndarray) -> np.ndarray:
    """The walk's mean at each N, given the residuals at all of them.

    Args:
        count: (rows,), N, ascending.
        residuals: (rows, any), logs of measured over curve.
    """
    before = _variances(count)
    gain = before / (1 + before)
    walk = np.empty_like(residuals)
    expected = np.zeros(residuals.shape[1:])
    for place, row in enumerate(residuals):
        walk[place] = expected = expected + gain[place] * (row - expected)
    for place in range(len(count) - 2, -1, -1):
        # After row i the variance is gain_i; all that follows of the step to i + 1 is news of it.
        share = gain[place] / before[place + 1]
        walk[place] += share * (walk[place + 1] - walk[place])
    return walk


def variance_ahead(count: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Of a measurement on so many devices about the curve and its walk, over σ²."""
    before = _variances(count)[-1]
    outside = np.maximum(asked / count[-1], count[0] / asked)
    return 1 + before / (1 + before) + DRIFT * np.log2(np.maximum(outside, 1.0))


def _variances(count: np.ndarray) -> np.ndarray:
    """(rows,) of the walk at each N, over σ², as the rows at fewer devices leave it."""
    found, left = [], 0.0
    for step in DRIFT * np.diff(np.log2(count), prepend=np.log2(count[0])):
        found.append(left + step)
        left = found[-1] / (1 + found[-1])
    return np.array(found)
