"""What a device sends in a training step, axis by axis: which collective, of how much, how often.

axis      ranks apart   messages of a step with m micro-batches and l = L/p layers of a stage
tensor    1             4 l m all-reduces of b s h numbers, 6 with full recomputation; with
                        sequence parallelism an all-gather and a reduce-scatter for each of them
context   t             3 (c − 1) l m messages of keys and values to the next
expert    t             as many all-to-alls as of the tensor axis
data      t             an all-reduce of the gradients; under ZeRO its two halves apart, from stage
                        2 a reduce-scatter and at 3 two all-gathers for every micro-batch
pipeline  t c d         v m + p − 2 times hidden states of v chunks of layers to the next of p
                        stages, and as often their gradients back

Source: M. Shoeybi et al., "Megatron-LM", 2019, section 3; V. Korthikanti et al., MLSys 2023,
section 4.2; S. Rajbhandari et al., "ZeRO", SC 2020, section 7.
"""

from typing import TYPE_CHECKING

import jax.numpy as jnp

from scaleopt.models.workload import Message
from scaleopt.units import Bytes, Scalar, real

if TYPE_CHECKING:
    from scaleopt.models.parallelism import DeviceCounts, Parallelism


def step_messages(
    split: "Parallelism", count: "DeviceCounts", zero: Scalar, gradient: Bytes, weight: Bytes
) -> dict[str, tuple[Message, ...]]:
    """The messages of one device of the busiest stage, by axis.

    Args:
        split: how the step is split.
        count: what a device does under it.
        zero: ZeRO stage, 0 to 3.
        gradient: bytes of a gradient as it is summed.
        weight: bytes of a weight as it is gathered.
    """
    data, tensor, context, expert, pipeline = real(
        split.data, split.tensor, split.context, split.expert, split.pipeline
    )
    along, zero, rounds = real(split.sequence_parallel, zero, split.accumulation)
    layers = count.stage_layers * rounds
    often, chunks = count.reductions * layers, real(split.interleave)[0]
    halved = jnp.where(along > 0, often, 0.0)
    passed = jnp.where(pipeline > 1, 2 * (chunks * count.rounds - 1), 0.0)
    turned = jnp.where(expert > 1, often, 0.0)
    apart = jnp.where(expert > 1, count.expert_parameters, 0.0)
    replicas = data * context
    common, own = (
        _summed(gradient * size, weight * size, group, stride, zero, rounds)
        for size, group, stride in (
            (count.parameters - apart, replicas, tensor),
            (apart, jnp.where(expert > 1, replicas / expert, 1.0), tensor * expert),
        )
    )
    return {
        "tensor": (
            Message("all_reduce", count.message, tensor, 1, often - halved),
            Message("all_gather", count.message, tensor, 1, halved),
            Message("reduce_scatter", count.message, tensor, 1, halved),
        ),
        "context": (Message("send", count.keys, context, tensor, 3 * (context - 1) * layers),),
        "expert": (Message("all_to_all", expert * count.routed, expert, tensor, turned),),
        "data": common,
        "experts' data": own,
        "pipeline": (Message("send", count.passed / 2, pipeline, tensor * replicas, passed),),
    }


def _summed(
    size: Bytes, weights: Bytes, group: Scalar, stride: Scalar, zero: Scalar, rounds: Scalar
) -> tuple[Message, ...]:
    """What a data group sends of gradients and weights."""
    zero, rounds = real(zero, rounds)
    whole = jnp.where(zero > 0, 0.0, 1.0)
    scattered = jnp.where(zero >= 2, rounds, 1.0 - whole)
    gathered = jnp.where(zero >= 3, 2 * rounds, 1.0 - whole)
    several = jnp.where(real(group)[0] > 1, 1.0, 0.0)
    whole, scattered, gathered = several * whole, several * scattered, several * gathered
    return (
        Message("all_reduce", size, group, stride, whole, behind=True),
        Message("reduce_scatter", size, group, stride, scattered, behind=True),
        Message("all_gather", weights, group, stride, gathered, behind=True),
    )
