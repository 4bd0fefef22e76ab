"""Counts in, seconds out: a chip, its links inside a node and across, and the host that feeds it.

A layer takes what its device takes, or what its host takes to launch its kernels, whichever is
longer: a smooth maximum of the two. Hosts are late by chance, and the latest of t hosts is later
by the mean delay times about log t, where delays are exponential. The device computes, at a rate
that falls on narrow products, moves what is element-wise through memory, and reduces along the
tensor axis by a ring, whose latency grows with the group.

T = R L/p · layer + (v R − 1) · passing on + m · head + (1 − o/m) · sum of gradients + update
    + overhead

with m micro-batches and R = m + (p − 1)/v rounds of a pipeline of p stages and v chunks, of which
the last chunk is passed on to nobody. Gradients are whole, and can be summed behind what is left,
in the last of m backward passes alone. Where the weights' gradients fill the wait (zero bubble),
the p − 1 rounds of waiting are each shorter by two of them: (p − 1) (t_F + t_B − 2 t_W) is left.
"""

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from scaleopt.models.checks import check_numbers
from scaleopt.models.parallelism import DeviceCounts, Parallelism
from scaleopt.models.products import Product
from scaleopt.models.transformer import Transformer
from scaleopt.units import (
    Bytes,
    BytesPerSecond,
    Count,
    FlopsPerSecond,
    Fraction,
    Ratio,
    Seconds,
    SecondsPerByte,
    real,
)

_SHARPNESS = 4
"""Power of the smooth maximum: 19 % above either of two equal times."""
_GRADIENT_BYTES = 4.0
"""Of a gradient as it is reduced: float32, whatever the products are in."""
_WEIGHT_BYTES = 2.0
"""Of a weight as it is gathered: bfloat16, in which it is multiplied."""
_UPDATE_BYTES = 40.0
"""Read and written for each parameter by mixed-precision Adam: two gradients, weight, master weight
and two moments in float32."""


class TrainingTerms(eqx.Module):
    """Where the seconds of a training step go; they add up to its total."""

    compute: Seconds
    """Matrix products."""
    memory: Seconds
    """What is element-wise, and the optimizer's update."""
    tensor: Seconds
    """All-reduces inside the layers."""
    context: Seconds
    """Keys and values passed around."""
    expert: Seconds
    """Tokens sent to experts and back."""
    pipeline: Seconds
    """Filling and draining the pipeline, and passing on between stages."""
    data: Seconds
    """The gradients' all-reduce."""
    overhead: Seconds
    """Kernels too small to fill the device, and what waits for the host."""

    @property
    def total(self) -> Seconds:
        """Seconds of the whole step."""
        inside = self.tensor + self.context + self.expert
        waiting = self.pipeline + self.data + self.overhead
        return self.compute + self.memory + inside + waiting


class Machine(eqx.Module):
    """A machine as the constants that turn counts into seconds; calling it evaluates the model.

    Args:
        rate: r [FLOP/s], that large matrix products reach.
        bandwidth: [B/s], of a device's memory.
        alpha: α [s], of a message inside a node.
        beta: β [s/B], inverse bandwidth of a device inside a node.
        network_alpha: [s], of a message between nodes.
        network_beta: [s/B], inverse of a device's share of its node's bandwidth to others.
        crowding: by how much that is exceeded where several groups share a node and each has
            several members there: their rings then leave by the same link; 3 where four links
            would be and one is used.
        grain: g, lost at each edge of a product's weight: at this width it reaches half the rate.
        kernel: [s], fixed device time of a layer's forward pass.
        host: [s], to launch a layer's forward pass.
        jitter: [s], by which a host is late with it on average; a tensor group waits for the latest
            of its members, the later the more they are.
        micro_batch_overhead: [s], once for each micro-batch.
        step_overhead: [s], once a step.
        overlap: o, share of the gradients' all-reduce that hides behind the backward pass of one
            micro-batch.
        node_size: devices of a node.

    Raises:
        ValueError: a constant that is negative or NaN.
        TypeError: one that is text.

    >>> machine = Machine(rate=250e12, bandwidth=1.5e12, alpha=8e-6, beta=1 / 200e9)
    >>> gpt = Transformer(hidden=2048, layers=24, heads=16, seq_len=1024, vocab=51200)
    >>> split = Parallelism(tensor=2, micro_batch=4, accumulation=8, recompute="full")
    >>> f"{machine(gpt, split):.2f} s"
    '1.06 s'

    Source: the ring of `all_reduce_time`; the edges of `Product`; the schedule of `Parallelism`;
    P. Qi et al., "Zero bubble pipeline parallelism", ICLR 2024, table 2, for ZB-H1; S. Li et al.,
    "PyTorch Distributed", VLDB 2020, section 3.2.4, for gradients summed behind the last of several
    micro-batches.
    """

    rate: FlopsPerSecond
    bandwidth: BytesPerSecond
    alpha: Seconds
    beta: SecondsPerByte
    network_alpha: Seconds = 0.0
    network_beta: SecondsPerByte = 0.0
    crowding: Ratio = 0.0
    grain: Ratio = 0.0
    kernel: Seconds = 0.0
    host: Seconds = 0.0
    jitter: Seconds = 0.0
    micro_batch_overhead: Seconds = 0.0
    step_overhead: Seconds = 0.0
    overlap: Fraction = 0.0
    node_size: Count = 8

    def __check_init__(self) -> None:
        """Refuse impossible numbers as they are written; traced values pass."""
        check_numbers(self, dict.fromkeys(vars(self), 0.0))

    def ring(self, split: Parallelism, group: Count, stride: Count, size: Bytes) -> Array:
        """Seconds of an all-reduce of `size` [B] in a group whose members are `stride` apart.

        Inside a node a ring; between nodes a tree for the latency, and for the bytes the links of
        all the members in a node, less what crowding takes.
        """
        group, size, alpha, beta, far, thin = real(
            group, size, self.alpha, self.beta, self.network_alpha, self.network_beta
        )
        local = split.local(group, stride, self.node_size)
        nodes = group / local
        messages = jnp.log2(nodes) * far + (local - 1) * alpha
        crowded = (local > 1) & (local < real(self.node_size)[0])
        shared = thin / local * (1 + self.crowding * crowded)
        slowest = jnp.where(nodes > 1, jnp.maximum(beta, shared), beta)
        return 2 * messages + 2 * (group - 1) / group * slowest * size

    def exchange(self, split: Parallelism, group: Count, stride: Count, size: Bytes) -> Array:
        """Seconds of an all-to-all in which each member of a group parts with `size` [B].

        A message of size/g goes to each other member in turn, inside the node or between nodes.
        """
        group, size, alpha, beta, far, thin = real(
            group, size, self.alpha, self.beta, self.network_alpha, self.network_beta
        )
        local, piece = split.local(group, stride, self.node_size), size / group
        near = (local - 1) * (alpha + beta * piece)
        return near + (group - local) * (far + jnp.maximum(beta, thin) * piece)

    def gradients(self, split: Parallelism, count: DeviceCounts) -> Array:
        """Seconds of the gradients' all-reduce; experts' among those that hold the same ones."""
        return self._among_replicas(split, count, _GRADIENT_BYTES)

    def gathering(self, split: Parallelism, count: DeviceCounts) -> Array:
        """Seconds of an all-gather of the weights, where replicas split them; as `gradients`."""
        return self._among_replicas(split, count, _WEIGHT_BYTES) / 2

    def _among_replicas(self, split: Parallelism, count: DeviceCounts, width: Bytes) -> Array:
        replicas, tensor, expert = real(split.data * split.context, split.tensor, split.expert)
        apart = jnp.where(expert > 1, width * count.expert_parameters, 0.0)
        common = self.ring(split, replicas, tensor, width * count.parameters - apart)
        own = self.ring(split, replicas / expert, tensor * expert, apart)
        return common + jnp.where(expert > 1, own, 0.0)

    def compute(self, products: tuple[Product, ...]) -> Array:
        """Seconds of products at the full rate, longer by what their edges lose."""
        efforts = [product.effort(self.grain) for product in products]
        return sum(efforts[1:], efforts[0]) / self.rate

    def update(self, parameters: Count) -> Array:
        """Seconds of the optimizer's update of so many parameters."""
        parameters, bandwidth = real(parameters, self.bandwidth)
        return _UPDATE_BYTES * parameters / bandwidth

    def terms(self, model: Transformer, split: Parallelism) -> TrainingTerms:
        """The seconds of each part of a training step.

        Args:
            model: the transformer.
            split: how it is split.

        Returns:
            The parts of the step [s].
        """
        count = split.counts(model)
        tensor, data, pipeline, context = real(
            split.tensor, split.data, split.pipeline, split.context
        )
        chunks, micro_batches, batch = real(split.interleave, split.accumulation, split.micro_batch)
        batch = batch / context  # as many sequences as a device sees tokens of
        weights, core = count.products.weights, count.products.attention
        passes = count.passes * self.compute(weights) + count.core_passes * self.compute(core)
        compute, memory = batch * passes, count.moved / self.bandwidth
        summed = count.reductions * self.ring(split, split.tensor, 1, count.message)
        near = tensor * context <= self.node_size
        handed = jnp.where(near, self.alpha, self.network_alpha)
        handed = handed + jnp.where(near, self.beta, self.network_beta) * count.keys
        passed_on = 3 * (context - 1) * handed
        sent = self.exchange(split, split.expert, split.tensor, count.routed)
        sent = count.reductions * sent  # to the experts and back, as often
        inside = summed + passed_on + sent
        device = compute + memory + inside + self.kernel * count.passes
        launched = self.host + self.jitter * jnp.log(tensor)
        layer = smooth_maximum(device, launched * count.passes)
        crossing = tensor * context * data >= self.node_size
        link = jnp.where(crossing, self.network_beta, self.beta)
        handovers = jnp.where(pipeline > 1, chunks * count.rounds - 1, 0.0)
        done, idle = micro_batches * count.stage_layers, count.rounds - micro_batches
        # In a zero-bubble schedule weights' gradients are computed while a stage would wait.
        spared = jnp.where(real(split.zero_bubble)[0] > 0, 2 * batch * self.compute(weights), 0.0)
        head = 3 * batch * self.compute((count.products.head,))
        update = self.update(count.parameters)
        once = self.step_overhead + self.micro_batch_overhead * micro_batches
        return TrainingTerms(
            compute=done * compute + micro_batches * head,
            memory=done * memory + micro_batches * count.logits / self.bandwidth + update,
            tensor=done * summed,
            context=done * passed_on,
            expert=done * sent,
            pipeline=idle * count.stage_layers * (layer - spared) + handovers * link * count.passed,
            data=(1 - self.overlap / micro_batches) * self.gradients(split, count),
            overhead=done * (layer - compute - memory - inside) + once,
        )

    def __call__(self, model: Transformer, split: Parallelism) -> Seconds:
        """Seconds of a training step; arguments as in `terms`."""
        return self.terms(model, split).total


def smooth_maximum(first: Seconds, second: Seconds) -> Array:
    """(x⁴ + y⁴)^(1/4): the longer of two times, or a little more where they are alike.

    >>> round(float(smooth_maximum(3.0, 1.0)), 3)
    3.009
    """
    first, second = real(first, second)
    longer = jnp.maximum(first, second)
    # In units of the longer one: a fourth power of a microsecond underflows in float32.
    unit = jnp.where(longer > 0, longer, 1.0)
    powers = (first / unit) ** _SHARPNESS + (second / unit) ** _SHARPNESS
    return unit * jnp.where(powers > 0, powers, 1.0) ** (1 / _SHARPNESS) * (longer > 0)
