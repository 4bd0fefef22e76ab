"""What more devices bring: the same work sooner, or more work in the same time.

Both questions are put to one model of the step. Strong scaling keeps W and divides it, weak scaling
gives every device the same W and lets the whole grow.
"""

from typing import NamedTuple

import jax.numpy as jnp

from scaleopt.models.speedup import efficiency
from scaleopt.planning.devices.optimum import TimeModel, check_time
from scaleopt.units import Bytes, Count, Flops, Ratio, Seconds, real


class ScalingCurve(NamedTuple):
    """A step on each number of devices, against the step on one."""

    devices: Count
    time: Seconds
    speedup: Ratio
    """How many times as much work is done in a second as on one device."""
    efficiency: Ratio
    """The speed-up for each device."""


def strong_scaling(step_time: TimeModel, devices: Count, flops: Flops, size: Bytes) -> ScalingCurve:
    """The same work on more devices: Amdahl's question.

    S(N) = T(1; W) / T(N; W),  E = S / N

    Args:
        step_time: a `StepTime`, or any callable of (devices, flops, size).
        devices: N, numbers of devices.
        flops: W [FLOP], work of the step over all devices, whatever their number.
        size: M [B], bytes of the gradients.

    Returns:
        Time, speed-up and efficiency at each N.

    >>> from scaleopt.models.step import StepTime
    >>> step = StepTime(rate=1e14, alpha=5e-6, beta=4e-11, serial_time=0.05)
    >>> curve = strong_scaling(step, jnp.array([1, 8, 64]), 1e14, 1e8)
    >>> [round(float(speedup), 2) for speedup in curve.speedup]
    [1.0, 5.77, 14.16]

    Source: G. M. Amdahl, AFIPS 1967.
    """
    return _curve(step_time, devices, flops, flops, size)


def weak_scaling(
    step_time: TimeModel, devices: Count, flops_per_device: Flops, size: Bytes
) -> ScalingCurve:
    """The same work for each device: Gustafson's question.

    S(N) = N T(1; w) / T(N; N w),  E = S / N

    Args:
        step_time: a `StepTime`, or any callable of (devices, flops, size).
        devices: N, numbers of devices.
        flops_per_device: w [FLOP], work of the step for each device.
        size: M [B], bytes of the gradients.

    Returns:
        Time, scaled speed-up and efficiency at each N.

    >>> from scaleopt.models.step import StepTime
    >>> step = StepTime(rate=1e14, alpha=5e-6, beta=4e-11, serial_time=0.05)
    >>> curve = weak_scaling(step, jnp.array([1, 8, 64]), 1e14, 1e8)
    >>> [round(float(share), 3) for share in curve.efficiency]
    [1.0, 0.993, 0.992]

    Source: J. L. Gustafson, "Reevaluating Amdahl's law", CACM 31(5), 1988.
    """
    count, flops_per_device = real(devices, flops_per_device)
    return _curve(step_time, count, flops_per_device, count * flops_per_device, size)


def _curve(
    step_time: TimeModel, devices: Count, alone: Flops, together: Flops, size: Bytes
) -> ScalingCurve:
    check_time(step_time)
    count, alone, together = real(devices, alone, together)
    time = jnp.asarray(step_time(count, together, size))
    # Work done in a second, against one device's.
    speedup = together / alone * step_time(1.0, alone, size) / time
    return ScalingCurve(count, time, speedup, efficiency(speedup, count))
