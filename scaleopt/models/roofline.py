"""A kernel is fed by memory or held up by arithmetic, whichever is slower.

FLOP for each byte moved decides which: below the ridge point the bandwidth is the roof, above it
the peak rate.
"""

import jax.numpy as jnp

from scaleopt.units import (
    Bytes,
    BytesPerSecond,
    Flops,
    FlopsPerByte,
    FlopsPerSecond,
    Ratio,
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


def hierarchical_rate(
    peak_rate: FlopsPerSecond, intensities: FlopsPerByte, bandwidths: BytesPerSecond
) -> FlopsPerSecond:
    """The highest rate under a roof at every level: registers, caches, HBM, link, network.

    R = min(peak, min over levels of I_l · bandwidth_l)

    Args:
        peak_rate: [FLOP/s], the arithmetic roof.
        intensities: (…, levels) [FLOP/B], FLOP for each byte that crosses the level.
        bandwidths: (…, levels) [B/s], of each level.

    Returns:
        R (…) [FLOP/s].

    >>> bandwidths = jnp.array([33e12, 3.3e12, 5e10])
    >>> f"{hierarchical_rate(67e12, jnp.array([1.0, 20.0, 900.0]), bandwidths):.3g}"
    '3.3e+13'

    Source: A. Ilic, F. Pratas, L. Sousa, "Cache-aware roofline model", IEEE CAL 13(1), 2014.
    """
    peak_rate, intensities, bandwidths = real(peak_rate, intensities, bandwidths)
    roofs = jnp.atleast_1d(intensities * bandwidths)
    return jnp.minimum(peak_rate, jnp.min(roofs, axis=-1))


def smooth_rate(
    intensity: FlopsPerByte,
    peak_rate: FlopsPerSecond,
    bandwidth: BytesPerSecond,
    sharpness: Ratio = 4.0,
) -> FlopsPerSecond:
    """The roofline with its corner rounded, as kernels near the ridge measure.

    R = (peak^−s + (I · bandwidth)^−s)^(−1/s)

    At s = 1 arithmetic and memory take turns, at s → ∞ they overlap fully and it is the sharp roof.
    It lies below the sharp roof everywhere, by most at the ridge, there by the factor 2^(−1/s):
    0.84 at the default.

    Args:
        intensity: I [FLOP/B], FLOP for each byte moved.
        peak_rate: [FLOP/s], the arithmetic roof.
        bandwidth: [B/s], the memory roof's slope.
        sharpness: s, above 0.

    Returns:
        R [FLOP/s].

    >>> f"{smooth_rate(300.0, 990e12, 3.3e12) / 990e12:.3f}"
    '0.841'

    Source: the p-norm of two times, J. W. Choi et al., "A roofline model of energy", IPDPS 2013,
    for s = 1 and the limit.
    """
    intensity, peak_rate, bandwidth, sharpness = real(intensity, peak_rate, bandwidth, sharpness)
    memory = intensity * bandwidth
    lower, higher = jnp.minimum(peak_rate, memory), jnp.maximum(peak_rate, memory)
    # The ratio is at most 1, so that no power overflows, however sharp.
    return lower * (1 + (lower / higher) ** sharpness) ** (-1 / sharpness)
