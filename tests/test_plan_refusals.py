"""What a plan refuses, each with a sentence that says how to mend it."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from planned_runs import COMMON, MACHINE, gpt

from scaleopt.models.memory import Precision
from scaleopt.planning.asking.offer import Offer
from scaleopt.planning.plan import plan
from scaleopt.units import GB

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"devices": 0}, "devices is 0; give a whole number above 0"),
    ({"devices": []}, "devices is empty"),
    ({"devices": [8, -8]}, "devices holds -8; every one must be a whole number above 0"),
    ({"devices": [1.5]}, "devices holds 1.5"),
    ({"devices": None}, "devices is needed beside a machine"),
    ({"memory": None}, "memory is needed beside a machine"),
    ({"memory": -1.0}, "memory is -1.0 B; it must be above 0"),
    ({"price": -1.0}, "price is -1.0 USD/s; it must be 0 or more"),
    ({"price": math.nan}, "price is nan USD/s"),
    ({"price": 2}, "price is 2 USD/s, 7,200 USD an hour of a device; 2 USD an hour are 2 / hour"),
    ({"peak_rate": 312}, "peak_rate is 312 FLOP/s; 300 TFLOP/s are 300 [*] TFLOP"),
    ({"power": 0.0}, "power is 0.0 W"),
    ({"peak_rate": 0.0}, "peak_rate is 0.0 FLOP/s"),
    ({"global_batch": 0}, "global_batch is 0; give a whole number above 0"),
    ({"global_batch": 2.5}, "global_batch is 2.5"),
    ({"global_batch": []}, "global_batch is empty"),
    ({"global_batch": [8, 16], "tokens": None}, "2 global batches can be compared by the run"),
    ({"objective": "speed"}, "objective='speed' is not known; use one of time, cost"),
    ({"objective": "cost", "price": None}, "the price is needed for a cost"),
    ({"objective": "cost", "price": 0.0}, "the price is 0, so that every run costs as much"),
    ({"objective": "energy"}, "the power is needed for an energy"),
    ({"budget": 10.0, "price": None}, "the price is needed for a cost"),
    ({"budget": 0.0}, "budget is 0.0 USD; it must be above 0"),
    ({"deadline": -5.0}, "deadline is -5.0 s; it must be above 0"),
    ({"deadline": math.nan}, "deadline is nan s"),
    ({"min_mfu": 1.2}, "min_mfu is 1.2; it is a share between 0 and 1"),
    ({"min_efficiency": -0.1}, "min_efficiency is -0.1"),
    ({"tokens": 0.0}, "tokens of the run: 0.0; give above 0"),
    ({"tokens": 26}, "the run is of 0.0254 samples, less than one step of 256"),
    ({"steps": 10.0}, "tokens and steps both say how long the run is"),
    ({"tokens": None, "steps": -1.0}, "steps of the run: -1.0; give above 0"),
    ({"critical_batch": 0.0}, "critical_batch is 0.0; it must be above 0"),
    ({"critical_batch": 9.0, "tokens": None}, "critical_batch tells how many tokens"),
    ({"reserve": 1.0}, "reserve is 1.0; it is a share of the memory"),
    ({"max_context": 0}, "max_context is 0; give a whole number above 0"),
    ({"max_expert": -2}, "max_expert is -2; give a whole number"),
    ({"max_micro_batch": 0.5}, "max_micro_batch is 0.5; give a whole number"),
    ({"schedule": "1f1b"}, "schedule='1f1b': give those to try"),
    ({"schedule": ("gpipe",)}, "schedule holds 'gpipe'; known are"),
    ({"recompute": ("half",)}, "recompute holds 'half'; known are"),
    ({"recompute": "full"}, "recompute='full': give those to try"),
    ({"zero": ()}, "zero=\\(\\): give those to try"),
    ({"zero": (4,)}, "zero holds 4"),
    ({"devices": 2**21}, "2,097,152 are more than the 1,048,576 a plan is made for"),
    ({"devices": ["8"]}, "devices holds '8'; every one must be a whole number"),
    ({"memory": 80}, "memory is 80 B; it is in bytes, so that 80 GB are 80 [*] GB"),
    ({"power": math.inf, "objective": "energy"}, "power is inf W"),
    ({"draws": 0}, "draws is 0; give a whole number above 0"),
    ({"draws": 1}, "draws is 1; odds need 16 machines at the least"),
    ({"level": 90}, "level is 90; it is a share between 0 and 1"),
    ({"precision": Precision(weight=-2.0)}, "precision: weight is -2.0 B"),
]
NO_NUMBERS: list[tuple[dict[str, Any], str]] = [
    ({"devices": "8"}, "devices is '8'; give a whole number above 0, or several in a list"),
    ({"devices": True}, "devices is True; give a whole number"),
    ({"global_batch": "16"}, "global_batch is '16'; give a whole number"),
    ({"memory": "80 GB"}, "memory is '80 GB'; give a number, in B"),
    ({"price": "2 USD/h"}, "price is '2 USD/h'; give a number, in USD/s"),
    ({"deadline": "2 h"}, "deadline is '2 h'; give a number, in s"),
    ({"min_mfu": "50 %"}, "min_mfu is '50 %'; give a number"),
    ({"tokens": "1e9"}, "tokens is '1e9'; give a number"),
    ({"max_context": "4"}, "max_context is '4'; give a number"),
    ({"precision": 2}, "precision is 2; give so.Precision"),
]


@pytest.mark.parametrize(("wrong", "says"), WRONG, ids=[says for _, says in WRONG])
def test_a_wrong_wish_is_refused_with_a_sentence(wrong, says):
    with pytest.raises(ValueError, match=says):
        plan(gpt(), MACHINE, **(COMMON | wrong))


@pytest.mark.parametrize(("wrong", "says"), NO_NUMBERS, ids=[says for _, says in NO_NUMBERS])
def test_what_is_no_number_is_refused_with_a_sentence(wrong, says):
    with pytest.raises(TypeError, match=says):
        plan(gpt(), MACHINE, **(COMMON | wrong))


@pytest.mark.parametrize(
    ("constants", "says"),
    [
        ({"rate": 0.0}, "Machine: rate is 0.0; a plan needs a finite number, above 0"),
        ({"bandwidth": math.inf}, "Machine: bandwidth is inf"),
        ({"alpha": math.inf}, "Machine: alpha is inf; a plan needs a finite number, 0 or more"),
        (
            {"rate": 160},
            "rate is 160 FLOP/s, as no machine has it; .* 100 TFLOP/s are 100 [*] TFLOP",
        ),
        ({"beta": 200}, "beta is 200 s/B, as no machine has it; .* is 1 / [(]200 [*] GB[)]"),
        ({"alpha": 8}, "alpha is 8 s, as no machine has it; .* 8 µs are 8 [*] us"),
        ({"node_size": 2.5}, "node_size is 2.5; give a whole number above 0"),
    ],
)
def test_a_machine_that_cannot_be_is_refused_with_a_sentence(constants, says):
    with pytest.raises(ValueError, match=says):
        plan(gpt(), replace(MACHINE, **constants), **COMMON)


def test_a_wrong_subject_is_refused_with_a_sentence():
    with pytest.raises(TypeError, match="a plan is made for a Transformer, not for a str"):
        plan("gpt", MACHINE, **COMMON)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"or an Offer, not the text 'A100'; so\.Offer\.of"):
        plan(gpt(), "A100", **COMMON)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="not the text 'A100'"):
        plan(gpt(), ["A100"], global_batch=8)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="a plan needs a Machine or a fit of one, not float"):
        plan(gpt(), 3.0, **COMMON)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="heads has 2 values; a plan is made for one model"):
        plan(gpt(heads=np.array([8, 16])), MACHINE, **COMMON)
    with pytest.raises(ValueError, match=r"layers is 2\.5; give a whole number above 0"):
        plan(gpt(layers=2.5), MACHINE, **COMMON)
    with pytest.raises(ValueError, match="devices, memory, price: each offer has its own"):
        plan(gpt(), [Offer(MACHINE, 8, 40 * GB)], **COMMON)
    with pytest.raises(TypeError, match="seq_len is '1024'; give a number"):
        plan(gpt(seq_len="1024"), MACHINE, **COMMON)
    with pytest.raises(ValueError, match="the list of offers is empty"):
        plan(gpt(), [], global_batch=8)
