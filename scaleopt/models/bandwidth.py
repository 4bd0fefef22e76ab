"""Bandwidth as benchmarks print it: of the algorithm, and of the bus that it implies."""

import jax.numpy as jnp
from jax import Array

from scaleopt.models.collectives import Collective
from scaleopt.models.schedules import algorithms
from scaleopt.units import Bytes, BytesPerSecond, Count, Seconds, real


def algorithm_bandwidth(size: Bytes, time: Seconds) -> BytesPerSecond:
    """Bytes of the full array for each second, as nccl-tests prints under `algbw`.

    B = M / T

    nccl-tests' own size of an all-to-all is what one device holds; here it is the full array.

    Args:
        size: M [B], bytes of the full, unsharded array.
        time: T [s].

    Returns:
        B [B/s].

    >>> f"{algorithm_bandwidth(1e9, 0.07):.4g}"
    '1.429e+10'

    Source: nccl-tests, doc/PERFORMANCE.md.
    """
    size, time = real(size, time)
    return size / time


def bus_bandwidth(
    size: Bytes, time: Seconds, devices: Count, *, collective: Collective = "all_reduce"
) -> BytesPerSecond:
    """The bandwidth of one device's link that a time implies, comparable between N.

    all_reduce:                            B = 2 ((N − 1)/N) M / T
    all_gather, reduce_scatter:            B = ((N − 1)/N) M / T
    all_to_all:                            B = ((N − 1)/N²) M / T
    broadcast, reduce:                     B = M / T
    permute:                               B = (1/N) M / T

    Args:
        size: M [B], bytes of the full, unsharded array.
        time: T [s].
        devices: N, number of devices.
        collective: which operation.

    Returns:
        B [B/s], which no algorithm can have above the link's bandwidth.

    Raises:
        ValueError: a collective that is not known.

    >>> f"{bus_bandwidth(1e9, 0.07, 8):.4g}"
    '2.5e+10'

    Source: nccl-tests, doc/PERFORMANCE.md; an all-to-all of M here is one of M/N there.
    """
    size, time, devices = real(size, time, devices)
    return _bus_factor(collective, devices) * size / time


def bus_time(
    size: Bytes,
    bandwidth: BytesPerSecond,
    devices: Count,
    *,
    collective: Collective = "all_reduce",
) -> Seconds:
    """Seconds that a bus bandwidth implies: the inverse of `bus_bandwidth`.

    Args:
        size: M [B], bytes of the full, unsharded array.
        bandwidth: B [B/s], as nccl-tests prints under `busbw`.
        devices: N, number of devices.
        collective: which operation.

    Returns:
        T [s].

    Raises:
        ValueError: a collective that is not known.

    >>> round(float(bus_time(1e9, 25e9, 8)) * 1e3, 3)
    70.0

    Source: nccl-tests, doc/PERFORMANCE.md.
    """
    size, bandwidth, devices = real(size, bandwidth, devices)
    return _bus_factor(collective, devices) * size / bandwidth


def _bus_factor(collective: Collective, devices: Array) -> Array:
    """The bytes that cross one device's link, as a multiple of the array's."""
    algorithms(collective)  # refuses one that is not known
    if collective in ("broadcast", "reduce"):
        return jnp.ones_like(devices)
    if collective == "permute":
        return 1 / devices
    rounds = 2 if collective == "all_reduce" else 1
    spread = devices if collective == "all_to_all" else 1.0
    return rounds * (devices - 1) / devices / spread
