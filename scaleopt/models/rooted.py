"""Collectives with one device at the root: it sends to all, or all send to it.

The sizes and the symbols are those of `scaleopt.models.collectives`, the counts of messages stand
in `scaleopt.models.schedules`.
"""

from typing import Literal

from scaleopt.models.collectives import collective_time
from scaleopt.units import Bytes, Count, Seconds, SecondsPerByte

BroadcastAlgorithm = Literal["binomial_tree", "scatter_all_gather"]


def broadcast_time(
    size: Bytes,
    devices: Count,
    alpha: Seconds,
    beta: SecondsPerByte,
    *,
    launch: Seconds = 0.0,
    algorithm: BroadcastAlgorithm = "binomial_tree",
) -> Seconds:
    """Seconds to copy an array from one device to all.

    binomial_tree:       T = launch + ⌈log₂N⌉ (α + β M)
    scatter_all_gather:  T = launch + (⌈log₂N⌉ + N − 1) α + 2 ((N − 1)/N) β M

    Args:
        size: M [B], bytes of the full, unsharded array.
        devices: N, number of devices; at 1 only the launch remains.
        alpha: α [s], time of an empty message.
        beta: β [s/B], inverse of the bandwidth of one device in one direction.
        launch: [s], fixed cost of the operation, whatever N and M.
        algorithm: the schedule of messages.

    Returns:
        T [s].

    Raises:
        ValueError: an algorithm that is not known.

    >>> round(float(broadcast_time(1e9, 8, 8e-6, 1 / 25e9)) * 1e3, 3)
    120.024

    Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19(1), 2005, section 3.
    """
    return collective_time("broadcast", algorithm, size, devices, alpha, beta, launch)


def reduce_time(
    size: Bytes,
    devices: Count,
    alpha: Seconds,
    beta: SecondsPerByte,
    *,
    launch: Seconds = 0.0,
) -> Seconds:
    """Seconds to sum an array over all devices and leave the sum on one.

    binomial tree:  T = launch + ⌈log₂N⌉ (α + β M)

    Args:
        size: M [B], bytes of the full, unsharded array.
        devices: N, number of devices; at 1 only the launch remains.
        alpha: α [s], time of an empty message.
        beta: β [s/B], inverse of the bandwidth of one device in one direction.
        launch: [s], fixed cost of the operation, whatever N and M.

    Returns:
        T [s].

    >>> round(float(reduce_time(1e9, 8, 8e-6, 1 / 25e9)) * 1e3, 3)
    120.024

    Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19(1), 2005, section 4.
    """
    return collective_time("reduce", "binomial_tree", size, devices, alpha, beta, launch)
