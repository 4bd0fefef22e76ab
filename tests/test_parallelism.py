"""How a step is split, and what a machine makes of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_machine import MACHINE

import scaleopt as so
from scaleopt.models.machine import Machine
from scaleopt.models.parallelism import Parallelism
from scaleopt.models.transformer import Transformer

MODEL = Transformer(hidden=4096, layers=32, heads=32, seq_len=2048, vocab=51200)
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
    with pytest.raises(ValueError, match="interleave is 2, and the zero-bubble schedule has no"):
        Parallelism(pipeline=2, interleave=2, zero_bubble=True)


def test_sharing_a_sequence_divides_its_work_and_costs_messages():
    alone, shared = (Parallelism(context=c, accumulation=8) for c in (1, 2))
    assert float(shared.counts(MODEL).layer) == pytest.approx(float(alone.counts(MODEL).layer) / 2)
    assert float(alone.counts(MODEL).parameters) == float(shared.counts(MODEL).parameters)
    assert float(MACHINE.terms(MODEL, alone).context) == 0
    assert float(MACHINE.terms(MODEL, shared).context) > 0


MIXTURE = Transformer(
    hidden=2048, layers=16, heads=16, seq_len=2048, vocab=32000, experts=8, active_experts=2
)


def test_shared_experts_are_held_once_in_their_group():
    found = [Parallelism(data=8, expert=e).counts(MIXTURE) for e in (1, 2, 8)]
    dense = [float(count.parameters - count.expert_parameters) for count in found]
    assert dense == pytest.approx([dense[0]] * 3)
    assert [
        float(count.expert_parameters) * e for count, e in zip(found, (1, 2, 8), strict=True)
    ] == (pytest.approx([float(16 * MIXTURE.expert_weights())] * 3))
    layers = [float(count.layer) for count in found]
    assert layers == [layers[0]] * 3  # as many tokens come as go


def test_the_pieces_of_an_exchange_are_sent_one_by_one():
    inside, across = (MACHINE.exchange(Parallelism(), 4, stride, 1e9) for stride in (1, 8))
    assert float(inside) == pytest.approx(3 * (8e-6 + 0.25e9 / 200e9))
    assert float(across) == pytest.approx(3 * (2e-5 + 0.25e9 / 20e9))
    assert float(MACHINE.exchange(Parallelism(), 1, 1, 1e9)) == 0.0
    half = MACHINE.exchange(Parallelism(), 4, 4, 1e9)  # two of four in a node
    assert float(half) == pytest.approx((8e-6 + 0.25e9 / 200e9) + 2 * (2e-5 + 0.25e9 / 20e9))


def test_shared_experts_trade_gradients_for_tokens():
    alone, shared = (MACHINE.terms(MIXTURE, Parallelism(data=16, expert=e)) for e in (1, 8))
    assert float(shared.data) < float(alone.data)
    assert float(shared.expert) > float(alone.expert) == 0.0
    # The dense weights among 16, experts between the two nodes that hold the same ones.
    count = Parallelism(data=16, expert=8).counts(MIXTURE)
    own = 4 * float(count.expert_parameters)
    rest = 4 * float(count.parameters) - own
    rings = MACHINE.ring(Parallelism(), 16, 1, rest) + MACHINE.ring(Parallelism(), 2, 8, own)
    assert float(shared.data) == pytest.approx(float(rings), rel=1e-5)


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_a_zero_bubble_schedule_waits_two_weight_gradients_less(recompute):
    """(p − 1)(t_F + t_B − 2 t_W), with each pass as long as its products alone."""
    machine = Machine(rate=250e12, bandwidth=float("inf"), alpha=0.0, beta=0.0)
    split = {"pipeline": 4, "accumulation": 8, "recompute": recompute}
    usual, new = (
        machine.terms(MODEL, Parallelism(**split, zero_bubble=zero)) for zero in (False, True)
    )
    weights = 8 * float(machine.compute(Parallelism().counts(MODEL).products.weights))
    assert float(usual.pipeline - new.pipeline) == pytest.approx(3 * 2 * weights, rel=1e-4)
    assert 0 < float(new.pipeline) < float(usual.pipeline)
    assert float(usual.total - new.total) == pytest.approx(6 * weights, rel=1e-3)


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
