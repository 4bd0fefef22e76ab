"""A kernel is fed by memory or held up by arithmetic, whichever is slower.

FLOP for each byte moved decides which: below the ridge point the bandwidth is the roof, above it
the peak rate. Little's law is the same picture in time: a bandwidth is kept up only by as many
bytes in flight as arrive during one latency.
"""

import jax.numpy as jnp

from scaleopt.units import (
    Bytes,
    BytesPerSecond,
    Flops,
    FlopsPerByte,
    FlopsPerSecond,
    Seconds,
    real,
)


def arithmetic_intensity(flops: Flops, moved_bytes: Bytes) -> FlopsPerByte:
    """FLOP done for each byte moved to or from memory.

    I = W / Q

    Args:
        flops: W, floating-point operations.
        moved_bytes: Q, bytes through memory.

    Returns:
        I [FLOP/B].

    >>> float(arithmetic_intensity(2e9, 1e9))
    2.0

    Source: S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009.
    """
    flops, moved_bytes = real(flops, moved_bytes)
    return flops / moved_bytes


def attainable_rate(
    intensity: FlopsPerByte, peak_rate: FlopsPerSecond, bandwidth: BytesPerSecond
) -> FlopsPerSecond:
    """The highest rate a kernel of this intensity can reach.

    R = min(peak, I · bandwidth)

    Args:
        intensity: I [FLOP/B], FLOP for each byte moved.
        peak_rate: [FLOP/s], the arithmetic roof.
        bandwidth: [B/s], the memory roof's slope.

    Returns:
        R [FLOP/s].

    >>> f"{attainable_rate(10.0, 1e15, 3e12):.3g}"
    '3e+13'

    Source: S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009.
    """
    intensity, peak_rate, bandwidth = real(intensity, peak_rate, bandwidth)
    return jnp.minimum(peak_rate, intensity * bandwidth)


def ridge_point(peak_rate: FlopsPerSecond, bandwidth: BytesPerSecond) -> FlopsPerByte:
    """The intensity from which arithmetic, not memory, is the limit.

    I* = peak / bandwidth

    Args:
        peak_rate: [FLOP/s], the arithmetic roof.
        bandwidth: [B/s], the memory roof's slope.

    Returns:
        I* [FLOP/B].

    >>> round(float(ridge_point(990e12, 3.35e12)))
    296

    Source: S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009.
    """
    peak_rate, bandwidth = real(peak_rate, bandwidth)
    return peak_rate / bandwidth


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
