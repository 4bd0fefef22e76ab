"""Little's law: a bandwidth is kept up only by as many bytes in flight as arrive in one latency.

The same sentence reads three ways: how much must be under way to fill a link, what share of it a
given amount under way fills, and how many threads it takes to have that much under way.
"""

import jax.numpy as jnp

from scaleopt.units import Bytes, BytesPerSecond, Count, Fraction, Ratio, Seconds, real


def bytes_in_flight(latency: Seconds, bandwidth: BytesPerSecond) -> Bytes:
    """The bytes that must be under way at once to keep a bandwidth up (Little's law).

    L = λ · W: bytes in flight = bandwidth · latency

    Args:
        latency: [s], from asking for a byte to having it.
        bandwidth: [B/s], the rate to sustain.

    Returns:
        L [B].

    >>> round(float(bytes_in_flight(500e-9, 2e12)))
    1000000

    Source: J. D. C. Little, "A proof for the queuing formula L = λW", Operations Research 9(3),
    1961.
    """
    latency, bandwidth = real(latency, bandwidth)
    return latency * bandwidth


def requests_in_flight(latency: Seconds, bandwidth: BytesPerSecond, request: Bytes) -> Ratio:
    """The requests that must be under way at once to keep a bandwidth up.

    n = bandwidth · latency / request

    Args:
        latency: [s], from asking to having.
        bandwidth: [B/s], the rate to sustain.
        request: [B], bytes that one request brings; a cache line, or a message.

    Returns:
        n, below 1 where one request at a time is more than enough.

    >>> round(float(requests_in_flight(500e-9, 2e12, 128.0)))
    7812

    Source: J. D. C. Little, "A proof for the queuing formula L = λW", Operations Research 9(3),
    1961.
    """
    latency, bandwidth, request = real(latency, bandwidth, request)
    return latency * bandwidth / request


def bandwidth_share(in_flight: Bytes, latency: Seconds, bandwidth: BytesPerSecond) -> Fraction:
    """The share of the peak bandwidth that so many bytes in flight can reach.

    share = min(1, in_flight / (latency · bandwidth))

    Args:
        in_flight: [B], bytes under way at once.
        latency: [s], from asking to having, when memory is idle.
        bandwidth: [B/s], the peak.

    Returns:
        The share, at most 1.

    >>> round(float(bandwidth_share(250e3, 500e-9, 2e12)), 3)
    0.25

    Source: V. Volkov, "Understanding latency hiding on GPUs", UC Berkeley EECS-2016-143, chapter 4.
    """
    in_flight, latency, bandwidth = real(in_flight, latency, bandwidth)
    needed = latency * bandwidth
    short = in_flight < needed
    # Without a latency nothing is needed, and 1/0 would be NaN in the gradient of the other branch.
    return jnp.where(short, in_flight / jnp.where(short, needed, 1.0), 1.0)


def occupancy(registers_per_thread: Count, registers: Count, most_threads: Count) -> Fraction:
    """The share of a multiprocessor's threads that its register file lets run at once.

    occupancy = min(1, registers / (registers_per_thread · most_threads))

    An upper bound: registers are handed out in blocks, and shared memory limits too.

    Args:
        registers_per_thread: as the compiler reports it.
        registers: of one multiprocessor.
        most_threads: resident threads of one multiprocessor at most.

    Returns:
        The share, at most 1.

    >>> float(occupancy(64, 65536, 2048))
    0.5

    Source: NVIDIA, "CUDA C++ Best Practices Guide", section on calculating occupancy.
    """
    registers_per_thread, registers, most_threads = real(
        registers_per_thread, registers, most_threads
    )
    return jnp.minimum(1.0, registers / registers_per_thread / most_threads)
