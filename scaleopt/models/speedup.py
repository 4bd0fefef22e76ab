"""Two questions to one machine: how fast for the same work, how much work in the same time.

Amdahl holds the work fixed, Gustafson the time. Both split one run into a part that more devices
shorten and a part that they do not; they differ in which run the split is measured on: Amdahl's
fraction is of the time on one device, Gustafson's of the time on N.
"""

import jax.numpy as jnp

from scaleopt.units import Count, Flops, FlopsPerSecond, Fraction, Ratio, Seconds, real


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

    Returns:
        The limit of S.

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

    Returns:
        E, 1 where every device pays in full.

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
        devices: N > 1.

    Returns:
        e; NaN at N = 1, where nothing was measured.

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


def sun_ni_speedup(devices: Count, parallel_fraction: Fraction, memory_growth: Ratio) -> Ratio:
    """How many times faster N devices do the work that fills N memories than one device would.

    S(N) = ((1 − p) + p G) / ((1 − p) + p G / N)

    With G = 1 the work stays and it is Amdahl's law; with G = N it grows like the devices and it is
    Gustafson's. A dense matrix product of a problem that fills the memory has G = N^(3/2).

    Args:
        devices: N, number of devices.
        parallel_fraction: p, share of the time on one device that divides among devices.
        memory_growth: G, how many times the parallel work grows when the memory does N times.

    Returns:
        S, the memory-bounded speed-up.

    >>> round(float(sun_ni_speedup(8, 0.95, 1.0)), 3), round(float(sun_ni_speedup(8, 0.95, 8.0)), 3)
    (5.926, 7.65)

    Source: X.-H. Sun and L. M. Ni, "Scalable problems and memory-bounded speedup", JPDC 19, 1993.
    """
    devices, parallel_fraction, memory_growth = real(devices, parallel_fraction, memory_growth)
    serial, grown = 1 - parallel_fraction, parallel_fraction * memory_growth
    return (serial + grown) / (serial + grown / devices)


def gustafson_fraction(devices: Count, parallel_fraction: Fraction) -> Fraction:
    """Gustafson's parallel fraction of the run whose Amdahl fraction is given.

    p' = (p / N) / ((1 − p) + p / N)

    One run, two clocks. On one device a serial time s and a parallel time c take s + c, and
    p = c / (s + c). On N devices the same work takes s + c/N, and p' = (c/N) / (s + c/N). What
    stays constant between them is the serial *time* s: dividing by s + c gives the equation.

    Args:
        devices: N, number of devices.
        parallel_fraction: p, share of the time on one device that divides among devices.

    Returns:
        p', share of the time on N devices spent in the parallel part.

    >>> scaled = gustafson_fraction(8, 0.95)
    >>> f"{gustafson_speedup(8, scaled):.3f} {amdahl_speedup(8, 0.95):.3f}"
    '5.926 5.926'

    Source: Y. Shi, "Reevaluating Amdahl's law and Gustafson's law", Temple University, 1996.
    """
    devices, parallel_fraction = real(devices, parallel_fraction)
    share = parallel_fraction / devices
    return share / ((1 - parallel_fraction) + share)


def amdahl_fraction(devices: Count, parallel_fraction: Fraction) -> Fraction:
    """Amdahl's parallel fraction of the run whose Gustafson fraction is given.

    p = p' N / ((1 − p') + p' N)

    The inverse of `gustafson_fraction`, which derives it.

    Args:
        devices: N, number of devices.
        parallel_fraction: p', share of the time on N devices spent in the parallel part.

    Returns:
        p, share of the time on one device that divides among devices.

    >>> round(float(amdahl_fraction(8, gustafson_fraction(8, 0.95))), 4)
    0.95

    Source: Y. Shi, "Reevaluating Amdahl's law and Gustafson's law", Temple University, 1996.
    """
    devices, parallel_fraction = real(devices, parallel_fraction)
    share = parallel_fraction * devices
    return share / ((1 - parallel_fraction) + share)


def isoefficiency_flops(
    efficiency: Fraction, devices: Count, overhead_time: Seconds, rate: FlopsPerSecond
) -> Flops:
    """The work that keeps an efficiency on N devices.

    W = r N t_o E / (1 − E)

    From E = (W/r) / (N T) with T = W/(N r) + t_o. Where t_o grows with N, so must the work of each
    device: that growth is the isoefficiency function.

    Args:
        efficiency: E, speed-up for each device, below 1; infinite work at 1.
        devices: N, number of devices.
        overhead_time: t_o [s], what a run takes on N devices beyond its divided work: serial time
            and exposed communication.
        rate: r [FLOP/s], sustained rate of one device.

    Returns:
        W [FLOP], over all devices.

    >>> f"{isoefficiency_flops(0.8, 8, 0.01, 1e14):.3g}"
    '3.2e+13'

    Source: A. Grama, A. Gupta, V. Kumar, "Isoefficiency", IEEE Parallel & Distributed Technology
    1(3), 1993.
    """
    efficiency, devices, overhead_time, rate = real(efficiency, devices, overhead_time, rate)
    return rate * devices * overhead_time * efficiency / (1 - efficiency)
