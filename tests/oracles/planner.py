"""The best plan by brute force: every split in plain loops, limits and objective written out."""

import math
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

from scaleopt.models.memory import training_memory
from scaleopt.models.parallelism import Parallelism

RECOMPUTE = (0, 1, 2)
OPTIONS = ("recompute", "sequence_parallel", "zero")
COLUMNS = ("data", "tensor", "pipeline", "micro_batch", "accumulation", "interleave", *OPTIONS)
COLUMNS += ("context", "expert", "zero_bubble")
_WIDTH = 4096
"""Splits that are evaluated together, so that few programs are compiled."""


def splits(model, devices, batches, node, context=1, zero_bubble=False):
    """Every feasible split, by `COLUMNS`."""
    found = []
    most, layers = max(devices), model.layers
    ends = most, context, model.experts, layers
    for t, c, e, p in product(*(range(1, end + 1) for end in ends)):
        if model.heads % t or model.kv_heads % t or model.seq_len % (c * t) or layers % p:
            continue
        if model.experts % e or any(node % group and group % node for group in (t, c * t, e * t)):
            continue
        for d in range(1, most // (t * c * p) + 1):
            if d * c * t * p not in devices or d * c % e:
                continue
            for batch in batches:
                for b in range(1, batch // d + 1):
                    if batch % (d * b):
                        continue
                    m = batch // (d * b)
                    turns = [(v, 0) for v in range(1, layers // p + 1)]
                    for v, zb in turns + ([(1, 1)] if zero_bubble and p > 1 else []):
                        if (layers // p) % v or (v > 1 and (p == 1 or m % p)):
                            continue
                        along = (0, 1) if t > 1 else (0,)
                        stages = (0, 1, 2, 3) if d * c > 1 else (0,)
                        found += [
                            (d, t, p, b, m, v, *option, c, e, zb)
                            for option in product(RECOMPUTE, along, stages)
                        ]
    return np.array(found, float)


@jax.jit
def _evaluated(machine, model, columns):
    d, t, p, b, m, v, recompute, along, zero, c, e, zero_bubble = columns
    split = Parallelism(
        data=d,
        tensor=t,
        pipeline=p,
        micro_batch=b,
        accumulation=m,
        interleave=v,
        recompute=recompute,
        sequence_parallel=along,
        context=c,
        expert=e,
        zero_bubble=zero_bubble,
    )
    once = machine.terms(model, split).data
    # What is passed once hides behind one of m micro-batches, the rest behind all of them.
    count = split.counts(model)
    whole = once / (1 - machine.overlap / m)
    often = (1 - machine.overlap) * m * whole / 2
    gather = machine.gathering(split, count)
    late = (1 - machine.overlap / m) * gather
    gathers = 2 * (1 - machine.overlap) * m * gather
    passed = jnp.select(
        [zero == 0, zero == 1, zero == 2], [once, once / 2 + late, often + late], often + gathers
    )
    replicas = d * c
    dense = (1 - 1 / replicas) * (count.parameters - count.expert_parameters)
    experts = (1 - e / replicas) * count.expert_parameters
    others = jnp.where(zero > 0, machine.update(dense) + machine.update(experts), 0.0)
    seconds = machine(model, split) + passed - once - others
    return seconds, training_memory(model, split, zero=zero).total


def evaluated(machine, model, found):
    """Seconds and bytes of each split."""
    numbers = jax.tree.map(lambda leaf: np.asarray(leaf, float), (machine, model))
    padded = np.concatenate([found, np.repeat(found[:1], -len(found) % _WIDTH, axis=0)])
    with jax.enable_x64(True):
        parts = [
            [np.asarray(part) for part in _evaluated(*numbers, padded[i : i + _WIDTH].T)]
            for i in range(0, len(padded), _WIDTH)
        ]
    seconds, held = (np.concatenate(part)[: len(found)] for part in zip(*parts, strict=True))
    return seconds, held


def best(machine, model, devices, batches, *, node, memory, price, objective, **limits):
    """The least value of the objective, infinite where nothing keeps the limits."""
    bounds = limits["context"], limits["zero_bubble"]
    found = splits(model, devices, batches, node, *bounds)
    if not len(found):
        return math.inf, 0
    seconds, held = evaluated(machine, model, found)
    samples, critical = limits["samples"], limits["critical_batch"]
    least = math.inf
    for row, step, bytes_ in zip(found.tolist(), seconds.tolist(), held.tolist(), strict=True):
        d, t, p, b, m = row[:5]
        count, batch = d * t * p * row[9], d * b * m
        time = step * (samples / batch + samples / critical)
        cost = price * count * time
        if bytes_ > memory or time > limits["deadline"] or cost > limits["budget"]:
            continue
        value = {"time": time, "cost": cost, "cost_time": cost * time, "devices": count}[objective]
        least = min(least, value)
    return least, len(found)
