"""Two questions to one machine: how fast for the same work, how much work in the same time.

Amdahl holds the work fixed, Gustafson the time. Both split one run into a part that more devices
shorten and a part that they do not; they differ in which run the split is measured on: Amdahl's
fraction is of the time on one device, Gustafson's of the time on N.
"""

import jax.numpy as jnp

from scaleopt.units import Count, Fraction, Ratio, real


def amdahl_speedup(devices: Count, parallel_fraction: Fraction) -> Ratio:
    """How many times faster N devices do a fixed work than one device does.

    S(N) = 1 / ((1 − p) + p / N)

    Args:
        devices: N, number of devices.
        parallel_fraction: p, share of the time on one device that divides among devices.

    Returns:
        S, from 1 up to the limit 1 / (1 − p).

    >>> round(float(amdahl_speedup(8, 0.95)), 3)
    5.926

    Source: G. M. Amdahl, "Validity of the single processor approach", AFIPS 1967.
    """
    devices, parallel_fraction = real(devices, parallel_fraction)
    return 1 / ((1 - parallel_fraction) + parallel_fraction / devices)


def amdahl_limit(parallel_fraction: Fraction) -> Ratio:
    """The speed-up that no number of devices exceeds.

    lim S(N) = 1 / (1 − p), infinite at p = 1

    Args:
        parallel_fraction: p, share of the time on one device that divides among devices.

    >>> round(float(amdahl_limit(0.95)), 3)
    20.0

    Source: G. M. Amdahl, "Validity of the single processor approach", AFIPS 1967.
    """
    (parallel_fraction,) = real(parallel_fraction)
    return 1 / (1 - parallel_fraction)


def gustafson_speedup(devices: Count, parallel_fraction: Fraction) -> Ratio:
    """How many times more work N devices do in the time in which one device does one.

    S(N) = (1 − p) + p N

    Args:
        devices: N, number of devices.
        parallel_fraction: p, share of the time *on N devices* spent in the parallel part.

    Returns:
        S, the scaled speed-up, linear in N.

    >>> round(float(gustafson_speedup(8, 0.95)), 3)
    7.65

    Source: J. L. Gustafson, "Reevaluating Amdahl's law", CACM 31(5), 1988.
    """
    devices, parallel_fraction = real(devices, parallel_fraction)
    return (1 - parallel_fraction) + parallel_fraction * devices


def efficiency(speedup: Ratio, devices: Count) -> Ratio:
    """The speed-up for each device paid for.

    E = S / N

    Args:
        speedup: S, time on one device over time on N.
        devices: N, number of devices.

    >>> float(efficiency(6.0, 8))
    0.75

    Source: A. H. Karp and H. P. Flatt, CACM 33(5), 1990, section 1.
    """
    speedup, devices = real(speedup, devices)
    return speedup / devices


def karp_flatt(speedup: Ratio, devices: Count) -> Ratio:
    """The serial fraction that a measured speed-up betrays.

    e = (1/S − 1/N) / (1 − 1/N)

    Constant in N where Amdahl's law holds; rising with N where an overhead grows; negative where
    the speed-up exceeds N.

    Args:
        speedup: S, measured time on one device over time on N.
        devices: N > 1; at N = 1 nothing was measured and the result is NaN.

    >>> round(float(karp_flatt(amdahl_speedup(8, 0.95), 8)), 4)
    0.05

    Source: A. H. Karp and H. P. Flatt, "Measuring parallel processor performance",
    CACM 33(5), 1990, equation 2.
    """
    speedup, devices = real(speedup, devices)
    several = devices > 1
    # 0/0 at N = 1 would reach the gradient through the branch not taken, so that branch uses N = 2.
    share = 1 / jnp.where(several, devices, 2.0)
    return jnp.where(several, (1 / speedup - share) / (1 - share), jnp.nan)
