"""The devices of a split as JAX's mesh, and how the arrays of a decoder lie on it.

Axes from the outermost to the innermost: pipeline, data, context, tensor. Devices that follow one
another, as those of a node do, differ in the last axis first, which is what `Parallelism` counts
with. An axis of one device is there too, so that specs name the same four whatever the split.

axis           what it shares
tensor         weights of queries, keys, values and the MLP up along their output, those of
               attention's output and the MLP down along their input, embedding and head along the
               vocabulary; so heads, inner width and logits; with sequence parallelism the hidden
               states between layers along the sequence
data, context  the sequences of the batch, and their tokens; at ZeRO-3 the weights' other side
pipeline       the layers, where they are stacked on a leading axis

Source: M. Shoeybi et al., "Megatron-LM", 2019, section 3; V. Korthikanti et al., MLSys 2023, for
the sequence; S. Rajbhandari et al., "ZeRO", SC 2020.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import AxisType, Mesh
from jax.sharding import PartitionSpec as P

AXES = ("pipeline", "data", "context", "tensor")
"""Of a mesh, the outermost first."""


class Specs(NamedTuple):
    """Partition specs of the arrays of a dense decoder."""

    tokens: P
    """(batch, sequence), of token numbers."""
    hidden: P
    """(batch, sequence, hidden), between the layers."""
    inside: P
    """(batch, sequence, hidden), where a tensor group needs all tokens: behind a norm."""
    heads: P
    """(batch, sequence, heads, size), queries, keys and values."""
    inner: P
    """(batch, sequence, width), inside the MLP."""
    logits: P
    """(batch, sequence, vocabulary)"""
    outward: P
    """(hidden, outputs), weights of queries, keys, values, and of the MLP up."""
    inward: P
    """(inputs, hidden), weights of attention's output, and of the MLP down."""
    embedding: P
    """(vocabulary, hidden), and the head transposed."""
    scale: P
    """(hidden,), of a norm."""

    def stacked(self, spec: P) -> P:
        """Of weights of all layers on a leading axis: each pipeline stage has its own."""
        return P("pipeline", *spec)


def mesh_of(sizes: Sequence[int], devices: Sequence[Any] | None) -> Mesh:
    """A mesh of so many devices along each of `AXES`.

    Args:
        sizes: of the axes.
        devices: in the order of their nodes; `jax.devices()` where None, which starts them.

    Raises:
        ValueError: fewer devices than the axes need.
    """
    needed = sizes[0] * sizes[1] * sizes[2] * sizes[3]
    devices = jax.devices() if devices is None else list(devices)
    if len(devices) < needed:
        listed = " × ".join(f"{axis} {size}" for axis, size in zip(AXES, sizes, strict=True))
        raise ValueError(
            f"{listed} takes {needed} devices, and there are {len(devices)}; give more, or another "
            "split"
        )
    auto = (AxisType.Auto,) * len(AXES)
    return jax.make_mesh(tuple(sizes), AXES, auto, devices=devices[:needed])


def specs_of(*, sequence_parallel: bool, zero: int) -> Specs:
    """How the arrays of a decoder lie on a mesh.

    Args:
        sequence_parallel: whether hidden states are split along the tensor axis too.
        zero: ZeRO stage; 3 splits the weights over the replicas, and so the optimizer's numbers,
            which at stages 1 and 2 lie as these would at stage 3.

    Raises:
        ValueError: a stage that there is not.
    """
    if zero not in range(4):
        raise ValueError(f"zero is {zero!r}; the stages are 0 (plain), 1, 2 and 3")
    shared = ("data", "context") if zero >= 3 else None
    along = ("context", "tensor") if sequence_parallel else "context"
    return Specs(
        tokens=P("data", "context"),
        hidden=P("data", along, None),
        inside=P("data", "context", None),
        heads=P("data", "context", "tensor", None),
        inner=P("data", "context", "tensor"),
        logits=P("data", "context", "tensor"),
        outward=P(shared, "tensor"),
        inward=P("tensor", shared),
        embedding=P("tensor", shared),
        scale=P(shared),
    )
