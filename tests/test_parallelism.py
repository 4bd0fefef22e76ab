"""How a step is split, and what a machine makes of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scaleopt as so
from scaleopt.models.machine import Machine
from scaleopt.models.parallelism import Parallelism
from scaleopt.models.transformer import Transformer

MODEL = Transformer(hidden=4096, layers=32, heads=32, seq_len=2048, vocab=51200)
MACHINE = Machine(
    rate=250e12,
    bandwidth=1.5e12,
    alpha=8e-6,
    beta=1 / 200e9,
    network_alpha=2e-5,
    network_beta=1 / 20e9,
    grain=60.0,
    kernel=1e-4,
    host=5e-4,
    step_overhead=0.01,
)
powers = st.sampled_from([1, 2, 4, 8])
few = settings(max_examples=20)


@few
@given(powers, powers, powers, st.sampled_from(["none", "selective", "full"]))
def test_devices_do_the_work_of_the_whole_model(data, tensor, pipeline, recompute):
    split = Parallelism(
        data=data, tensor=tensor, pipeline=pipeline, accumulation=4, recompute=recompute
    )
    count = split.counts(MODEL)
    layers = split.devices * split.accumulation * count.stage_layers * count.layer
    heads = data * tensor * split.accumulation * count.head
    whole = split.global_batch * MODEL.training_flops(recompute)
    assert float(layers + heads) == pytest.approx(float(whole), rel=1e-5)


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_the_parts_add_up(recompute):
    split = Parallelism(data=4, tensor=8, pipeline=2, accumulation=8, recompute=recompute)
    assert float(MACHINE.terms(MODEL, split).total) == pytest.approx(float(MACHINE(MODEL, split)))
    assert all(float(part) >= 0 for part in jax.tree.leaves(MACHINE.terms(MODEL, split)))


def test_a_ring_inside_a_node_is_the_textbook_one():
    found = MACHINE.ring(Parallelism(), 8, 1, 1e9)
    assert float(found) == pytest.approx(float(so.all_reduce_time(1e9, 8, 8e-6, 1 / 200e9)))


def test_a_group_across_nodes_pays_for_the_network():
    inside, across = MACHINE.ring(Parallelism(), 8, 1, 1e9), MACHINE.ring(Parallelism(), 8, 8, 1e9)
    assert float(across) > 5 * float(inside)


def test_interleaving_shortens_the_bubble():
    bubbles = [
        float(Parallelism(pipeline=8, accumulation=8, interleave=v).counts(MODEL).rounds) - 8
        for v in (1, 7)
    ]
    assert bubbles == pytest.approx([7.0, 1.0])


def test_many_splits_are_one_batch():
    tensor = jnp.array([1.0, 2.0, 8.0])
    together = jax.vmap(lambda t: MACHINE(MODEL, Parallelism(tensor=t)))(tensor)
    apart = [float(MACHINE(MODEL, Parallelism(tensor=t))) for t in (1.0, 2.0, 8.0)]
    assert np.asarray(together).tolist() == pytest.approx(apart, rel=1e-5)


def test_an_impossible_split_is_refused():
    with pytest.raises(ValueError, match="tensor is 0; it must be 1 or more"):
        Parallelism(tensor=0)
    with pytest.raises(ValueError, match="recompute='half' is not known"):
        Parallelism(recompute="half")


def test_sharing_a_sequence_divides_its_work_and_costs_messages():
    alone, shared = (Parallelism(context=c, accumulation=8) for c in (1, 2))
    assert float(shared.counts(MODEL).layer) == pytest.approx(float(alone.counts(MODEL).layer) / 2)
    assert float(alone.counts(MODEL).parameters) == float(shared.counts(MODEL).parameters)
    assert float(MACHINE.terms(MODEL, alone).tensor) == 0
    assert float(MACHINE.terms(MODEL, shared).tensor) > 0


def test_narrow_products_are_slow():
    narrow, wide = (Parallelism(tensor=t).counts(MODEL).products.weights for t in (8, 1))
    flops = float(wide[0].flops) / float(narrow[0].flops)
    assert float(MACHINE.compute(wide) / MACHINE.compute(narrow)) < flops
    rate = float(wide[0].flops) / float(MACHINE.compute(wide[:1]))
    inner, outer = 4096, 3 * 4096
    assert rate == pytest.approx(250e12 / (1 + 60 / inner) / (1 + 60 / outer))


def test_groups_that_hold_a_part_of_a_node_crowd_its_links():
    crowded = Machine(**(vars(MACHINE) | {"crowding": 3.0}))
    for stride, factor in ((8, 1.0), (2, 4.0), (1, 1.0)):
        plain, slow = (m.ring(Parallelism(), 64, stride, 1e12) for m in (MACHINE, crowded))
        # What latency there is does not grow.
        assert float(slow / plain) == pytest.approx(factor, rel=1e-3)


@few
@given(powers, powers)
def test_products_hold_the_flop_of_the_layer(tensor, batch):
    count = Parallelism(tensor=tensor, micro_batch=batch).counts(MODEL)
    products = count.products.weights + count.products.attention
    whole = batch * sum(float(product.flops) for product in products)
    assert whole == pytest.approx(float(count.forward), rel=1e-5)
