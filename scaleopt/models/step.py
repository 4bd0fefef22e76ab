"""One training step on N devices: what stays, what divides, and what it costs to divide.

T(N) = serial time + launch + W / (N r) + waiting for the slowest + exposed all-reduce of M bytes

The serial part is a time, not a fraction: it stays the same when the work grows. With the work
fixed that is Amdahl's law, with the work growing as N Gustafson's; a model, two questions.
"""

import equinox as eqx
import jax.numpy as jnp

from scaleopt.models.checks import check_numbers
from scaleopt.models.collectives import all_reduce_time
from scaleopt.models.imbalance import largest_of
from scaleopt.units import (
    Bytes,
    Count,
    Excess,
    Flops,
    FlopsPerSecond,
    Fraction,
    Seconds,
    SecondsPerByte,
    Share,
    real,
)

_NOT_NEGATIVE = ("alpha", "beta", "serial_time", "launch", "overlap", "imbalance", "spread")


class StepTerms(eqx.Module):
    """Where the seconds of a step go; they add up to its total."""

    serial: Seconds
    launch: Seconds
    """Starting the step's program."""
    compute: Seconds
    """What the compute takes where every device has the same work and is equally fast."""
    imbalance: Seconds
    """Waiting for the device with the most work."""
    straggling: Seconds
    """Waiting for the device that happens to be the slowest."""
    communication: Seconds
    """The part of the all-reduce that is not hidden behind compute."""

    @property
    def total(self) -> Seconds:
        """Seconds of the whole step."""
        busy = self.compute + self.imbalance + self.straggling
        return self.serial + self.launch + busy + self.communication


class StepTime(eqx.Module):
    """Seconds of a data-parallel step on N devices; calling it evaluates the model.

    T(N) = serial_time + launch + C (1 + λ) (1 + σ m(N)) + max(A − overlap · C / k, 0)
    C = W / (N · rate · compute_efficiency),  λ and m(N) on several devices only
    A = 2(N − 1) α + 2 ((N − 1)/N) β M

    W is the work of the whole step, M what is reduced once at its end. To accumulate gradients over
    k micro-batches is k times the work for the same M; only the last micro-batch hides any of it.
    Compressed gradients are a smaller β: `compressed_beta`.

    Args:
        rate: r [FLOP/s], sustained matmul rate of one device.
        alpha: α [s], time of an empty message.
        beta: β [s/B], inverse bandwidth of one device in one direction.
        serial_time: [s], what no number of devices shortens.
        launch: [s], fixed cost of starting the step's program.
        compute_efficiency: share of `rate` that the step's own compute reaches.
        overlap: share of the compute time behind which communication can hide, 0 to 1.
        accumulation: k, micro-batches in a step.
        imbalance: λ, by how much the busiest device's work exceeds the mean; `load_imbalance`. With
            a spread as well every device is taken to be as busy, which is an upper bound.
        spread: σ, standard deviation of one device's compute time from step to step over its mean;
            m(N) as in `slowest_time`. None where it does not vary: N* is then a closed form.

    Raises:
        ValueError: a negative time, imbalance or spread, a rate or efficiency that is not positive,
            an overlap outside 0 to 1, an accumulation below 1.
        TypeError: a text.

    >>> step = StepTime(rate=120e12, alpha=8e-6, beta=1 / 25e9, serial_time=0.0167)
    >>> round(float(step(devices=8, flops=1e14, size=1e8)) * 1e3, 1)
    128.0
    >>> round(float(step.terms(devices=8, flops=1e14, size=1e8).compute) * 1e3, 1)
    104.2

    Source: G. M. Amdahl, AFIPS 1967, for the split; the all-reduce as `all_reduce_time`; S. Li et
    al., "PyTorch Distributed", VLDB 2020, for overlap and accumulation.
    """

    rate: FlopsPerSecond
    alpha: Seconds
    beta: SecondsPerByte
    serial_time: Seconds = 0.0
    launch: Seconds = 0.0
    compute_efficiency: Share = 1.0
    overlap: Fraction = 0.0
    accumulation: Count = 1.0
    imbalance: Excess = 0.0
    spread: Excess | None = None

    def __check_init__(self) -> None:
        """Refuse impossible numbers as they are written; traced values pass."""
        check_numbers(self, dict.fromkeys(_NOT_NEGATIVE, 0.0) | {"accumulation": 1.0})
        check_numbers(self, {"rate": 0.0, "compute_efficiency": 0.0}, above=True)
        if isinstance(self.overlap, (int, float)) and self.overlap > 1:
            raise ValueError(f"StepTime: overlap is {self.overlap}; it is a share, so at most 1")

    def terms(
        self, devices: Count, flops: Flops, size: Bytes, *, all_reduce: Seconds | None = None
    ) -> StepTerms:
        """The seconds of each part.

        Args:
            devices: N, number of devices.
            flops: W [FLOP], work of the step over all devices.
            size: M [B], bytes of the gradients, as one device holds them.
            all_reduce: A [s], where the gradients' all-reduce is not a flat ring over N: by levels,
                a tree, an envelope. With it α, β and M are not used.

        Returns:
            The parts of the step [s]; communication is what compute does not hide.
        """
        devices, flops, size = real(devices, flops, size)
        rate, efficiency, overlap = real(self.rate, self.compute_efficiency, self.overlap)
        accumulation, imbalance = real(self.accumulation, self.imbalance)
        # Divided one after another: (N · rate)³, in a second derivative, overflows in float32.
        compute = flops / rate / efficiency / devices
        uneven = compute * jnp.where(devices > 1, imbalance, 0.0)
        straggling = jnp.zeros(())
        if self.spread is not None:
            straggling = (compute + uneven) * self.spread * largest_of(devices)
        if all_reduce is None:
            all_reduce = all_reduce_time(size, devices, self.alpha, self.beta)
        (all_reduce,) = real(all_reduce)
        hidden = overlap / accumulation * compute
        # `maximum` would halve the gradient where both sides are 0, as at N = 1 without overlap.
        exposed = jnp.where(all_reduce >= hidden, all_reduce - hidden, 0.0)
        parts = real(self.serial_time, self.launch, compute, uneven, straggling, exposed)
        return StepTerms(*jnp.broadcast_arrays(*parts))

    def __call__(
        self, devices: Count, flops: Flops, size: Bytes, *, all_reduce: Seconds | None = None
    ) -> Seconds:
        """Seconds of the step; arguments as in `terms`."""
        return self.terms(devices, flops, size, all_reduce=all_reduce).total
