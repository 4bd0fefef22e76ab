"""What a library does at a size and a count that no law of a link says: a Gaussian process.

A library changes its protocol, its algorithm or its number of channels at sizes of its own choice.
What the fitted link misses is therefore alike at near sizes, and partly alike at every N:

    k = s² [c + (1 − c) exp(−|Δ log₂ N| / ℓ_N)] exp(−|Δ log₂ M| / ℓ_M)

with the exponential kernel, because such changes are jumps. How large (s), how far (ℓ_M), how much
of it is common to all N (c) and how much is only noise are what makes the misses most likely.

Source: C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning", 2006,
chapters 2 and 5; M. C. Kennedy and A. O'Hagan, "Bayesian calibration of computer models", JRSS B
63, 2001, for a law and its discrepancy.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy import linalg

from scaleopt.fitting.collective_rows import Cells
from scaleopt.fitting.loss import NORMAL_MAD

_COMMON = (0.2, 0.5, 0.8)
_SIZE_LENGTH = (1.0, 3.0, 9.0)
"""Octaves."""
_COUNT_LENGTH = 3.0
"""Doublings."""
_NOISE = 10.0 ** np.arange(-2.0, 1.1, 0.5)
"""Variance of the noise over s²."""
_BLOCK = 4096
"""Places recalled at once, to bound the memory."""
_WILD = 5.0
"""Standard deviations beyond which a cell is no habit."""
_TYPICAL, _TYPICAL_WEIGHT = 0.05, 3.0
"""s before a miss is seen, and of how many cells' worth that is."""


class Kernel(NamedTuple):
    """How misses go together."""

    common: float
    size_length: float
    noise: float
    """Of each cell, as a variance over s²."""
    scale: float
    """s, a standard deviation of the log."""


class Habits(NamedTuple):
    """Misses of a link at some cells, ready to be recalled near them."""

    kernel: Kernel
    places: np.ndarray
    """(cells, 3): log₂ of N, of nodes and of M."""
    pull: np.ndarray
    """(cells,): (K + noise)⁻¹ miss / s²."""
    inverse: np.ndarray
    """(cells, cells): (K + noise)⁻¹."""


def places_in(cells: Cells) -> np.ndarray:
    """Where cells lie: (cells, 3), log₂ of N, of nodes and of M."""
    return np.log2(np.stack([cells.devices, cells.nodes, np.maximum(cells.size, 1.0)], axis=1))


def most_likely(places: np.ndarray, miss: np.ndarray) -> Kernel:
    """The kernel under which the misses are most likely."""
    best, found = -np.inf, None
    count = len(miss)
    miss = _clipped(miss)
    for common, length in product(_COMMON, _SIZE_LENGTH):
        covariance = _covariance(Kernel(common, length, 0.0, 1.0), places, places)
        for noise in _NOISE:
            root = np.linalg.cholesky(covariance + noise * np.eye(count))
            apart = linalg.solve_triangular(root, miss, lower=True, check_finite=False)
            scale = (apart @ apart + _TYPICAL_WEIGHT * _TYPICAL**2) / (count + _TYPICAL_WEIGHT)
            spread = 2 * np.sum(np.log(np.diag(root)))
            likelihood = -0.5 * ((count + _TYPICAL_WEIGHT) * np.log(scale) + spread)
            if likelihood > best:
                best, found = likelihood, Kernel(common, length, noise, np.sqrt(scale))
    assert found is not None
    return found


def learnt(kernel: Kernel, places: np.ndarray, miss: np.ndarray) -> Habits:
    """Keep the misses of some cells."""
    covariance = _covariance(kernel, places, places) + kernel.noise * np.eye(len(places))
    inverse = np.linalg.inv(covariance)
    # What all the other cells say of each one, in units of its own standard deviation.
    apart = inverse @ miss / np.sqrt(np.diag(inverse)) / kernel.scale
    wild = np.where(np.abs(apart) > _WILD, apart**2 / np.diag(inverse), 0.0)
    if wild.any():
        inverse = np.linalg.inv(covariance + np.diag(wild))
    return Habits(kernel, places, inverse @ miss, inverse)


def recalled(habits: Habits, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The miss to be expected at other places, and its standard deviation, noise and all."""
    kernel = habits.kernel
    expected, variance = np.empty(len(places)), np.empty(len(places))
    for start in range(0, len(places), _BLOCK):
        block = slice(start, start + _BLOCK)
        near = _covariance(kernel, places[block], habits.places)
        left = 1.0 - np.sum((near @ habits.inverse) * near, axis=1)
        expected[block] = near @ habits.pull
        variance[block] = kernel.scale**2 * (np.maximum(left, 0.0) + kernel.noise)
    return expected, np.sqrt(variance)


def _clipped(miss: np.ndarray) -> np.ndarray:
    """Misses of which a wild one says no more than a large one."""
    typical = np.median(np.abs(miss)) / NORMAL_MAD
    return np.clip(miss, -_WILD * typical, _WILD * typical)


def _covariance(kernel: Kernel, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """K / s² between places."""
    count, nodes, size = np.abs(one[:, None, :] - other[None, :, :]).transpose(2, 0, 1)
    own = np.exp(-(count + nodes) / _COUNT_LENGTH)
    near = np.exp(-size / kernel.size_length)
    return (kernel.common + (1 - kernel.common) * own) * near
