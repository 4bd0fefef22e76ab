"""The universal scalability law: waiting for one another bends throughput, talking turns it down.

X(N) = λ N / (1 + σ (N − 1) + κ N (N − 1))

Contention σ is the share that goes one at a time (with κ = 0 it is Amdahl's law, and X saturates at
λ/σ); coherency κ is the cost of every pair agreeing, and past the peak more devices do less.

Source: N. J. Gunther, "Guerrilla Capacity Planning", 2007, chapters 4 to 6.
"""

import jax.numpy as jnp

from scaleopt.units import Count, Fraction, PerSecond, real


def usl_throughput(
    devices: Count, rate: PerSecond, contention: Fraction, coherency: Fraction
) -> PerSecond:
    """What N devices get done in a second.

    X(N) = λ N / (1 + σ (N − 1) + κ N (N − 1))

    Args:
        devices: N, number of devices or concurrent users.
        rate: λ [1/s], throughput of one.
        contention: σ, share of the work that goes one at a time.
        coherency: κ, cost of keeping each pair consistent, as a share of the work.

    Returns:
        X [1/s].

    >>> round(float(usl_throughput(216, 89.995, 0.0277285, 0.0001044)))
    1646

    Source: N. J. Gunther, "Guerrilla Capacity Planning", 2007, equation 4.31.
    """
    devices, rate, contention, coherency = real(devices, rate, contention, coherency)
    others = devices - 1
    return rate * devices / (1 + contention * others + coherency * devices * others)


def usl_peak_devices(contention: Fraction, coherency: Fraction) -> Count:
    """The number of devices at which throughput peaks.

    N* = sqrt((1 − σ) / κ), at least 1, infinite where κ = 0

    Args:
        contention: σ, share of the work that goes one at a time.
        coherency: κ, cost of keeping each pair consistent, as a share of the work.

    Returns:
        N*, a real number.

    >>> round(float(usl_peak_devices(0.0277285, 0.0001044)), 2)
    96.5

    Source: N. J. Gunther, "Guerrilla Capacity Planning", 2007, equation 4.33.
    """
    contention, coherency = real(contention, coherency)
    free = coherency <= 0
    # The slope of √ is infinite at 0 and 1/κ has none at 0: both see 1 where they are not taken.
    square = (1 - contention) / jnp.where(free, 1.0, coherency)
    above = square > 1
    peak = jnp.where(above, jnp.sqrt(jnp.where(above, square, 1.0)), 1.0)
    return jnp.where(free & (contention < 1), jnp.inf, peak)


def usl_peak_throughput(rate: PerSecond, contention: Fraction, coherency: Fraction) -> PerSecond:
    """The most that any number of devices gets done in a second.

    X* = X(N*); where κ = 0 the ceiling λ/σ, never reached. Past the peak X falls towards λ/(κ N).

    Args:
        rate: λ [1/s], throughput of one.
        contention: σ, share of the work that goes one at a time.
        coherency: κ, cost of keeping each pair consistent, as a share of the work.

    Returns:
        X* [1/s], infinite where σ and κ are both 0.

    >>> round(float(usl_peak_throughput(89.9952330, 0.0277285, 0.0001044)))
    1884

    Source: N. J. Gunther, "Guerrilla Capacity Planning", 2007, section 4.6.
    """
    rate, contention, coherency = real(rate, contention, coherency)
    peak = jnp.asarray(usl_peak_devices(contention, coherency))
    finite = jnp.isfinite(peak)
    at_peak = usl_throughput(jnp.where(finite, peak, 1.0), rate, contention, coherency)
    bare = contention <= 0
    ceiling = jnp.where(bare, jnp.inf, rate / jnp.where(bare, 1.0, contention))
    return jnp.where(finite, at_peak, ceiling)
