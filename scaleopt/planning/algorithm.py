"""Which algorithm of a collective to use, and from which size another is better."""

from scaleopt.models.collectives import Collective, collective_time
from scaleopt.models.schedules import ALGORITHMS
from scaleopt.units import real


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
        for name in ALGORITHMS[collective]
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

    Args:
        first: name of one algorithm.
        second: name of the other.
        devices: N, number of devices.
        alpha: α [s], time of an empty message.
        beta: β [s/B], inverse of the bandwidth of one device in one direction.
        collective: which operation.

    Returns:
        M [B]; infinite or not positive where one is faster at every size.

    >>> round(crossover_size("recursive_doubling", "rabenseifner", 64, 8e-6, 1 / 25e9))
    297674

    Source: set the two times equal.
    """
    known = ALGORITHMS[collective]
    one, other = (known[name](real(devices)[0]) for name in (first, second))
    more = float(other.messages - one.messages) * alpha
    less = float(one.volume - other.volume) * beta
    return more / less if less else float("inf")
