"""What a transformer is, counted: parameters, FLOP and bytes of its parts. It knows no machine.

A layer is attention and an MLP. Per sequence of s tokens, with hidden size h, a query heads and g
key-value heads of size d, an MLP of width f in m matrices (3 where gated, else 2), of which k of E
experts see a token, and a vocabulary of V:

projections  2 s h (2 a d + 2 g d)      attention core  4 s² a d · attended
MLP          2 s m h f k                router          2 s h E, with more than one expert
head         2 s h V · predicted

are the FLOP of one forward pass (all but the head times the layers), two for each multiply-add; the
backward pass takes twice as many, one product for the gradient of each of its two operands.

Source: V. Korthikanti et al., "Reducing activation recomputation in large transformer models",
MLSys 2023, appendix A, for as many key-value heads as heads and no gate.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from scaleopt.units import Bytes, Count, CountedFlops, Fraction, Scalar, real

RECOMPUTE = ("none", "selective", "full")
"""What is computed again in the backward pass: nothing, the attention core, the whole layer."""


def recompute_code(choice: Any) -> Any:
    """The place of a choice in `RECOMPUTE`, so that candidates that differ in it share a program.

    >>> recompute_code("full"), recompute_code(1)
    (2, 1)
    """
    if not isinstance(choice, str):
        return choice
    if choice not in RECOMPUTE:
        raise ValueError(f"recompute={choice!r} is not known; use one of {', '.join(RECOMPUTE)}")
    return RECOMPUTE.index(choice)


class Parts(eqx.Module):
    """A count for each part of a model; they add up to its total."""

    projections: Scalar
    """Of attention: queries, keys, values and the output."""
    attention: Scalar
    """Scores and their product with the values."""
    mlp: Scalar
    router: Scalar
    head: Scalar
    """From the last hidden state to the vocabulary."""

    @property
    def layers(self) -> Scalar:
        """All that the layers hold."""
        return self.projections + self.attention + self.mlp + self.router

    @property
    def total(self) -> Scalar:
        """The whole model."""
        return self.layers + self.head


class Transformer(eqx.Module):
    """A decoder or encoder, dense or a mixture of experts, as the numbers that give its counts.

    Every number may be an array, so that many models are counted at once; what is True or False
    changes which terms there are.

    Args:
        hidden: h, size of the hidden state.
        layers: number of layers.
        heads: a, query heads.
        seq_len: s, tokens in a sequence.
        vocab: V, size of the vocabulary.
        kv_heads: g, key-value heads; as many as query heads unless given.
        head_size: d; h/a unless given.
        feed_forward: f, width of the MLP, of one expert where there are several; 4h unless given.
        experts: E, how many MLPs a layer holds.
        active_experts: k, how many of them each token passes.
        positions: learned position (and segment) vectors, 0 where positions are computed.
        attended: share of the s² scores that is computed; about a half where a kernel skips what a
            causal mask hides.
        predicted: share of the tokens whose next, or masked, token is predicted.
        gated: whether the MLP has a third matrix as gate.
        tied: whether embedding and head share their weights.
        biases: whether linear maps and norms have biases.
        dropout: whether activations pass dropout.
        fused_attention: whether scores stay on the chip and never go to memory.

    Raises:
        ValueError: a size below 1, heads that do not divide the hidden state and have no size of
            their own, key-value heads that do not divide the heads, or more active experts than
            experts.
        TypeError: a size in words.

    >>> gpt3 = Transformer(
    ...     hidden=12288, layers=96, heads=96, seq_len=2048, vocab=50257, positions=2048
    ... )
    >>> f"{gpt3.parameters():.4g} parameters, {gpt3.forward().total / 2048:.4g} FLOP a token"
    '1.746e+11 parameters, 3.588e+11 FLOP a token'

    Source: as the module; N. Shazeer, "GLU variants improve transformer", 2020, for the gate;
    J. Ainslie et al., "GQA", EMNLP 2023, for key-value heads.
    """

    hidden: Count
    layers: Count
    heads: Count
    seq_len: Count
    vocab: Count
    kv_heads: Count
    head_size: Count
    feed_forward: Count
    experts: Count
    active_experts: Count
    positions: Count
    attended: Fraction
    predicted: Fraction
    gated: bool = eqx.field(static=True)
    tied: bool = eqx.field(static=True)
    biases: bool = eqx.field(static=True)
    dropout: bool = eqx.field(static=True)
    fused_attention: bool = eqx.field(static=True)

    def __init__(
        self,
        *,
        hidden: Count,
        layers: Count,
        heads: Count,
        seq_len: Count,
        vocab: Count,
        kv_heads: Count | None = None,
        head_size: Count | None = None,
        feed_forward: Count | None = None,
        experts: Count = 1,
        active_experts: Count = 1,
        positions: Count = 0,
        attended: Fraction = 1.0,
        predicted: Fraction = 1.0,
        gated: bool = False,
        tied: bool = True,
        biases: bool = True,
        dropout: bool = False,
        fused_attention: bool = False,
    ) -> None:
        """See the class."""
        for name, size in {"hidden": hidden, "heads": heads}.items():
            if isinstance(size, str):
                raise TypeError(f"Transformer: {name} is {size!r}; give a number")
        self.hidden, self.layers, self.heads = hidden, layers, heads
        self.seq_len, self.vocab = seq_len, vocab
        self.kv_heads = heads if kv_heads is None else kv_heads
        if head_size is None:
            # No heads at all are for the check below, which has a sentence for it.
            head_size = hidden if isinstance(heads, int) and heads == 0 else hidden / heads
        self.head_size = head_size
        self.feed_forward = 4 * hidden if feed_forward is None else feed_forward
        self.experts, self.active_experts, self.positions = experts, active_experts, positions
        self.attended, self.predicted = attended, predicted
        self.gated, self.tied, self.biases = gated, tied, biases
        self.dropout, self.fused_attention = dropout, fused_attention

    def __check_init__(self) -> None:
        """Refuse impossible sizes as they are written; traced values pass."""
        for name, value in vars(self).items():
            if isinstance(value, str):
                raise TypeError(f"Transformer: {name} is {value!r}; give a number")
        for name in ("hidden", "layers", "heads", "seq_len", "vocab", "kv_heads", "experts"):
            value = getattr(self, name)
            if isinstance(value, (int, float)) and not value >= 1:
                raise ValueError(f"Transformer: {name} is {value}; it must be 1 or more")
        heads, groups, hidden = self.heads, self.kv_heads, self.hidden
        uneven = isinstance(heads, int) and isinstance(hidden, int) and hidden % heads
        if uneven and self.head_size == hidden / heads:
            raise ValueError(
                f"Transformer: heads is {heads}; it must divide the hidden size {hidden}, or give "
                "head_size=…, that of each head"
            )
        if isinstance(heads, int) and isinstance(groups, int) and heads % groups:
            raise ValueError(
                f"Transformer: kv_heads is {groups}; it must divide the {heads} query heads"
            )
        if _both_known(self.active_experts, self.experts) and self.active_experts > self.experts:
            raise ValueError(
                f"Transformer: active_experts is {self.active_experts} of experts={self.experts}; "
                "a token passes at most all of them"
            )

    @property
    def queries(self) -> Array:
        """Width a d of the queries of a token."""
        heads, size = real(self.heads, self.head_size)
        return heads * size

    @property
    def keys(self) -> Array:
        """Width g d of the keys, and of the values, of a token."""
        groups, size = real(self.kv_heads, self.head_size)
        return groups * size

    @property
    def matrices(self) -> int:
        """m, how many matrices an MLP has."""
        return 3 if self.gated else 2

    def weights(self) -> Parts:
        """Parameters of one layer's parts, and of the head where it has its own.

        Biases and norms count with the part that they follow or precede; the attention core has
        none.
        """
        hidden, width, experts = real(self.hidden, self.feed_forward, self.experts)
        norm = hidden * (2 if self.biases else 1)
        projections = hidden * (2 * self.queries + 2 * self.keys) + norm
        mlp = experts * self.matrices * hidden * width + norm
        if self.biases:
            projections = projections + self.queries + 2 * self.keys + hidden
            mlp = mlp + experts * ((self.matrices - 1) * width + hidden)
        router = jnp.where(experts > 1, hidden * experts, 0.0)
        head = jnp.zeros_like(hidden) if self.tied else hidden * self.vocab
        return Parts(projections, jnp.zeros_like(hidden), mlp, router, head)

    def embedding(self) -> Array:
        """Parameters of the embedding of tokens and positions, and of the last norm."""
        hidden, vocab, positions = real(self.hidden, self.vocab, self.positions)
        return hidden * (vocab + positions + (2 if self.biases else 1))

    def parameters(self) -> Array:
        """All parameters of the model."""
        weights, (layers,) = self.weights(), real(self.layers)
        return layers * weights.layers + weights.head + self.embedding()

    def expert_weights(self) -> Array:
        """Parameters of one layer's experts; 0 where all tokens pass the same MLP."""
        hidden, width, experts = real(self.hidden, self.feed_forward, self.experts)
        expert = self.matrices * hidden * width
        if self.biases:
            expert = expert + (self.matrices - 1) * width + hidden
        return jnp.where(experts > 1, experts * expert, 0.0)

    def active_parameters(self) -> Array:
        """The parameters that one token meets: all but those of the experts it passes by."""
        layers, experts, active = real(self.layers, self.experts, self.active_experts)
        return self.parameters() - layers * (1 - active / experts) * self.expert_weights()

    def forward_of_layer(self) -> Parts:
        """FLOP of one layer, and of the head, for the forward pass of one sequence."""
        hidden, tokens, vocab, width = real(
            self.hidden, self.seq_len, self.vocab, self.feed_forward
        )
        experts, active = real(self.experts, self.active_experts)
        return Parts(
            projections=2 * tokens * hidden * (2 * self.queries + 2 * self.keys),
            attention=4 * tokens**2 * self.queries * self.attended,
            mlp=2 * tokens * self.matrices * hidden * width * active,
            router=jnp.where(experts > 1, 2 * tokens * hidden * experts, 0.0),
            head=2 * tokens * hidden * vocab * self.predicted,
        )

    def forward(self) -> Parts:
        """FLOP of the forward pass of one sequence, over all layers."""
        layer, (layers,) = self.forward_of_layer(), real(self.layers)
        return Parts(
            projections=layers * layer.projections,
            attention=layers * layer.attention,
            mlp=layers * layer.mlp,
            router=layers * layer.router,
            head=layer.head,
        )

    def backward(self) -> Parts:
        """FLOP of the backward pass of one sequence: twice the forward pass, part by part."""
        return jax.tree.map(lambda count: 2 * count, self.forward())

    def recomputed(self, recompute: str | Scalar) -> CountedFlops:
        """FLOP of one sequence's forward pass that the backward pass does again.

        Args:
            recompute: "none", "selective" (the attention core) or "full" (every layer).
        """
        forward, (code,) = self.forward(), real(recompute_code(recompute))
        return jnp.select([code == 0, code == 1], [0.0, forward.attention], forward.layers)

    def training_flops(self, recompute: str | Scalar = "none") -> CountedFlops:
        """FLOP of forward and backward pass of one sequence, with what is recomputed."""
        return 3 * self.forward().total + self.recomputed(recompute)

    def passing_bytes(self, precision: Bytes = 2.0) -> tuple[Bytes, Bytes]:
        """Bytes through memory of a layer's element-wise parts, for one sequence's forward pass.

        Each pass reads its operands once and writes its result once: two norms, two residual sums,
        the MLP's activation, and, where attention is not fused, mask and softmax of the scores.

        Args:
            precision: bytes of one number.

        Returns:
            Those that grow with the tokens, and those of the scores [B].
        """
        hidden, tokens, width, active = real(
            self.hidden, self.seq_len, self.feed_forward, self.active_experts
        )
        activation = self.matrices * width * active  # m − 1 operands and one result
        tokenwise = tokens * (2 * 2 * hidden + 2 * 3 * hidden + activation)
        passes = 0 if self.fused_attention else (4 if self.dropout else 2)
        scores = passes * tokens**2 * real(self.heads)[0] * self.attended
        return precision * tokenwise, precision * scores


def _both_known(*values: Scalar) -> bool:
    return all(isinstance(value, (int, float)) for value in values)
