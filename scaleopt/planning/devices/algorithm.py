"""Which algorithm of a collective to use, and from which size another is better."""

import jax
import numpy as np
from scipy.optimize import brentq

from scaleopt.models.collectives import Collective, collective_time
from scaleopt.models.schedules import Pipeline, Schedule, algorithm_of, algorithms
from scaleopt.units import Scalar, real


def best_algorithm(
    size: float, devices: float, alpha: float, beta: float, *, collective: Collective = "all_reduce"
) -> str:
    """The algorithm that takes the least time; of equally fast ones the first in the list.

    Args:
        size: M [B], bytes of the full, unsharded array.
        devices: N, number of devices.
        alpha: α [s], time of an empty message.
        beta: β [s/B], inverse of the bandwidth of one device in one direction.
        collective: which operation.

    Returns:
        Its name.

    >>> best_algorithm(1e3, 64, 8e-6, 1 / 25e9), best_algorithm(1e9, 48, 8e-6, 1 / 25e9)
    ('recursive_doubling', 'ring')

    Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19(1), 2005, section 5.
    """
    times = {
        name: float(collective_time(collective, name, size, devices, alpha, beta, 0.0))
        for name in algorithms(collective)
    }
    return min(times, key=lambda name: times[name])


def crossover_size(
    first: str,
    second: str,
    devices: float,
    alpha: float,
    beta: float,
    *,
    collective: Collective = "all_reduce",
) -> float:
    """The size at which two algorithms take the same time.

    M = (a₂ − a₁) α / ((b₁ − b₂) β),  with a messages and volume b of each

    For a tree that forwards pieces there is no such form, and a search finds the least size.

    Args:
        first: name of one algorithm.
        second: name of the other.
        devices: N, number of devices.
        alpha: α [s], time of an empty message.
        beta: β [s/B], inverse of the bandwidth of one device in one direction.
        collective: which operation.

    Returns:
        M [B]; infinite or not positive where one is faster at every size.

    Raises:
        ValueError: an algorithm that is not known.

    >>> round(crossover_size("recursive_doubling", "rabenseifner", 64, 8e-6, 1 / 25e9))
    297674

    Source: set the two times equal.
    """
    with jax.enable_x64(True):
        one, other = (algorithm_of(collective, name)(real(devices)[0]) for name in (first, second))
    if isinstance(one, Pipeline) or isinstance(other, Pipeline):
        return _least_crossing(one, other) * alpha / beta if alpha and beta else float("inf")
    more = float(other.messages - one.messages) * alpha
    less = float(one.volume - other.volume) * beta
    return more / less if less else float("inf")


def _least_crossing(one: Schedule | Pipeline, other: Schedule | Pipeline) -> float:
    """The least βM/α at which one takes over; in units of α a time depends on nothing else.

    Each time is linear in √(βM/α) and its square, by pieces, so two cross a few times at most.
    """

    def lead(transfer: Scalar) -> np.ndarray:
        unit, transfer = real(1.0, transfer)
        return np.asarray(one.time(unit, transfer) - other.time(unit, transfer))

    with jax.enable_x64(True):
        grid = np.exp2(np.linspace(-30.0, 40.0, 2101))
        ahead = np.sign(lead(grid))
        grid, ahead = grid[ahead != 0], ahead[ahead != 0]  # a tie is where one takes over
        turns = np.flatnonzero(ahead[1:] != ahead[:-1])
        if not turns.size:
            return float("inf")
        ends = grid[turns[0] : turns[0] + 2]
        return float(brentq(lambda transfer: float(lead(transfer)), *ends, xtol=1e-15, rtol=1e-12))
