"""A transformer's counts against published totals, and against XLA's own of a real one."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from oracles.transformer import forward, shapes
from oracles.xla import counted

from scaleopt.models.transformer import Transformer

LLAMA: dict[str, Any] = {"gated": True, "tied": False, "biases": False, "seq_len": 4096}
LLAMA_3: dict[str, Any] = LLAMA | {"kv_heads": 8, "vocab": 128256}
GPT: dict[str, Any] = {"vocab": 50257}
# The counts of the weight files as their authors published them.
PUBLISHED = {
    "GPT-2": (
        Transformer(hidden=768, layers=12, heads=12, seq_len=1024, positions=1024, **GPT),
        124_439_808,
    ),
    "Llama 2 7B": (
        Transformer(hidden=4096, layers=32, heads=32, feed_forward=11008, vocab=32000, **LLAMA),
        6_738_415_616,
    ),
    "Llama 3 8B": (
        Transformer(hidden=4096, layers=32, heads=32, feed_forward=14336, **LLAMA_3),
        8_030_261_248,
    ),
    "Llama 3 70B": (
        Transformer(hidden=8192, layers=80, heads=64, feed_forward=28672, **LLAMA_3),
        70_553_706_496,
    ),
    "Llama 3.1 405B": (
        Transformer(hidden=16384, layers=126, heads=128, feed_forward=53248, **LLAMA_3),
        405_853_388_800,
    ),
    "Mixtral 8x7B": (
        Transformer(
            hidden=4096,
            layers=32,
            heads=32,
            kv_heads=8,
            feed_forward=14336,
            vocab=32000,
            experts=8,
            active_experts=2,
            **LLAMA,
        ),
        46_702_792_704,
    ),
    "BERT-large without pooler": (
        Transformer(hidden=1024, layers=24, heads=16, seq_len=512, vocab=30522, positions=514),
        334_092_288,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_published(name):
    model, published = PUBLISHED[name]
    with jax.enable_x64(True):
        assert float(model.parameters()) == published


def test_gpt3_is_175_billion():
    gpt3 = Transformer(hidden=12288, layers=96, heads=96, seq_len=2048, positions=2048, **GPT)
    assert round(float(gpt3.parameters()) / 1e9) == 175


def test_mixtral_meets_thirteen_billion_a_token():
    assert round(float(PUBLISHED["Mixtral 8x7B"][0].active_parameters()) / 1e9, 1) == 12.9


@pytest.mark.parametrize("gated", [False, True], ids=["plain", "gated"])
@pytest.mark.parametrize("kv_heads", [1, 2, 8])
def test_flop_of_the_products_are_those_that_xla_counts(kv_heads, gated):
    """XLA counts element-wise work too, so it may only count more, and little at this width."""
    model = Transformer(
        hidden=256, layers=2, heads=8, kv_heads=kv_heads, seq_len=64, vocab=1000, gated=gated
    )
    weights, tokens = shapes(model), jax.ShapeDtypeStruct((64,), jnp.int32)
    once, _ = counted(lambda w, t: forward(model, w, t).sum(), weights, tokens)
    ours = float(model.forward().total)
    assert ours <= once <= 1.02 * ours
    step = jax.value_and_grad(lambda w, t: forward(model, w, t).sum())
    both, _ = counted(step, weights, tokens)
    assert 3 * ours <= both <= 1.03 * 3 * ours


def test_recomputation_adds_what_it_names():
    model = Transformer(hidden=512, layers=4, heads=8, seq_len=128, vocab=1000)
    forward = model.forward()
    plain = float(model.training_flops())
    assert plain == pytest.approx(3 * float(forward.total))
    added = [float(model.training_flops(again)) - plain for again in ("selective", "full")]
    assert added == pytest.approx([float(forward.attention), float(forward.layers)], rel=1e-4)


def test_many_models_are_one_batch():
    hidden = jnp.array([1024.0, 2048.0, 4096.0])

    def parameters(size):
        return Transformer(hidden=size, layers=12, heads=16, seq_len=1024, vocab=50257).parameters()

    together = jax.vmap(parameters)(hidden)
    assert together.tolist() == pytest.approx([float(parameters(size)) for size in hidden.tolist()])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"layers": 0}, "layers is 0; it must be 1 or more"),
        ({"kv_heads": 3}, "kv_heads is 3; it must divide the 8 query heads"),
        ({"active_experts": 2}, "active_experts is 2 of experts=1"),
    ],
)
def test_an_impossible_model_is_refused(wrong, says):
    good = {"hidden": 512, "layers": 4, "heads": 8, "seq_len": 128, "vocab": 1000}
    with pytest.raises(ValueError, match=says):
        Transformer(**(good | wrong))
