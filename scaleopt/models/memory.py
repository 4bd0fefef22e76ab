"""What one device must hold to train a transformer: its share of the states, and activations.

The states are weights, gradients and the optimizer's numbers. ZeRO splits more and more of them
along the data axis: the optimizer (stage 1), the gradients too (2), the weights too (3).

Activations of a layer wait for its backward pass. Per sequence, with s tokens, hidden size h and
numbers of P bytes,

  2 P s h + 2 P s h         inputs of both norms and of the linear maps behind them
  P s (2 a d + 2 g d)       queries, keys, values and the output's input
  P s m f k                 between the MLP's matrices
  a s² (2 P + 1) · attended  scores after softmax and after dropout, and its mask; P without dropout

and a byte for each element that dropout may drop. An axis that shares sequences (context) splits
all of it, and the states along with the data axis. Devices that share the experts hold a part of
them each, and as many tokens as without. The tensor axis splits the lines behind the
first, and the first too where sequences are split along it. Selective recomputation keeps no
scores, full recomputation only the layer's input.

Source: V. Korthikanti et al., "Reducing activation recomputation in large transformer models",
MLSys 2023, section 4 (there 34 s b h + 5 a s² b bytes); S. Rajbhandari et al., "ZeRO: memory
optimizations toward training trillion parameter models", SC 2020, section 5.
"""

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from scaleopt.models.parallelism import Parallelism
from scaleopt.models.transformer import Transformer, recompute_code
from scaleopt.units import Bytes, Scalar, real

ZERO_STAGES = (0, 1, 2, 3)
"""How much of the states the data axis splits: nothing, optimizer, and gradients, and weights."""


class DeviceMemory(eqx.Module):
    """Bytes that one device holds at its fullest; they add up to the total."""

    weights: Bytes
    gradients: Bytes
    optimizer: Bytes
    """Master weights and moments."""
    activations: Bytes
    """Of all micro-batches that wait for their backward pass."""
    working: Bytes
    """For a moment: the layer that is computed again, or weights gathered for it; the logits."""

    @property
    def states(self) -> Bytes:
        """Weights, gradients and optimizer: what is there whatever the batch."""
        return self.weights + self.gradients + self.optimizer

    @property
    def total(self) -> Bytes:
        """All of it."""
        return self.states + self.activations + self.working


class Precision(eqx.Module):
    """Bytes of a number of each kind; mixed precision with Adam unless given.

    >>> Precision().state
    18.0
    """

    weight: Bytes = 2.0
    gradient: Bytes = 4.0
    """Float32, in which gradients of many micro-batches are summed."""
    optimizer: Bytes = 12.0
    """For each parameter: a master weight and two moments in float32."""
    activation: Bytes = 2.0

    @property
    def state(self) -> Bytes:
        """Bytes that each parameter brings along."""
        return self.weight + self.gradient + self.optimizer


def training_memory(
    model: Transformer,
    split: Parallelism,
    *,
    zero: Scalar = 0,
    precision: Precision | None = None,
) -> DeviceMemory:
    """Bytes that a device of the first pipeline stage holds, which holds most activations.

    M = φ (P_w + P_g + P_o) + (micro-batches in flight) · (layers of the stage) · (a layer's share)

    where φ are the device's parameters, each of the three states split over the data axis as the
    ZeRO stage says. With stages in turns (1F1B) min(p, m) micro-batches are in flight; with v
    chunks a stage, min(p v + p − 1, m v) chunks of them.

    Args:
        model: the transformer.
        split: how it is split.
        zero: ZeRO stage, 0 to 3; several in a batch of splits.
        precision: bytes of the numbers.

    Returns:
        The bytes of one device, by use.

    Raises:
        ValueError: a stage that is none of 0, 1, 2, 3.

    >>> gpt3 = Transformer(
    ...     hidden=12288, layers=96, heads=96, seq_len=2048, vocab=51200, dropout=True
    ... )
    >>> split = Parallelism(tensor=8, pipeline=8, interleave=3, accumulation=64)
    >>> memory = training_memory(gpt3, split)
    >>> f"{memory.states / 2**30:.1f} + {memory.activations / 2**30:.1f} GiB"
    '46.9 + 67.1 GiB'

    Source: as the module; the pipeline in section 4.2.3 of Korthikanti et al.
    """
    if isinstance(zero, int) and zero not in ZERO_STAGES:
        raise ValueError(f"zero is {zero}; a ZeRO stage is one of 0, 1, 2, 3")
    precision = Precision() if precision is None else precision
    data, context, pipeline, layers, zero = real(
        split.data, split.context, split.pipeline, model.layers, zero
    )
    code = real(recompute_code(split.recompute))[0]
    held, experts = parameters_held(model, split)
    # A device's part of the experts is shared with as many fewer replicas as there are such parts.
    copies, fewer = data * context, data * context / real(split.expert)[0]
    weights, gradients, optimizer = (
        jnp.where(zero >= stage, (held - experts) / copies + experts / fewer, held)
        for stage in (3, 2, 1)
    )
    whole, stored = layer_activations(model, split, precision.activation)
    flying = layers_in_flight(split) / pipeline * layers
    again = jnp.where(code == 2, whole, 0.0)
    layer = held / (layers / pipeline) * precision.weight
    gathered = jnp.where(zero >= 3, 2 * layer, 0.0)
    return DeviceMemory(
        weights=weights * precision.weight,
        gradients=gradients * precision.gradient,
        optimizer=optimizer * precision.optimizer,
        activations=flying * stored + outside_layers(model, split, precision.activation),
        working=again + gathered + logits(model, split, precision.activation),
    )


def parameters_held(model: Transformer, split: Parallelism) -> tuple[Array, Array]:
    """Parameters on a device of the first stage, before ZeRO: its layers and the embedding.

    Returns:
        All of them, and of these the experts'.
    """
    weights = model.weights()
    layers, pipeline, tensor, expert = real(
        model.layers, split.pipeline, split.tensor, split.expert
    )
    head = jnp.where(pipeline > 1, 0.0, weights.head)
    experts = layers / pipeline * model.expert_weights() / tensor
    whole = (layers / pipeline * weights.layers + head + model.embedding()) / tensor
    return whole - experts * (1 - 1 / expert), experts / expert


def layers_in_flight(split: Parallelism) -> Array:
    """How often a stage's activations are held: micro-batches that wait for their backward pass."""
    stages, chunks, batches = real(split.pipeline, split.interleave, split.accumulation)
    interleaved = jnp.minimum(stages * chunks + stages - 1, batches * chunks) / chunks
    return jnp.where(chunks > 1, interleaved, jnp.minimum(stages, batches))


def layer_activations(
    model: Transformer, split: Parallelism, precision: Bytes = 2.0
) -> tuple[Bytes, Bytes]:
    """Bytes of a layer's activations on one device for one micro-batch.

    Args:
        model: the transformer.
        split: how it is split.
        precision: bytes of one activation.

    Returns:
        All that the backward pass needs, and what of it is kept until then [B].
    """
    tensor, tokens, hidden = real(split.tensor, model.seq_len, model.hidden)
    batch = _sequences(split)
    heads, width, experts, active = real(
        model.heads, model.feed_forward, model.experts, model.active_experts
    )
    code, along = real(recompute_code(split.recompute), split.sequence_parallel)
    mask = 1.0 if model.dropout else 0.0
    spread = jnp.where(along > 0, tensor, 1.0)
    copies = 3.0 + jnp.where(experts > 1, active, 1.0)  # tokens are copied to each of their experts
    outer = tokens * hidden * (copies * precision + 2 * mask) / spread
    between = 2 * model.queries + 2 * model.keys + model.matrices * width * active
    inner = precision * tokens * between / tensor
    if model.fused_attention:
        scores = 4.0 * heads * tokens / tensor  # a log-sum-exp in float32 for each row
    else:
        each = precision + mask * (precision + 1)
        scores = each * heads * tokens**2 * model.attended / tensor
    kept = jnp.where(code > 0, 0.0, scores)
    entry = precision * tokens * hidden / spread
    stored = jnp.where(code == 2, entry, outer + inner + kept)
    return batch * (outer + inner + scores), batch * stored


def outside_layers(model: Transformer, split: Parallelism, precision: Bytes = 2.0) -> Array:
    """Activations outside the layers: the embedding's dropout mask; with one stage, the head's."""
    tensor, tokens, hidden = real(split.tensor, model.seq_len, model.hidden)
    batch = _sequences(split)
    pipeline, along = real(split.pipeline, split.sequence_parallel)
    spread = jnp.where(along > 0, tensor, 1.0)
    element = batch * tokens * hidden / spread
    masks = layers_in_flight(split) * element * (1.0 if model.dropout else 0.0)
    return masks + jnp.where(pipeline > 1, 0.0, 2 * precision * element)


def logits(model: Transformer, split: Parallelism, precision: Bytes = 2.0) -> Array:
    """Scores over the vocabulary and their softmax in float32; 0 where the head is elsewhere."""
    tensor, tokens, vocab = real(split.tensor, model.seq_len, model.vocab)
    batch = _sequences(split)
    pipeline = real(split.pipeline)[0]
    every = batch * tokens * vocab * model.predicted / tensor
    return jnp.where(pipeline > 1, 0.0, (precision + 4.0) * every)


def _sequences(split: Parallelism) -> Array:
    """As many sequences as a device sees tokens of, in a micro-batch."""
    batch, context = real(split.micro_batch, split.context)
    return batch / context
