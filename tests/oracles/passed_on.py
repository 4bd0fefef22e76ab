"""Attention over a ring, experts apart, and a pipeline, as programs of real devices.

Run as a program it compiles each case that it is given on standard input, and prints as JSON the
collectives of what XLA made of it, and how far its gradients are from those of one device. Each is
the part of a decoder that an axis shares, written the way that axis is used: keys and values go
around a ring, and around again in the backward pass, which holds on to none of them; tokens travel
to their experts and back; hidden states pass from stage to stage, tick by tick.
"""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles import transformer as plain
from oracles.sharded import collectives

from scaleopt.models.parallelism import Parallelism
from scaleopt.models.transformer import Transformer

SIZES: dict[str, Any] = {"hidden": 64, "layers": 4, "heads": 8, "seq_len": 32, "vocab": 128}
DENSE = Transformer(**SIZES, gated=False, biases=False)
SPARSE = Transformer(**SIZES, gated=False, biases=False, experts=8, active_experts=2)


def onward(x, axis):
    """To the next device of a ring."""
    count = lax.axis_size(axis)
    return lax.ppermute(x, axis, [(place, (place + 1) % count) for place in range(count)])


def context_case(split):
    """Attention, each device with its part of the sequence."""
    shapes = plain.shapes(DENSE)["layers"][0]
    weights = {name: shapes[name].shape for name in ("q", "k", "v", "o")}
    groups, size = DENSE.kv_heads, int(DENSE.head_size)

    @jax.checkpoint
    def around(queries, pair):
        """Softmax over what all devices hold, from what each says of its part."""
        most = jnp.full(queries.shape[:-1], -jnp.inf)
        total, mixed = jnp.zeros(queries.shape[:-1]), jnp.zeros(queries.shape)
        most, total, mixed = (
            lax.pcast(x, ("context",), to="varying") for x in (most, total, mixed)
        )
        for turn in range(split.context):
            keys, values = pair
            scores = jnp.einsum("sgad,tgd->sgat", queries, keys)
            highest = jnp.maximum(most, scores.max(-1))
            shrunk, part = jnp.exp(most - highest), jnp.exp(scores - highest[..., None])
            mixed = mixed * shrunk[..., None] + jnp.einsum("sgat,tgd->sgad", part, values)
            total, most = total * shrunk + part.sum(-1), highest
            if turn + 1 < split.context:
                pair = onward(pair, "context")
        return mixed / total[..., None]

    def attention(weights, x):
        q = (x @ weights["q"]).reshape(len(x), groups, -1, size)
        pair = jnp.stack([(x @ weights[n]).reshape(len(x), groups, size) for n in ("k", "v")])
        return around(q, pair).reshape(len(x), -1) @ weights["o"]

    def sharded(weights, x):
        return lax.pmean(jnp.mean(attention(weights, x) ** 2), "context")

    def whole(weights, x):
        return jnp.mean(plain.attention(DENSE, weights, x) ** 2)

    specs = dict.fromkeys(weights, P()), P("context")
    return sharded, whole, weights, (DENSE.seq_len, DENSE.hidden), specs


def expert_case(split):
    """An MLP of several experts, some on each device: the next token takes the next ones."""
    experts, active, hidden = SPARSE.experts, SPARSE.active_experts, SPARSE.hidden
    inner = SPARSE.feed_forward
    weights = {"up": (experts, hidden, inner), "down": (experts, inner, hidden)}

    def sorted_by_expert(x):
        """(experts, tokens of each, hidden), and where each came from."""
        order = jnp.argsort(jnp.arange(len(x) * active) % experts, stable=True)
        return x[order // active].reshape(experts, -1, hidden), order

    def passed(weights, x):
        """What experts make of their tokens."""
        return jax.nn.relu(x @ weights["up"]) @ weights["down"]

    def back(x, order, count):
        """The sum over each token's experts."""
        return jnp.zeros((count, hidden)).at[order // active].add(x.reshape(-1, hidden))

    def sharded(weights, x):
        rows, order = sorted_by_expert(x)
        turn = partial(lax.all_to_all, axis_name="data", tiled=True)
        arrived = turn(rows, split_axis=0, concat_axis=1)
        returned = turn(passed(weights, arrived), split_axis=1, concat_axis=0)
        count = lax.pcast(jnp.zeros(()), ("data",), to="varying")
        return lax.pmean(jnp.mean((back(returned, order, len(x)) + count) ** 2), "data")

    def whole(weights, x):
        rows, order = sorted_by_expert(x)
        return jnp.mean(back(passed(weights, rows), order, len(x)) ** 2)

    specs = dict.fromkeys(weights, P("data")), P("data")
    return sharded, whole, weights, (split.data * SPARSE.seq_len, hidden), specs


def pipeline_case(split):
    """Layers on stages, in as many chunks as are interleaved: each of them one product."""
    stages, chunks, rounds = split.pipeline, split.interleave, split.accumulation
    weights = {"layers": (chunks, stages, DENSE.hidden, DENSE.hidden)}

    def through(weight, x):
        return x + jnp.tanh(x @ weight)

    def sharded(weights, x):
        own, stage = weights["layers"][:, 0], lax.axis_index("pipeline")
        held = lax.pcast(jnp.zeros(x.shape[1:]), "pipeline", to="varying")
        given = lax.pcast(x, "pipeline", to="varying")
        left = []
        # As many micro-batches as there are stages go around together, chunk after chunk.
        for tick in range(chunks * rounds + stages - 1):
            turn, chunk = tick - stage, ((tick - stage) // stages) % chunks
            number = turn // (stages * chunks) * stages + turn % stages
            first = (stage == 0) & (chunk == 0)
            held = jnp.where(first, given[jnp.clip(number, 0, rounds - 1)], held)
            held = through(own[chunk], held)
            done = (stage == stages - 1) & (chunk == chunks - 1) & (turn >= 0)
            left.append(jnp.where(done, jnp.sum(held**2), 0.0))
            if tick < chunks * rounds + stages - 2:
                held = onward(held, "pipeline")
        return lax.psum(sum(left), "pipeline") / x.size

    def whole(weights, x):
        for chunk in weights["layers"]:
            for weight in chunk:
                x = through(weight, x)
        return jnp.mean(x**2)

    size = rounds, split.micro_batch * DENSE.seq_len, DENSE.hidden
    return sharded, whole, weights, size, ({"layers": P(None, "pipeline")}, P())


CASES = {"context": context_case, "expert": expert_case, "pipeline": pipeline_case}


def main():
    found = []
    for axis, given in json.load(sys.stdin):
        split = Parallelism(**given)
        sharded, whole, shapes, size, specs = CASES[axis](split)
        draw = np.random.default_rng(0)
        weights = {
            name: (0.1 * draw.normal(size=shape)).astype(np.float32)
            for name, shape in shapes.items()
        }
        x = draw.normal(size=size).astype(np.float32)
        # What lies below wants the gradient of its output too.
        one, other = (jax.grad(loss, argnums=(0, 1)) for loss in (sharded, whole))
        step = jax.shard_map(one, mesh=split.mesh(), in_specs=specs, out_specs=specs)
        program = jax.jit(step).lower(weights, x).compile()
        pairs = zip(*(jax.tree.leaves(each(weights, x)) for each in (program, other)), strict=True)
        worst = max(float(jnp.abs(a - np.asarray(b)).max() / jnp.abs(b).max()) for a, b in pairs)
        found.append({"collectives": collectives(program.as_text()), "worst": worst})
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
