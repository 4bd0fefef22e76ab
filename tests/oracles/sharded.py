"""A decoder's training step over real devices, and the collectives of its compiled program.

Run as a program it compiles the step for each split that it is given on standard input, and prints
what XLA made of it as JSON. Two ways to write the step:

* "explicit": each device's own program under `shard_map`, with Megatron's collectives where the
  specs of the split say they are needed; the backward pass is JAX's transpose of the forward one.
* "automatic": the plain step of `oracles.transformer` with the specs as shardings and constraints;
  which collectives there are, XLA's partitioner decides.
"""

import functools
import json
import math
import re
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles import transformer as plain

from scaleopt.models.parallelism import Parallelism
from scaleopt.models.transformer import Transformer

REPLICAS = ("data", "context")


MODEL = Transformer(hidden=64, layers=1, heads=8, seq_len=32, vocab=128, gated=False, biases=False)


def shapes(layers):
    """The weights with so many layers; with none embedding and head are left."""
    found = plain.shapes(MODEL)
    return found | {"layers": found["layers"] * layers}


def weight_specs(specs, layers):
    layer = dict.fromkeys(("q", "k", "v", "up"), specs.outward)
    layer |= dict.fromkeys(("o", "down"), specs.inward)
    return {"embedding": specs.embedding, "layers": [layer] * layers}


def loss_of(logits, tokens):
    """Cross entropy of each token itself: a loss like any other."""
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1).mean()


def plain_loss(weights, tokens):
    """On one device."""
    logits = jax.vmap(functools.partial(plain.forward, MODEL, weights))(tokens)
    return loss_of(logits, tokens)


def automatic_step(split, zero, layers):
    """The gradients by XLA's partitioner."""
    mesh, specs = split.mesh(), split.specs(zero=zero)
    weights = jax.tree.map(
        lambda spec: NamedSharding(mesh, spec),
        weight_specs(specs, layers),
        is_leaf=lambda node: isinstance(node, P),
    )

    def at(x, spec):
        return lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec[1:])))

    def forward(weights, tokens):
        x = at(weights["embedding"][tokens], specs.hidden)
        for layer in weights["layers"]:
            for part in (plain.attention, plain.mlp):
                x = at(x + part(MODEL, layer, at(plain.norm(x), specs.inside)), specs.hidden)
        return plain.norm(x) @ weights["embedding"].T

    def loss(weights, tokens):
        mapped = jax.vmap(forward, in_axes=(None, 0), spmd_axis_name="data")
        return loss_of(mapped(weights, tokens), tokens)

    shardings = weights, NamedSharding(mesh, specs.tokens)
    return jax.jit(jax.grad(loss), in_shardings=shardings, out_shardings=weights)


def explicit_step(split, zero, layers):
    """The gradients by a program for each device."""
    mesh, specs = split.mesh(), split.specs(zero=zero)
    along, rounds = bool(split.sequence_parallel), int(split.accumulation)
    # A device's share of the heads; `plain.attention` asks for nothing else.
    heads = MODEL.heads // split.tensor
    local = eqx.tree_at(lambda m: (m.heads, m.kv_heads), MODEL, (heads, heads))

    def whole(weight, axis):
        """A weight as products need it: gathered from the replicas where they share it."""
        if zero < 3:
            return weight
        return lax.all_gather(weight, REPLICAS, axis=axis, tiled=True)

    def enter(x):
        """From hidden states between layers to all tokens; backwards their gradients are summed."""
        if along:
            return lax.all_gather(x, "tensor", axis=1, tiled=True)
        return lax.pcast(x, "tensor", to="varying")

    def leave(x):
        """The sum over the tensor group, of all tokens or of each device's share."""
        if along:
            return lax.psum_scatter(x, "tensor", scatter_dimension=1, tiled=True)
        return lax.psum(x, "tensor")

    def layer_of(x, layer):
        full = {name: whole(layer[name], 0 if name in "q k v up" else 1) for name in layer}
        for part in (plain.attention, plain.mlp):
            x = x + leave(jax.vmap(functools.partial(part, local, full))(enter(plain.norm(x))))
        return x

    def kept(_, *__, axis_name=(), **___):
        """Anything but gathered weights, which the backward pass gathers again."""
        return "data" not in axis_name

    layer_of = jax.checkpoint(layer_of, policy=kept)

    def forward(weights, tokens):
        table = whole(weights["embedding"], 1)
        place = tokens - lax.axis_index("tensor") * len(table)
        here = (place >= 0) & (place < len(table))
        x = leave(jnp.where(here[..., None], table[jnp.where(here, place, 0)], 0.0))
        for layer in weights["layers"]:
            x = layer_of(x, layer)
        logits = enter(plain.norm(x)) @ table.T
        most = lax.pmax(lax.stop_gradient(logits.max(-1)), "tensor")
        total = lax.psum(jnp.exp(logits - most[..., None]).sum(-1), "tensor")
        own = jnp.take_along_axis(logits, jnp.where(here, place, 0)[..., None], -1)[..., 0]
        own = lax.psum(jnp.where(here, own, 0.0), "tensor")
        return (jnp.log(total) + most - own).mean()

    def loss(weights, tokens):
        if zero < 3:
            # One sum of the gradients, after the last micro-batch.
            weights = jax.tree.map(lambda w: lax.pcast(w, REPLICAS, to="varying"), weights)
        parts = jnp.split(tokens, rounds)
        return lax.pmean(sum(forward(weights, part) for part in parts) / rounds, REPLICAS)

    sharded = jax.shard_map(
        jax.grad(loss),
        mesh=mesh,
        in_specs=(weight_specs(specs, layers), specs.tokens),
        out_specs=weight_specs(specs, layers),
    )
    return jax.jit(sharded)


COLLECTIVE = re.compile(
    r"= (?P<shape>\(.*?\)|\S+) (?P<name>all-reduce|all-gather|reduce-scatter|all-to-all|"
    r"collective-permute)(-start)?\("
)
ITEM = {"f32": 4, "bf16": 2, "s32": 4, "u32": 4, "pred": 1}


def collectives(text):
    """Of a program: operation, members of its first group, arrays, bytes of the full ones."""
    found = []
    for line in text.splitlines():
        match = COLLECTIVE.search(line)
        if not match:
            continue
        shapes = re.findall(r"(\w+)\[([\d,]*)\]", match["shape"])
        sizes = [ITEM[kind] * math.prod(map(int, dims.split(","))) for kind, dims in shapes if dims]
        group = members(line)
        if match["name"] == "reduce-scatter":
            sizes = [size * len(group) for size in sizes]
        name = match["name"].replace("-", "_")
        found.append([name, group, len(sizes), sum(sizes)])
    return found


def members(line):
    """The first group of replicas, in any of the ways that HLO writes them; or those of a ring."""
    if paired := re.search(r"source_target_pairs=\{([\d,{}]+)\}", line):
        pairs = re.findall(r"\{(\d+),(\d+)\}", paired[1])
        to = {int(source): int(target) for source, target in pairs}
        ring = [0]
        while to[ring[-1]] != 0:
            ring.append(to[ring[-1]])
        return ring
    if listed := re.search(r"replica_groups=\{\{([\d,]+)\}", line):
        return [int(n) for n in listed[1].split(",")]
    if tiled := re.search(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", line):
        shape, source = ([int(n) for n in tiled[k].split(",")] for k in (1, 2))
        devices = np.arange(math.prod(source)).reshape(source)
        if tiled[3]:
            devices = devices.transpose([int(n) for n in tiled[3].split(",")])
        return devices.reshape(shape)[0].tolist()
    named = re.search(r"replica_groups=mesh\[([^\]]*)\](.*?)\{([^}]*)\}", line)
    assert named, line
    sizes = dict(re.findall(r"'(\w+)'=(\d+)", named[1]))
    shape = [int(size) for size in sizes.values()]
    devices = np.arange(math.prod(shape))
    if order := re.search(r"device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\)", named[2]):
        source = [int(n) for n in order[1].split(",")]
        devices = devices.reshape(source)
        if order[2]:
            devices = devices.transpose([int(n) for n in order[2].split(",")])
    devices = devices.reshape(shape)
    inside = re.findall(r"'(\w+)'", named[3])
    index = tuple(slice(None) if axis in inside else 0 for axis in sizes)
    return devices[index].ravel().tolist()


def compiled(step, split, layers):
    tokens = jax.ShapeDtypeStruct((split.global_batch, MODEL.seq_len), jnp.int32)
    return step.lower(shapes(layers), tokens).compile()


def worst_difference(split, step):
    """Between the gradients of a sharded step and those of one device, over the largest of them."""
    draw = np.random.default_rng(0)
    weights = jax.tree.map(lambda leaf: 0.1 * draw.normal(size=leaf.shape), shapes(1))
    weights = jax.tree.map(lambda leaf: leaf.astype(np.float32), weights)
    size = int(split.global_batch), int(MODEL.seq_len)
    tokens = draw.integers(0, int(MODEL.vocab), size, np.int32)
    truth = jax.tree.leaves(jax.jit(jax.grad(plain_loss))(weights, tokens))
    pairs = zip(jax.tree.leaves(step(weights, tokens)), truth, strict=True)
    return max(
        float(np.abs(np.asarray(one) - other).max() / np.abs(np.asarray(other)).max())
        for one, other in pairs
    )


def main():
    found = []
    for case in json.load(sys.stdin):
        split = Parallelism(**case["split"])
        make = {"explicit": explicit_step, "automatic": automatic_step}[case["how"]]
        steps = [make(split, case["zero"], layers) for layers in (0, 1)]
        programs = [compiled(step, split, layers) for layers, step in enumerate(steps)]
        without, with_one = (collectives(program.as_text()) for program in programs)
        worst = worst_difference(split, programs[1]) if case["run"] else None
        found.append({"without": without, "layer": with_one, "worst": worst})
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
