"""Messages from one device to one other: alone, or all devices' at once.

The symbols are those of `scaleopt.models.collectives`; a message is what collectives are made of.
"""

from scaleopt.models.collectives import collective_time
from scaleopt.units import Bytes, Count, Seconds, SecondsPerByte, real


def permute_time(
    size: Bytes,
    devices: Count,
    alpha: Seconds,
    beta: SecondsPerByte,
    *,
    launch: Seconds = 0.0,
) -> Seconds:
    """Seconds for each device to send its part of an array to another, all at once.

    T = launch + α + β M/N;  launch alone on one device

    Args:
        size: M [B], bytes of the full, unsharded array.
        devices: N, number of devices; at 1 only the launch remains.
        alpha: α [s], time of an empty message.
        beta: β [s/B], inverse of the bandwidth of one device in one direction.
        launch: [s], fixed cost of the operation, whatever N and M.

    Returns:
        T [s].

    >>> round(float(permute_time(1e9, 8, 8e-6, 1 / 25e9)) * 1e3, 3)
    5.008

    Source: one message in each direction, as `send_time`.
    """
    return collective_time("permute", "shift", size, devices, alpha, beta, launch)


def send_time(
    size: Bytes, alpha: Seconds, beta: SecondsPerByte, *, launch: Seconds = 0.0
) -> Seconds:
    """Seconds for one message from one device to another.

    T = launch + α + β n

    Args:
        size: n [B], bytes of the message.
        alpha: α [s], time of an empty message.
        beta: β [s/B], inverse of the bandwidth of one device in one direction.
        launch: [s], fixed cost of the operation, whatever its size.

    Returns:
        T [s].

    >>> round(float(send_time(1e6, 8e-6, 1 / 25e9)) * 1e6, 1)
    48.0

    Source: R. W. Hockney, "The communication challenge for MPP", Parallel Computing 20, 1994.
    """
    size, alpha, beta, launch = real(size, alpha, beta, launch)
    return launch + alpha + beta * size
