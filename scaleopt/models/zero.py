"""What a step takes when ZeRO splits its states over the data axis: more passes, less is updated.

What a device then holds is told in `scaleopt.models.memory`.
"""

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from scaleopt.models.machine import Machine, TrainingTerms
from scaleopt.models.parallelism import Parallelism
from scaleopt.models.transformer import Transformer
from scaleopt.units import Count, Fraction, Scalar, Seconds, real


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
    ['1.44 s', '1.40 s', '1.73 s']

    Source: `Machine.terms`, `zero_seconds` and `saved_update`.
    """
    terms, count = machine.terms(model, split), split.counts(model)
    passed = machine.gradients(split, count), machine.gathering(split, count), machine.overlap
    saved = saved_update(machine, model, split)
    data, saved = zero_seconds(*passed, saved, zero, split.accumulation)
    changed = data, terms.memory - saved
    return eqx.tree_at(lambda parts: (parts.data, parts.memory), terms, changed)


def zero_seconds(
    summed: Seconds,
    gathered: Seconds,
    overlap: Fraction,
    saved: Seconds,
    zero: Scalar,
    accumulation: Count,
) -> tuple[Array, Array]:
    """What the data axis takes under ZeRO, and what the update takes less.

    An all-reduce is a reduce-scatter and an all-gather of half its seconds each. With S the
    gradients' all-reduce, G the weights' all-gather and m micro-batches:

    stage  once a step   for every micro-batch
    0      S
    1      S/2 + G
    2      G             S/2
    3                    S/2 + 2 G, for the forward pass and for the backward pass

    What is passed for every micro-batch hides behind each of them, o of it, what is passed once a
    step behind one of m.

    Args:
        summed: S [s], of an all-reduce of the gradients.
        gathered: G [s], of an all-gather of the weights.
        overlap: o, share that hides.
        saved: [s], of the update of what other replicas hold.
        zero: ZeRO stage, 0 to 3.
        accumulation: m, micro-batches of a step.

    Returns:
        Both [s].

    >>> times = [zero_seconds(4.0, 1.0, 0.0, 0.0, stage, 8)[0] for stage in (0, 1, 2, 3)]
    >>> [float(time) for time in times]
    [4.0, 3.0, 17.0, 32.0]

    Source: S. Rajbhandari et al., SC 2020, section 7.
    """
    summed, gathered, overlap, stage, batches = real(summed, gathered, overlap, zero, accumulation)
    half = summed / 2
    once = jnp.where(stage >= 3, 0.0, gathered + jnp.where(stage >= 2, 0.0, half))
    once = jnp.where(stage >= 1, once, summed)
    each = jnp.where(stage >= 2, half + jnp.where(stage >= 3, 2 * gathered, 0.0), 0.0)
    shown = once * (1 - overlap / batches) + batches * each * (1 - overlap)
    return shown, jnp.where(stage > 0, saved, 0.0)


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
