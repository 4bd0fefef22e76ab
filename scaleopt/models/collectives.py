"""The α–β model: a message of n bytes takes α + β n, and a collective is a schedule of messages.

Sizes are always of the full, unsharded array. In an all-reduce each of the N devices holds `size`
bytes before and after; the ring sends 2(N − 1) messages of size/N one after another from each
device, half of them to reduce, half to spread the result.
"""

from typing import Literal

from scaleopt.units import Bytes, Count, Seconds, SecondsPerByte, real

AllReduceAlgorithm = Literal["ring"]


def all_reduce_time(
    size: Bytes,
    devices: Count,
    alpha: Seconds,
    beta: SecondsPerByte,
    *,
    launch: Seconds = 0.0,
    algorithm: AllReduceAlgorithm = "ring",
) -> Seconds:
    """Seconds to sum an array over all devices and leave the sum on each.

    ring: T = launch + 2(N − 1) α + 2 ((N − 1)/N) β M

    Args:
        size: M [B], bytes of the array on each device.
        devices: N, number of devices; at 1 only the launch remains.
        alpha: α [s], time of an empty message.
        beta: β [s/B], inverse of the bandwidth of one device in one direction.
        launch: [s], fixed cost of the operation, whatever N and M.
        algorithm: the schedule of messages.

    Returns:
        T [s].

    Raises:
        ValueError: an algorithm that is not known.

    >>> round(float(all_reduce_time(1e9, 8, 8e-6, 1 / 25e9)) * 1e3, 3)
    70.112

    Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication
    operations in MPICH", IJHPCA 19(1), 2005, section 4; P. Patarasuk and X. Yuan, JPDC 69, 2009.
    """
    if algorithm != "ring":
        raise ValueError(f"algorithm={algorithm!r} is not known for all-reduce; use 'ring'")
    size, devices, alpha, beta, launch = real(size, devices, alpha, beta, launch)
    return launch + 2 * (devices - 1) * (alpha + beta * size / devices)
