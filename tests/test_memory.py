"""What a device holds, against the figures that others published, and against a loop over ranks."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaleopt.models.memory import (
    Precision,
    layer_activations,
    layers_in_flight,
    training_memory,
)
from scaleopt.models.parallelism import Parallelism
from scaleopt.models.transformer import Transformer
from scaleopt.models.zero import zero_seconds
from scaleopt.units import GB, GiB

# Korthikanti et al., MLSys 2023, figure 1: GiB of states, of activations along the tensor axis
# alone, and with sequence parallelism and selective recomputation.
MEGATRON: dict[str, tuple[tuple[int, int, int], dict[str, Any], tuple[float, float, float]]] = {
    "22B": ((6144, 48, 64), {"micro_batch": 4}, (45.5625, 59.25, 9.5625)),
    "175B": (
        (12288, 96, 96),
        {"pipeline": 8, "interleave": 3, "accumulation": 64},
        (45.5625, 66.84375, 12.3515625),
    ),
    "530B": (
        (20480, 105, 128),
        {"pipeline": 35, "interleave": 3, "accumulation": 280},
        (31.640625, 114.0234375, 23.076171875),
    ),
    "1T": (
        (25600, 128, 160),
        {"pipeline": 64, "accumulation": 512},
        (32.958984375, 131.25, 26.5625),
    ),
}
# The same, figure 7: activations as a share of those along the tensor axis alone.
SHARES = {
    "22B": {"seq": 0.6684, "sel": 0.4942, "seqsel": 0.1618, "full": 0.0764},
    "175B": {"seq": 0.6204, "sel": 0.5653, "seqsel": 0.1849, "full": 0.0871},
    "530B": {"seq": 0.5831, "sel": 0.6204, "seqsel": 0.2027, "full": 0.0942},
    "1T": {"seq": 0.5831, "sel": 0.6204, "seqsel": 0.2027, "full": 0.0942},
}
CHOICES = {
    "seq": ("none", True),
    "sel": ("selective", False),
    "seqsel": ("selective", True),
    "full": ("full", False),
}


def megatron(name: str, recompute: str = "none", along: bool = False):
    (hidden, layers, heads), axes, published = MEGATRON[name]
    model = Transformer(
        hidden=hidden, layers=layers, heads=heads, seq_len=2048, vocab=51200, dropout=True
    )
    split = Parallelism(tensor=8, recompute=recompute, sequence_parallel=along, **axes)
    return model, split, published


def test_published_totals():
    errors = []
    for name in MEGATRON:
        for recompute, along, place in (("none", False, 1), ("selective", True, 2)):
            model, split, published = megatron(name, recompute, along)
            found = float(training_memory(model, split).total)
            expected = (published[0] + published[place]) * GiB
            errors.append(abs(found / expected - 1))
    # The figure spreads the states evenly; a device of the first stage holds the embedding too.
    assert sum(errors) / len(errors) < 0.04
    assert max(errors) < 0.06


@pytest.mark.parametrize("name", MEGATRON)
def test_published_activations(name):
    for recompute, along, place in (("none", False, 1), ("selective", True, 2)):
        model, split, published = megatron(name, recompute, along)
        found = float(training_memory(model, split).activations) / GiB
        # The figure leaves out the embedding's dropout mask.
        assert found == pytest.approx(published[place], rel=0.025)
        assert found >= published[place]


@pytest.mark.parametrize("name", SHARES)
@pytest.mark.parametrize("choice", CHOICES)
def test_published_shares(name, choice):
    def of_layers(recompute, along):
        model, split, _ = megatron(name, recompute, along)
        return float(layer_activations(model, split)[1])

    # As others read it off the bars.
    assert of_layers(*CHOICES[choice]) / of_layers("none", False) == pytest.approx(
        SHARES[name][choice], abs=0.012
    )


# BLOOM's search for a layout, 181 billion parameters on A100: GB that a device of the first node
# held, as its authors read them, by (pipeline, data, micro-batch); tensor 8, ZeRO-1, all layers
# computed again. Source: bigscience-workshop/bigscience, tr11-176B-ml/chronicles-prequel.md.
BLOOM = {
    (12, 4, 1): 29.0,
    (12, 4, 2): 37.0,
    (12, 4, 4): 49.0,
    (12, 4, 8): 69.0,
    (6, 8, 1): 38.0,
    (6, 8, 2): 44.0,
    (6, 8, 4): 56.0,
}


def test_measured_memory_exceeds_the_count_by_what_the_allocator_keeps():
    model = Transformer(
        hidden=14336, layers=72, heads=64, seq_len=2048, vocab=250880, positions=2048
    )
    excess = []
    for (pipeline, data, batch), measured in BLOOM.items():
        split = Parallelism(
            data=data,
            tensor=8,
            pipeline=pipeline,
            micro_batch=batch,
            accumulation=2048 // (data * batch),
            recompute="full",
        )
        counted = float(training_memory(model, split, zero=1).total)
        excess.append(measured * GB / counted - 1)
    # The process's own context, buffers of collectives and fragments are not in the count.
    assert min(excess) > 0.05
    assert max(excess) < 0.26


stages = st.sampled_from([1, 2, 3, 4])


def in_flight_by_loop(stages: int, chunks: int, batches: int) -> float:
    """The most that the first stage holds: a warm-up of forward passes, then one for one back."""
    warm = stages - 1 if chunks == 1 else 2 * (stages - 1) + (chunks - 1) * stages
    held, most = 0, 0
    for step in range(batches * chunks):
        held += 1
        most = max(most, held)
        held -= step >= warm
    return most / chunks


@settings(max_examples=40)
@given(stages, st.sampled_from([1, 2, 3]), st.sampled_from([4, 12]))
def test_micro_batches_in_flight(pipeline, chunks, rounds):
    if pipeline == 1:
        chunks = 1
    split = Parallelism(pipeline=pipeline, interleave=chunks, accumulation=rounds * pipeline)
    found = float(layers_in_flight(split))
    assert found == pytest.approx(in_flight_by_loop(pipeline, chunks, rounds * pipeline))


MODEL = Transformer(hidden=1024, layers=24, heads=16, seq_len=512, vocab=32000, gated=True)


def test_zero_splits_states_stage_by_stage():
    split = Parallelism(data=16, accumulation=2)
    held = [training_memory(MODEL, split, zero=stage) for stage in (0, 1, 2, 3)]
    parameters = float(MODEL.parameters())
    expected = [18, 6 + 12 / 16, 2 + 16 / 16, 18 / 16]  # bytes a parameter
    for memory, each in zip(held, expected, strict=True):
        assert float(memory.states) == pytest.approx(each * parameters, rel=1e-6)


def test_all_devices_hold_the_whole_model():
    split = Parallelism(tensor=4, pipeline=6, accumulation=6)
    memory = training_memory(MODEL, split)
    layers = float(MODEL.parameters() - MODEL.embedding())
    of_layers = float(memory.weights) - 2 * float(MODEL.embedding()) / 4
    assert 24 * of_layers == pytest.approx(2 * layers, rel=1e-5)


@settings(max_examples=20)
@given(stages, stages, st.sampled_from(["none", "selective", "full"]), st.booleans())
def test_more_devices_never_hold_more(tensor, pipeline, recompute, along):
    """Each axis by itself relieves a device, or leaves it as it was."""

    def held(**axes):
        split = Parallelism(accumulation=16, recompute=recompute, sequence_parallel=along, **axes)
        return float(training_memory(MODEL, split, zero=1).total)

    here = held(tensor=tensor, pipeline=pipeline)
    room = 1 + 1e-6  # float32
    assert held(tensor=2 * tensor, pipeline=pipeline) <= here * room
    assert held(tensor=tensor, pipeline=pipeline, data=2) <= here * room


def test_sharing_sequences_halves_all_but_the_states():
    whole, shared = (
        training_memory(MODEL, Parallelism(context=c, recompute="selective"), zero=1)
        for c in (1, 2)
    )
    assert float(shared.activations) == pytest.approx(float(whole.activations) / 2)
    assert float(shared.working) == pytest.approx(float(whole.working) / 2)
    assert float(shared.optimizer) == pytest.approx(float(whole.optimizer) / 2)
    assert float(shared.weights) == float(whole.weights)


def test_recomputation_saves_memory_in_its_order():
    held = [
        float(training_memory(MODEL, Parallelism(recompute=choice), zero=0).activations)
        for choice in ("none", "selective", "full")
    ]
    assert held[0] > held[1] > held[2]


def test_fused_attention_keeps_no_scores():
    sizes: dict[str, Any] = {"hidden": 1024, "layers": 2, "heads": 16, "vocab": 100}
    short, long = (
        [
            float(
                training_memory(
                    Transformer(seq_len=tokens, fused_attention=fused, **sizes), Parallelism()
                ).activations
            )
            for fused in (True, False)
        ]
        for tokens in (1024, 4096)
    )
    assert long[0] == pytest.approx(4 * short[0], rel=1e-6)
    assert long[1] > 8 * short[1]


def test_traffic_of_zero():
    # Weights pass in half as many bytes as gradients.
    passed = [float(zero_seconds(1.0, 0.25, 0.0, 0.0, stage, 8)[0]) for stage in range(4)]
    assert passed == [1.0, 0.75, 4.25, 8.0]


def test_an_unknown_stage_is_refused():
    with pytest.raises(ValueError, match="zero is 4; a ZeRO stage is one of 0, 1, 2, 3"):
        training_memory(MODEL, Parallelism(), zero=4)


def test_precision_adds_up():
    assert Precision(weight=4, gradient=4, optimizer=8).state == 16


def test_shared_experts_divide_what_is_theirs():
    model = Transformer(
        hidden=1024, layers=8, heads=8, seq_len=512, vocab=32000, experts=8, active_experts=2
    )
    experts = 8 * float(model.expert_weights())
    dense = float(model.parameters()) - experts
    alone, shared, split = (
        training_memory(model, Parallelism(data=16, expert=expert), zero=zero)
        for expert, zero in ((1, 0), (4, 0), (4, 1))
    )
    assert float(alone.weights) == pytest.approx(2 * (dense + experts), rel=1e-6)
    assert float(shared.weights) == pytest.approx(2 * (dense + experts / 4), rel=1e-6)
    assert float(shared.activations) == float(alone.activations)
    # A quarter of the experts among the four that hold it: as much as all of them among all.
    assert float(split.optimizer) == pytest.approx(float(alone.optimizer) / 16, rel=1e-6)
