"""What must hold of any plan: its limits, offers, axes and words."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from planned_runs import COMMON, MACHINE, gpt

from scaleopt.models.checkpoint import checkpoint_interval, interrupted_time
from scaleopt.models.memory import Precision
from scaleopt.planning.asking.offer import Offer
from scaleopt.planning.plan import plan
from scaleopt.planning.searching.layouts import SCHEDULES, Layouts
from scaleopt.planning.searching.options import Options
from scaleopt.planning.searching.tables import Problem, tables
from scaleopt.planning.telling.limits import binding, infeasible
from scaleopt.units import GB, TFLOP, hour


def test_an_efficiency_floor_is_kept():
    free = plan(gpt(), MACHINE, **COMMON)
    cheapest = plan(gpt(), MACHINE, objective="cost", **COMMON)
    bound = plan(gpt(), MACHINE, min_efficiency=0.9, **COMMON)
    assert free.best is not None
    assert cheapest.best is not None
    assert bound.best is not None
    assert bound.best.cost <= cheapest.best.cost / 0.9 * (1 + 1e-9) < free.best.cost
    assert free.best.time < bound.best.time < cheapest.best.time
    assert "least efficiency" in bound.explain()


def test_a_least_mfu_is_kept():
    free = plan(gpt(), MACHINE, **COMMON)
    assert free.best is not None
    bound = plan(gpt(), MACHINE, min_mfu=free.best.mfu + 0.05, **COMMON)
    assert bound.best is not None
    assert bound.best.mfu >= free.best.mfu + 0.05
    assert bound.best.time > free.best.time


def test_the_critical_batch_trades_time_for_money():
    choices: dict[str, Any] = COMMON | {
        "global_batch": [64, 128, 256, 512, 1024],
        "critical_batch": 200.0,
    }
    fast = plan(gpt(), MACHINE, objective="time", **choices)
    cheap = plan(gpt(), MACHINE, objective="cost", **choices)
    assert fast.best is not None
    assert cheap.best is not None
    assert fast.best.global_batch > cheap.best.global_batch
    assert fast.best.time < cheap.best.time
    assert fast.best.cost > cheap.best.cost


def test_of_two_offers_the_better_is_taken():
    fast = replace(MACHINE, rate=500 * TFLOP)
    dear = Offer(fast, 64, 80 * GB, price=6 / hour, name="dear")
    cheap = Offer(MACHINE, 64, 40 * GB, price=2 / hour, name="cheap")
    rest: dict[str, Any] = {"global_batch": 256, "tokens": 1e10}
    quick = plan(gpt(), [dear, cheap], **rest)
    frugal = plan(gpt(), [dear, cheap], objective="cost", **rest)
    assert quick.best is not None
    assert frugal.best is not None
    assert (quick.best.offer.name, frugal.best.offer.name) == ("dear", "cheap")
    assert set(frugal.table(2000)["offer"]) == {"dear", "cheap"}
    alone = plan(gpt(), [cheap], objective="cost", **rest)
    assert alone.best is not None
    assert frugal.best.row() == alone.best.row()


def test_interruptions_make_many_devices_dearer():
    offer: dict[str, Any] = {
        "machine": MACHINE,
        "devices": 64,
        "memory": 40 * GB,
        "price": 1 / hour,
    }
    rest: dict[str, Any] = {"global_batch": 256, "tokens": 1e10}
    steady = plan(gpt(), [Offer(**offer)], **rest)
    spot = Offer(**offer, interruptions=1 / (50 * hour), checkpoint=60.0, restart=300.0)
    shaken = plan(gpt(), [spot], **rest)
    assert steady.best is not None
    assert shaken.best is not None
    rate = shaken.best.devices / (50 * hour)
    interval = checkpoint_interval(60.0, rate)
    work = shaken.best.steps * shaken.best.step_time
    expected = float(interrupted_time(work, interval, 60.0, 300.0, rate))
    assert shaken.best.time == pytest.approx(expected, rel=1e-5)  # float32 here
    assert shaken.best.time > 1.1 * steady.best.time
    assert "interruptions, with a checkpoint every" in shaken.explain()
    with pytest.raises(ValueError, match="give checkpoint=…, the seconds to write one"):
        Offer(**offer, interruptions=1e-5)


def test_what_binds_is_named_with_what_it_costs():
    free = plan(gpt(), MACHINE, objective="cost", **COMMON)
    assert free.best is not None
    deadline = 0.5 * free.best.time
    bound = plan(gpt(), MACHINE, objective="cost", deadline=deadline, **COMMON)
    assert bound.best is not None
    limits = {it.limit: it.value for it in binding(bound.searched, bound.best)}
    assert limits["deadline"] == pytest.approx(free.best.cost)
    assert bound.best.time <= deadline
    assert "deadline: without it" in bound.explain()
    terms, memory = bound.searched[0].breakdown(bound.best)
    assert sum(terms.values()) == pytest.approx(bound.best.step_time)
    assert sum(memory.values()) == pytest.approx(bound.best.memory)


@pytest.mark.parametrize("limit", ["budget", "deadline", "memory", "min_mfu", "min_efficiency"])
def test_the_smallest_relaxation_would_do_and_less_would_not(limit):
    tight: dict[str, float] = {
        "budget": 0.01,
        "deadline": 10.0,
        "memory": 0.2 * GB,
        "min_mfu": 0.99,
        "min_efficiency": 1.0,
    }
    wishes: dict[str, Any] = COMMON | {limit: tight[limit]}
    if limit == "min_efficiency":
        free = plan(gpt(), MACHINE, **COMMON)
        assert free.best is not None
        wishes["deadline"] = 1.01 * free.best.time
    found = plan(gpt(), MACHINE, **wishes)
    assert found.best is None
    needed = infeasible(found.searched).relaxed[limit]
    better = 1 + 1e-9 if not limit.startswith("min_") else 1 - 1e-9
    wishes[limit] = needed * better
    assert plan(gpt(), MACHINE, **wishes).best is not None
    wishes[limit] = needed * (2 - better) ** 1000
    assert plan(gpt(), MACHINE, **wishes).best is None
    assert "What would do" in found.explain()


@pytest.mark.parametrize("more", [{}, {"devices": [1, 2]}, {"budget": 1e-3}])
def test_two_limits_that_break_together_are_both_named(more):
    wishes: dict[str, Any] = COMMON | {"memory": 0.2 * GB, "deadline": 1.0} | more
    found = plan(gpt(), MACHINE, **wishes)
    text, why = found.explain(), infeasible(found.searched)
    assert found.best is None
    assert [short.kind for short in why.shortfalls] == ["the leanest"]
    assert {"memory", "deadline"} <= set(why.shortfalls[0].breaks)
    assert "breaks the memory of a device" in text
    assert "breaks the deadline" in text
    assert "no single limit" in text
    # The leanest there is, whatever it takes.
    free = plan(gpt(), MACHINE, **{**wishes, "deadline": None, "budget": None})
    assert why.shortfalls[0].found.memory == infeasible(free.searched).shortfalls[0].found.memory


ODD: dict[str, Any] = {"devices": [7, 13]}


def test_devices_over_which_nothing_splits_are_named():
    text = plan(gpt(), MACHINE, **COMMON | ODD).explain()
    assert "cannot be split evenly over 7, 13 devices" in text
    assert "Numbers of devices that would do: 3, 4, 6, 8, 12, 16" in text


LONG: dict[str, Any] = {"seq_len": 32768, "fused_attention": True}


def test_axes_that_are_of_no_use_cost_nothing():
    layouts = Layouts(gpt(), np.arange(1, 65), np.array([256]), 8)
    assert {share[1:3] for share in layouts.shares} == {(1, 1)}
    table = tables(Problem.of(gpt(), MACHINE, Precision()), layouts, Options()).stages
    assert table.shape[1] == 6  # nothing is kept for a schedule that is not tried


def test_a_long_sequence_is_shared_where_that_helps():
    run: dict[str, Any] = COMMON | {"global_batch": 16}
    alone = plan(gpt(**LONG), MACHINE, max_context=1, **run)
    shared = plan(gpt(**LONG), MACHINE, **run)
    assert alone.best is not None
    assert shared.best is not None
    assert shared.best.split.context > 1
    assert shared.best.time < alone.best.time
    assert "context" in str(shared.best)
    assert shared.configurations > alone.configurations


def test_devices_and_experts_are_counted_in_words():
    run: dict[str, Any] = {"global_batch": 16, "memory": 80 * GB, "devices": 16}
    run["objective"] = "devices"
    alone = plan(gpt(), MACHINE, **run)
    assert "\n  1 device, global batch 16: one device" in alone.explain()
    assert alone.best is not None
    pressed = plan(gpt(), MACHINE, **run, deadline=0.6 * alone.best.time)
    assert "deadline: without it 1 device would do" in pressed.explain()
    assert "memory of a device" not in pressed.explain()  # with more of it there are still two
    # Experts lie within the replicas, and what is sent to them has a line of its own.
    mixture = gpt(experts=8, active_experts=2)
    shared = plan(mixture, MACHINE, **COMMON | {"memory": 24 * GB, "zero": (0,)})
    assert shared.best is not None
    split = shared.best.split
    assert f"expert {int(split.expert)} within data" in str(shared.best)
    terms, _ = shared.searched[0].breakdown(shared.best)
    assert terms["expert"] > 0
    assert terms["tensor"] == 0 if int(split.tensor) == 1 else terms["tensor"] > 0


def test_experts_are_shared_where_memory_is_short():
    mixture = gpt(experts=16, active_experts=2)
    run: dict[str, Any] = COMMON | {"memory": 24 * GB, "zero": (0,)}
    alone, shared = (plan(mixture, MACHINE, max_expert=most, **run) for most in (1, None))
    assert shared.best is not None
    assert shared.best.split.expert > 1
    assert alone.best is None or alone.best.time > shared.best.time
    assert f"expert {shared.best.split.expert}" in str(shared.best)


def test_a_zero_bubble_schedule_is_tried_where_it_is_asked_for():
    few: dict[str, Any] = COMMON | {"global_batch": 16, "memory": 6 * GB, "zero": (0,)}
    usual, asked = (
        plan(gpt(), MACHINE, schedule=s, **few) for s in (SCHEDULES[:1], SCHEDULES[::2])
    )
    assert usual.best is not None
    assert asked.best is not None
    assert asked.best.split.zero_bubble
    assert asked.best.time < usual.best.time
    assert "zero bubble" in str(asked.best)
    alone = plan(gpt(), MACHINE, schedule=SCHEDULES[2:], **few)
    assert alone.best is not None
    assert alone.best.row() == asked.best.row()
