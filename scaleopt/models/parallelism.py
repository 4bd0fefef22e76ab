"""How a training step is split over devices: data, tensor and pipeline. It knows no machine.

Neighbours in rank work most closely: tensor groups are innermost, then those that share a sequence,
then data groups, and pipeline stages outermost, so that a group of an axis has its members `stride`
ranks apart, and how many of them share a node follows from the node's size alone. Experts have no
axis of their own: neighbours among those that share sequences and batch hold each a part of them.

Source: D. Narayanan et al., "Efficient large-scale language model training on GPU clusters using
Megatron-LM", SC 2021, sections 2 and 3; V. Korthikanti et al., MLSys 2023, for sequences split
along the tensor axis; H. Liu et al., "Ring attention with blockwise transformers", ICLR 2024, for
sequences split along an axis of their own; D. Lepikhin et al., "GShard", ICLR 2021, for experts;
P. Qi et al., "Zero bubble pipeline parallelism", ICLR 2024, for its schedule.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh

from scaleopt.models.checks import check_numbers
from scaleopt.models.mesh import Specs, mesh_of, specs_of
from scaleopt.models.messages import step_messages
from scaleopt.models.products import LayerProducts, layer_products
from scaleopt.models.transformer import Transformer, recompute_code
from scaleopt.models.workload import Message
from scaleopt.units import Bytes, Count, CountedFlops, Scalar, real

_AXES = ("data", "tensor", "pipeline", "micro_batch", "accumulation", "interleave")
_AXES = (*_AXES, "context", "expert")


class DeviceCounts(eqx.Module):
    """What one device does for one micro-batch in one layer, and once a step."""

    forward: CountedFlops
    """FLOP of a layer's forward pass, by one device."""
    layer: CountedFlops
    """FLOP of a layer: forward, backward and what is done again."""
    head: CountedFlops
    """FLOP of the head, forward and backward."""
    products: LayerProducts
    """The shapes behind these FLOP, of one sequence's forward pass."""
    core_passes: Scalar
    """How often the attention core is computed against its forward pass alone."""
    moved: Bytes
    """Through memory by a layer's element-wise parts, in all passes."""
    logits: Bytes
    """Through memory by softmax and loss."""
    passes: Scalar
    """Kernels of a layer against those of its forward pass alone; 3 without recomputation."""
    reductions: Scalar
    """All-reduces along the tensor axis, for a layer in all passes."""
    message: Bytes
    """Size of each, and of what stages pass on: the hidden states of a micro-batch."""
    passed: Bytes
    """What one device passes to the next stage and gets back, for each chunk of layers: its share,
    which the tensor group gathers again inside its node."""
    keys: Bytes
    """Keys and values of a device's part of the sequences, passed on c − 1 times in each pass."""
    routed: Bytes
    """Hidden states of a micro-batch that a device sends to their experts, or back, in a layer."""
    parameters: Count
    """That one device holds."""
    expert_parameters: Count
    """Of them those of experts, which fewer replicas share."""
    stage_layers: Count
    rounds: Scalar
    """Micro-batches, with those that the pipeline waits for as it fills and drains."""


class Parallelism(eqx.Module):
    """A split of a training step.

    Every number may be an array, so that many splits are one batch.

    Args:
        data: d, replicas that share the batch.
        tensor: t, devices that share each layer.
        pipeline: p, stages that share the layers.
        micro_batch: b, sequences that pass the pipeline together.
        accumulation: m, micro-batches of a step in each replica.
        interleave: v, chunks of layers that a stage holds.
        recompute: "none", "selective" or "full".
        sequence_parallel: whether what the tensor axis does not share is split along the sequence;
            1 or 0 in a batch of splits.
        context: c, devices that share each sequence, and pass keys and values around.
        expert: e, devices that share the experts of each layer, of the d c that would otherwise
            hold all of them; tokens travel to their experts and back.
        zero_bubble: whether the weights' gradients wait until a stage would idle (ZB-H1), with as
            many micro-batches in flight as before; 1 or 0 in a batch of splits.

    Raises:
        ValueError: a number below 1, a recomputation that is not known, or chunks of layers in a
            schedule that has none.

    >>> split = Parallelism(data=8, tensor=4, pipeline=2, micro_batch=2, accumulation=16)
    >>> split.devices, split.global_batch
    (64, 256)

    Source: as the module.
    """

    data: Count = 1
    tensor: Count = 1
    pipeline: Count = 1
    micro_batch: Count = 1
    accumulation: Count = 1
    interleave: Count = 1
    recompute: Scalar | str = eqx.field(default=0, converter=recompute_code)
    sequence_parallel: Scalar | bool = False
    context: Count = 1
    expert: Count = 1
    zero_bubble: Scalar | bool = False

    def __check_init__(self) -> None:
        """Refuse impossible numbers as they are written; traced values pass."""
        check_numbers(self, dict.fromkeys(_AXES, 1))
        if self.zero_bubble is True and isinstance(self.interleave, int) and self.interleave > 1:
            raise ValueError(
                f"Parallelism: interleave is {self.interleave}, and the zero-bubble schedule has "
                "no chunks of layers; leave one of the two out"
            )

    @property
    def devices(self) -> Count:
        """N = d c t p."""
        return self.data * self.context * self.tensor * self.pipeline

    @property
    def global_batch(self) -> Count:
        """Sequences of a step."""
        return self.data * self.micro_batch * self.accumulation

    def counts(self, model: Transformer, precision: Bytes = 2.0) -> DeviceCounts:
        """What one device does, on the stage that does most.

        Args:
            model: the transformer.
            precision: bytes of one activation.

        Returns:
            FLOP, bytes and messages of one device.
        """
        tensor, pipeline, batch, chunks, context = real(
            self.tensor, self.pipeline, self.micro_batch, self.interleave, self.context
        )
        batch = batch / context  # sequences' worth of tokens that a device sees
        hidden, tokens, vocab, layers, accumulation = real(
            model.hidden, model.seq_len, model.vocab, model.layers, self.accumulation
        )
        code, split = real(recompute_code(self.recompute), self.sequence_parallel)
        forward = model.forward_of_layer()
        whole = 3.0 + (code == 2)
        core = 3.0 + (code > 0)
        products = layer_products(model, tensor)
        spread = jnp.where(split > 0, tensor, 1.0)
        tokenwise, scores = model.passing_bytes(precision)
        norms = precision * tokens * 10 * hidden
        inner = tokenwise - norms
        moved = batch * (whole * (norms / spread + inner / tensor) + core * scores / tensor)
        weights, message = model.weights(), batch * precision * tokens * hidden
        active, experts, expert = real(model.active_experts, model.experts, self.expert)
        own = layers / pipeline * model.expert_weights() / (tensor * expert)
        shared = layers / pipeline * (weights.layers - model.expert_weights())
        return DeviceCounts(
            forward=batch * forward.layers / tensor,
            layer=batch * (whole * forward.layers + (core - whole) * forward.attention) / tensor,
            head=3 * batch * forward.head / tensor,
            products=products,
            core_passes=core,
            moved=moved,
            logits=6 * 4.0 * batch * tokens * vocab / tensor,
            passes=whole,
            reductions=4.0 + 2.0 * (code == 2),
            message=message,
            passed=2 * message / tensor,
            keys=2 * message / hidden * model.keys / tensor,
            routed=jnp.where(experts > 1, active * message / spread, 0.0),
            parameters=(shared + hidden * vocab) / tensor + own,
            expert_parameters=own,
            stage_layers=layers / pipeline,
            rounds=accumulation + (pipeline - 1) / chunks,
        )

    def messages(
        self,
        model: Transformer,
        *,
        zero: Scalar = 0,
        precision: Bytes = 2.0,
        gradient: Bytes = 4.0,
    ) -> dict[str, tuple[Message, ...]]:
        """What one device sends in a step, on the stage that does most, by axis.

        Args:
            model: the transformer.
            zero: ZeRO stage, 0 to 3.
            precision: bytes of one activation, or of a weight as it is gathered.
            gradient: bytes of a gradient as it is summed.

        Returns:
            The messages of each axis; those that a split has no use for are sent 0 times.

        >>> gpt = Transformer(hidden=2048, layers=24, heads=16, seq_len=1024, vocab=51200)
        >>> split = Parallelism(data=4, tensor=2, micro_batch=4, sequence_parallel=True)
        >>> for sent in split.messages(gpt)["tensor"][1:]:
        ...     print(f"{sent.times:.0f} × {sent.operation} of {sent.size / 1e6:.1f} MB")
        96 × all_gather of 16.8 MB
        96 × reduce_scatter of 16.8 MB

        Source: `scaleopt.models.messages`.
        """
        return step_messages(self, self.counts(model, precision), zero, gradient, precision)

    def mesh(self, devices: Sequence[Any] | None = None) -> Mesh:
        """The devices as JAX's mesh, with axes pipeline, data, context and tensor.

        The tensor axis is innermost: its devices follow one another, and so lie in one node where
        they fit there. An axis that is not used has one device.

        Args:
            devices: in the order of their nodes; all of JAX's unless given, which starts them.

        Returns:
            The mesh, of the first N of them; its axes are automatic: XLA's partitioner follows the
            specs of weights and the constraints in the program.

        Raises:
            ValueError: fewer devices than the split has.

        Source: `scaleopt.models.mesh`.
        """
        sizes = self.pipeline, self.data, self.context, self.tensor
        return mesh_of([int(size) for size in sizes], devices)

    def specs(self, *, zero: int = 0) -> Specs:
        """How weights and activations of a dense decoder lie on the mesh.

        Args:
            zero: ZeRO stage; at 3 the replicas share the weights.

        >>> split = Parallelism(data=4, tensor=2, sequence_parallel=True)
        >>> split.specs(zero=3).outward
        P(('data', 'context'), 'tensor')

        Source: `scaleopt.models.mesh`.
        """
        return specs_of(sequence_parallel=bool(self.sequence_parallel), zero=zero)

    def local(self, group: Count, stride: Count, node_size: Count) -> Array:
        """How many members of a group that are `stride` ranks apart share a node."""
        group, stride, node_size = real(group, stride, node_size)
        return jnp.clip(node_size / stride, 1.0, group)
