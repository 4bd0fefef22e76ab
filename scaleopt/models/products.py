"""The matrix products of a transformer's layer as their shapes: a chip is slow on narrow ones.

A device multiplies activations of its tokens with its part of a weight, k by n. It works in tiles,
and what a tile has beyond the edge of the product is lost: with a loss of g at each edge the rate
falls by (1 + g/k)(1 + g/n). Tokens are many, and their edge costs next to nothing.

Source: the half-performance length of R. W. Hockney and C. R. Jesshope, "Parallel Computers 2",
1988, for each side of a weight.
"""

from typing import NamedTuple

from jax import Array

from scaleopt.models.transformer import Transformer
from scaleopt.units import Count, CountedFlops, Scalar, real


class Product(NamedTuple):
    """A product with a weight of `inner` by `outer`, for one sequence's forward pass."""

    flops: CountedFlops
    inner: Count
    outer: Count

    def effort(self, grain: Scalar) -> Array:
        """FLOP that would take as long at the full rate: W (1 + g/k)(1 + g/n)."""
        flops, inner, outer, grain = real(self.flops, self.inner, self.outer, grain)
        return flops * (1 + grain / inner) * (1 + grain / outer)


class LayerProducts(NamedTuple):
    """The products of one layer on a device, for one sequence, and of the head."""

    weights: tuple[Product, ...]
    """Queries with keys and values, output, MLP up and down, and the router of experts."""
    attention: tuple[Product, ...]
    """Scores and their product with the values; each head is a product of its own."""
    head: Product


def layer_products(model: Transformer, tensor: Count) -> LayerProducts:
    """The products of a device that shares each layer with `tensor` − 1 others.

    Args:
        model: the transformer.
        tensor: t, devices that share each layer.

    >>> gpt = Transformer(hidden=2048, layers=24, heads=16, seq_len=1024, vocab=51200)
    >>> product = layer_products(gpt, 8).weights[0]
    >>> [float(size) for size in (product.inner, product.outer)]
    [2048.0, 768.0]
    """
    hidden, tokens, vocab, width, size = real(
        model.hidden, model.seq_len, model.vocab, model.feed_forward, model.head_size
    )
    queries, keys, experts = model.queries, model.keys, real(model.experts)[0]
    forward, (tensor,) = model.forward_of_layer(), real(tensor)
    up = (model.matrices - 1) / model.matrices
    wide = (queries + 2 * keys) / (2 * queries + 2 * keys)
    projections, mlp = forward.projections / tensor, forward.mlp / tensor
    core = forward.attention / (2 * tensor)
    return LayerProducts(
        weights=(
            Product(projections * wide, hidden, (queries + 2 * keys) / tensor),
            Product(projections * (1 - wide), queries / tensor, hidden),
            Product(mlp * up, hidden, (model.matrices - 1) * width / tensor),
            Product(mlp * (1 - up), width / tensor, hidden),
            Product(forward.router / tensor, hidden, experts),
        ),
        attention=(Product(core, size, tokens), Product(core, tokens, size)),
        head=Product(forward.head / tensor, hidden, vocab / tensor),
    )
