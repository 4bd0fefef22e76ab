"""A transformer written as a program, to be counted by XLA."""

import jax
import jax.numpy as jnp


def shapes(model):
    """The weights of a model, as shapes."""
    hidden, queries, keys = model.hidden, int(model.queries), int(model.keys)
    layer = {
        "q": (hidden, queries),
        "k": (hidden, keys),
        "v": (hidden, keys),
        "o": (queries, hidden),
        "up": (hidden, model.feed_forward),
        "down": (model.feed_forward, hidden),
    }
    if model.gated:
        layer["gate"] = (hidden, model.feed_forward)
    tree = {"embedding": (model.vocab, hidden), "layers": [layer] * model.layers}
    return jax.tree.map(
        lambda shape: jax.ShapeDtypeStruct(shape, jnp.float32),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )


def forward(model, weights, tokens):
    """Logits of one sequence."""
    x = weights["embedding"][tokens]
    for layer in weights["layers"]:
        x = x + attention(model, layer, norm(x))
        x = x + mlp(model, layer, norm(x))
    return norm(x) @ weights["embedding"].T


def norm(x):
    return x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def attention(model, layer, x):
    groups, size = model.kv_heads, int(model.head_size)
    q = (x @ layer["q"]).reshape(len(x), groups, -1, size)
    k = (x @ layer["k"]).reshape(len(x), groups, size)
    v = (x @ layer["v"]).reshape(len(x), groups, size)
    scores = jax.nn.softmax(jnp.einsum("sgad,tgd->gast", q, k), axis=-1)
    return jnp.einsum("gast,tgd->sgad", scores, v).reshape(len(x), -1) @ layer["o"]


def mlp(model, layer, x):
    up = x @ layer["up"]
    inner = jax.nn.silu(x @ layer["gate"]) * up if model.gated else jax.nn.relu(up)
    return inner @ layer["down"]
