"""The slowest device sets the pace: work that does not divide evenly, and steps that vary.

Uneven work is the same in every step; straggling is another device's bad luck each time. Both cost
nothing on one device and the whole of the slowest one's excess on several.
"""

import jax.numpy as jnp
from jax import Array

from scaleopt.units import Count, Excess, Seconds, real

_TAIL = 0.06145948356688517  # e^−γ − 1/2: the normal's largest of N is exceeded by e^−γ/N as N → ∞
_BEND = (12.69, -1.56, 0.85)


def load_imbalance(tasks: Count, devices: Count) -> Excess:
    """By how much the busiest device's work exceeds the mean, where equal tasks are dealt out.

    λ = ⌈K/N⌉ N/K − 1

    Args:
        tasks: K, how many equal pieces the work comes in: samples, cells, layers.
        devices: N, number of devices.

    Returns:
        λ, 0 where N divides K; N/K − 1 where there are fewer tasks than devices.

    >>> round(float(load_imbalance(19, 8)), 4)
    0.2632

    Source: L. DeRose, B. Homer, D. Johnson, "Detecting application load imbalance on high end
    massively parallel systems", Euro-Par 2007, for the measure.
    """
    tasks, devices = real(tasks, devices)
    # The difference first: both are whole where tasks and devices are, and no digit is lost.
    return (jnp.ceil(tasks / devices) * devices - tasks) / tasks


def slowest_time(mean_time: Seconds, spread: Excess, devices: Count) -> Seconds:
    """The expected time of the slowest of N devices whose times vary about the same mean.

    T = t (1 + σ m(N)),  m(N) = −Φ⁻¹(c(N)/N)
    c(N) = 1/2 + (1 − 1/N) (e^−γ − 1/2 + 1/(12.69 − 1.56 ln N + 0.85 ln²N))

    m(N) is the expected largest of N standard normal numbers, exact at N = 1 (0) and as N → ∞, and
    elsewhere within 0.16 % of its integral. It grows like √(2 ln N), slowly: 1.42 at 8, 2.83 at
    256, 3.63 at 4096. Times with a longer tail than the normal's straggle more.

    Args:
        mean_time: t [s], mean over devices and steps.
        spread: σ, standard deviation of one device's time over its mean.
        devices: N, number of devices that wait for one another.

    Returns:
        T [s].

    >>> f"{slowest_time(0.1, 0.05, 256):.5f}"
    '0.11415'

    Source: G. Blom, "Statistical Estimates and Transformed Beta-Variables", 1958, for the form
    with a constant c; c(N) fitted to E = ∫ (1 − Φ(x)^N) dx − ∫ Φ(−x)^N dx over x > 0.
    """
    mean_time, spread, devices = real(mean_time, spread, devices)
    return mean_time * (1 + spread * largest_of(devices))


def largest_of(devices: Array) -> Array:
    """m(N), the expected largest of N standard normal numbers."""
    from jax.scipy.special import ndtri  # long to import, and few who use the models need it

    log = jnp.log(devices)
    bend = _BEND[0] + log * (_BEND[1] + log * _BEND[2])
    exceeding = 0.5 + (1 - 1 / devices) * (_TAIL + 1 / bend)
    return -ndtri(exceeding / devices)
