"""What a step takes when ZeRO splits its states over the data axis: more passes, less is updated.

What a device then holds is told in `scaleopt.models.memory`.
"""

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from scaleopt.models.machine import Machine, TrainingTerms
from scaleopt.models.parallelism import Parallelism
from scaleopt.models.transformer import Transformer
from scaleopt.units import Count, Scalar, Seconds, real


def zero_terms(
    machine: Machine, model: Transformer, split: Parallelism, zero: Scalar
) -> TrainingTerms:
    """The seconds of each part of a training step under ZeRO.

    Args:
        machine: the machine.
        model: the transformer.
        split: how it is split.
        zero: ZeRO stage, 0 to 3.

    Returns:
        The parts of the step [s].

    >>> machine = Machine(rate=250e12, bandwidth=1.5e12, alpha=8e-6, beta=1 / 200e9)
    >>> gpt = Transformer(hidden=2048, layers=24, heads=16, seq_len=1024, vocab=51200)
    >>> split = Parallelism(data=8, micro_batch=4, accumulation=8)
    >>> [f"{zero_terms(machine, gpt, split, stage).total:.2f} s" for stage in (0, 1, 3)]
    ['1.44 s', '1.41 s', '1.91 s']

    Source: `Machine.terms`, `traffic_factor` and `saved_update`.
    """
    terms = machine.terms(model, split)
    summed = machine.gradients(split, split.counts(model))
    saved = saved_update(machine, model, split)
    passed = summed, machine.overlap * summed
    data, saved = zero_seconds(*passed, saved, zero, split.accumulation)
    changed = data, terms.memory - saved
    return eqx.tree_at(lambda parts: (parts.data, parts.memory), terms, changed)


def zero_seconds(
    summed: Seconds, hidden: Seconds, saved: Seconds, zero: Scalar, accumulation: Count
) -> tuple[Array, Array]:
    """What the data axis takes under ZeRO, and what the update takes less.

    What is passed for every micro-batch hides behind each of them, what is passed once a step
    behind one of m.

    Args:
        summed: [s], of one all-reduce of the gradients.
        hidden: [s], how much of it hides behind a micro-batch's backward pass.
        saved: [s], of the update of what other replicas hold.
        zero: ZeRO stage, 0 to 3.
        accumulation: micro-batches of a step.

    Returns:
        Both [s].
    """
    (batches,) = real(accumulation)
    once, each = _traffic(zero, batches)
    shown = once * (summed - hidden / batches) + each * (jnp.asarray(summed) - hidden)
    return shown, jnp.where(jnp.asarray(zero) > 0, saved, 0.0)


def saved_update(machine: Machine, model: Transformer, split: Parallelism) -> Array:
    """Seconds of the optimizer's update that other replicas do once ZeRO splits it.

    Args:
        machine: the machine.
        model: the transformer.
        split: how it is split.
    """
    replicas, expert = real(split.data * split.context, split.expert)
    count = split.counts(model)
    kept = (count.parameters + (expert - 1) * count.expert_parameters) / replicas
    return machine.update(count.parameters) - machine.update(kept)


def traffic_factor(zero: Scalar, accumulation: Count) -> Array:
    """Bytes that the data axis passes each step under ZeRO, as a multiple of one all-reduce.

    An all-reduce is a reduce-scatter and an all-gather of half its bytes each. Stages 0 and 1 need
    one of each; stage 2 reduces the gradients of every micro-batch; stage 3 gathers the weights
    for the forward pass and for the backward pass of every micro-batch besides.

    factor = 1, 1, (m + 1)/2, 3 m/2 at stages 0, 1, 2, 3

    Args:
        zero: ZeRO stage, 0 to 3.
        accumulation: m, micro-batches of a step.

    Returns:
        The factor.

    >>> [float(traffic_factor(stage, 1)) for stage in (0, 1, 2, 3)]
    [1.0, 1.0, 1.0, 1.5]

    Source: S. Rajbhandari et al., SC 2020, section 7.
    """
    once, each = _traffic(zero, accumulation)
    return once + each


def _traffic(zero: Scalar, accumulation: Count) -> tuple[Array, Array]:
    """What `traffic_factor` counts once a step, and for all micro-batches."""
    zero, batches = real(zero, accumulation)
    once = jnp.where(zero >= 3, 0.0, jnp.where(zero >= 2, 0.5, 1.0))
    each = jnp.where(zero >= 3, 1.5 * batches, jnp.where(zero >= 2, batches / 2, 0.0))
    return once, each
