"""The time of a fixed work against the number of devices, where nothing but the curve is known.

Without counts of FLOP, bytes and messages the terms of a step cannot be told by what they cost, but
they can by how they move with N: divided work as 1/N, the surface of each device's block as
N^(−2/3), what is not divided not at all, a tree's latency as log N, and waiting for one another as
N. On one device there is nobody to talk to, so that there the terms of communication are 0.
"""

import equinox as eqx
import jax.numpy as jnp

from scaleopt.units import Count, Seconds, real


class ScalingTime(eqx.Module):
    """Seconds of a fixed work on N devices, from five terms that scale differently.

    T(N) = t_p/N + t_s (1 − 1/N) N^(−2/3) + t_0 + t_l log₂N + t_c (N − 1)

    With t_p and t_0 alone it is Amdahl's law; t_c added, it is the universal scalability law, whose
    σ = t_0/T(1) and κ = t_c/T(1).

    >>> curve = ScalingTime(parallel_time=8.0, serial_time=1.0)
    >>> [float(curve(devices)) for devices in (1, 2, 8)]
    [9.0, 5.0, 2.0]

    Source: N. J. Gunther, "Guerrilla Capacity Planning", 2007, for contention; for the surface of a
    block, I. Foster, "Designing and Building Parallel Programs", 1995, section 3.3.
    """

    parallel_time: Seconds
    """t_p [s], work that divides among devices."""
    serial_time: Seconds = 0.0
    """t_0 [s], what every device waits for, however many there are."""
    surface_time: Seconds = 0.0
    """t_s [s], the exchange of the surfaces of blocks of a volume."""
    latency_time: Seconds = 0.0
    """t_l [s], for each doubling of the devices: a tree of messages."""
    contention_time: Seconds = 0.0
    """t_c [s], for each further device: turns taken one at a time, or a ring of messages."""

    def __call__(self, devices: Count) -> Seconds:
        """T(N) [s].

        Args:
            devices: N, number of devices.
        """
        (devices,) = real(devices)
        return (
            self.parallel_time / devices
            + self.serial_time
            + self.surface_time * (1 - 1 / devices) * devices ** (-2 / 3)
            + self.latency_time * jnp.log2(devices)
            + self.contention_time * (devices - 1)
        )
