"""One training step on N devices: what stays, what divides, and what it costs to divide.

T(N) = serial time + W / (N r) + all-reduce of M bytes over N

The serial part is a time, not a fraction: it stays the same when the work grows. With the work
fixed that is Amdahl's law, with the work growing as N Gustafson's; a model, two questions.
"""

import equinox as eqx
import jax.numpy as jnp

from scaleopt.models.collectives import all_reduce_time
from scaleopt.units import (
    Bytes,
    Count,
    Flops,
    FlopsPerSecond,
    Fraction,
    Seconds,
    SecondsPerByte,
    Share,
    real,
)


class StepTerms(eqx.Module):
    """Where the seconds of a step go; they add up to its total."""

    serial: Seconds
    compute: Seconds
    communication: Seconds
    """The part of the all-reduce that is not hidden behind compute."""

    @property
    def total(self) -> Seconds:
        """Seconds of the whole step."""
        return self.serial + self.compute + self.communication


class StepTime(eqx.Module):
    """Seconds of a data-parallel step on N devices; calling it evaluates the model.

    T(N) = serial_time + C + max(A − overlap · C, 0)
    C = W / (N · rate · compute_efficiency)
    A = launch + 2(N − 1) α + 2 ((N − 1)/N) β M

    Args:
        rate: r [FLOP/s], sustained matmul rate of one device.
        alpha: α [s], time of an empty message.
        beta: β [s/B], inverse bandwidth of one device in one direction.
        serial_time: [s], what no number of devices shortens.
        launch: [s], fixed cost of starting the step's program.
        compute_efficiency: share of `rate` that the step's own compute reaches.
        overlap: share of the compute time behind which communication can hide, 0 to 1.

    Raises:
        ValueError: a negative time, a rate or efficiency that is not positive, an overlap
            outside 0 to 1.

    >>> step = StepTime(rate=120e12, alpha=8e-6, beta=1 / 25e9, serial_time=0.0167)
    >>> round(float(step(devices=8, flops=1e14, size=1e8)) * 1e3, 1)
    128.0
    >>> round(float(step.terms(devices=8, flops=1e14, size=1e8).compute) * 1e3, 1)
    104.2

    Source: G. M. Amdahl, AFIPS 1967, for the split; the all-reduce as `all_reduce_time`.
    """

    rate: FlopsPerSecond
    alpha: Seconds
    beta: SecondsPerByte
    serial_time: Seconds = 0.0
    launch: Seconds = 0.0
    compute_efficiency: Share = 1.0
    overlap: Fraction = 0.0

    def __check_init__(self) -> None:
        """Refuse impossible numbers as they are written; traced values pass."""
        for name in ("alpha", "beta", "serial_time", "launch", "overlap"):
            value = getattr(self, name)
            if isinstance(value, (int, float)) and not value >= 0:
                raise ValueError(f"StepTime: {name} is {value}; it must be 0 or more (SI units)")
        for name in ("rate", "compute_efficiency"):
            value = getattr(self, name)
            if isinstance(value, (int, float)) and not value > 0:
                raise ValueError(f"StepTime: {name} is {value}; it must be above 0 (SI units)")
        if isinstance(self.overlap, (int, float)) and self.overlap > 1:
            raise ValueError(f"StepTime: overlap is {self.overlap}; it is a share, so at most 1")

    def terms(self, devices: Count, flops: Flops, size: Bytes) -> StepTerms:
        """The seconds of each part.

        Args:
            devices: N, number of devices.
            flops: W [FLOP], work of the step over all devices.
            size: M [B], bytes of the gradients, as one device holds them.

        Returns:
            The serial, compute and exposed communication time [s].
        """
        devices, flops, size = real(devices, flops, size)
        rate, efficiency, overlap = real(self.rate, self.compute_efficiency, self.overlap)
        # Divided one after another: (N · rate)³, in a second derivative, overflows in float32.
        compute = flops / rate / efficiency / devices
        all_reduce = all_reduce_time(size, devices, self.alpha, self.beta, launch=self.launch)
        hidden = overlap * compute
        # `maximum` would halve the gradient where both sides are 0, as at N = 1 without a launch.
        exposed = jnp.where(all_reduce >= hidden, all_reduce - hidden, 0.0)
        return StepTerms(*jnp.broadcast_arrays(*real(self.serial_time, compute, exposed)))

    def __call__(self, devices: Count, flops: Flops, size: Bytes) -> Seconds:
        """Seconds of the step; arguments as in `terms`."""
        return self.terms(devices, flops, size).total
