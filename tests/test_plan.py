"""The planner against brute force, and what must hold of any plan."""

import math
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
import simulated_machine
from oracles import planner as brute

from scaleopt.models.checkpoint import checkpoint_interval, interrupted_time
from scaleopt.models.machine import Machine
from scaleopt.models.memory import Precision
from scaleopt.models.transformer import Transformer
from scaleopt.planning.entries import entries
from scaleopt.planning.layouts import AXES, SCHEDULES, Bounds, Layouts, tiles
from scaleopt.planning.limits import binding, infeasible
from scaleopt.planning.offer import Offer
from scaleopt.planning.options import Options
from scaleopt.planning.plan import plan
from scaleopt.planning.search import all_scores
from scaleopt.planning.tables import Problem, tables
from scaleopt.units import GB, TFLOP, hour

MACHINE = replace(simulated_machine.MACHINE, micro_batch_overhead=1e-3, node_size=4)
SOMETIMES: list[dict[str, Any]] = [{}, {}, {"experts": 4, "active_experts": 2}, {"experts": 6}]


def small_problem(seed: int):
    """A model, a machine and limits, drawn so that about every fourth limit bites."""
    draw = np.random.default_rng(seed)
    heads = int(draw.choice([2, 4, 6, 8]))
    model = Transformer(
        hidden=heads * int(draw.choice([64, 128])),
        layers=int(draw.choice([2, 4, 6, 12])),
        heads=heads,
        kv_heads=int(draw.choice([k for k in range(1, heads + 1) if heads % k == 0])),
        seq_len=int(draw.choice([512, 1024])),
        vocab=32000,
        gated=False,
        **SOMETIMES[seed % len(SOMETIMES)],
    )
    scale = np.exp(draw.normal(0, 1, 6))
    machine = Machine(
        rate=2e14 * scale[0],
        bandwidth=1.5e12 * scale[1],
        alpha=8e-6 * scale[2],
        beta=5e-12 * scale[3],
        network_alpha=2e-5 * scale[4],
        network_beta=5e-11 * scale[5],
        grain=60.0,
        kernel=2e-5,
        host=1e-4,
        step_overhead=0.005,
        overlap=(0.0, 0.4)[seed % 2],
        node_size=int(draw.choice([2, 4])),
    )
    devices = np.unique(draw.choice(np.arange(1, 25), int(draw.integers(1, 8)))).tolist()
    batches = np.unique(draw.choice([4, 6, 8, 12, 16, 24], int(draw.integers(1, 4)))).tolist()
    wishes: dict[str, Any] = {
        "objective": str(draw.choice(["time", "cost", "cost_time", "devices"])),
        "memory": float(np.exp(draw.uniform(np.log(3e8), np.log(2e10)))),
        "price": 3 / hour,
        "budget": float(draw.choice([math.inf, np.exp(draw.normal(1.0, 1.5))])),
        "deadline": float(draw.choice([math.inf, np.exp(draw.normal(7.5, 1.0))])),
    }
    critical = float(draw.choice([math.inf, 10.0]))
    wishes |= {"context": int(draw.choice([1, 4])), "zero_bubble": bool(draw.choice([0, 1]))}
    return model, machine, devices, batches, wishes, critical


SAMPLES = 20_000


def planned(model, machine, devices, batches, wishes, critical, **more):
    limits = {name: wishes[name] for name in ("budget", "deadline") if wishes[name] < math.inf}
    schedule = SCHEDULES if wishes["zero_bubble"] else SCHEDULES[:2]
    return plan(
        model,
        machine,
        devices=devices,
        global_batch=batches,
        memory=wishes["memory"],
        price=wishes["price"],
        objective=wishes["objective"],
        tokens=SAMPLES * model.seq_len,
        critical_batch=None if critical == math.inf else critical,
        reserve=0.0,
        max_context=wishes["context"],
        schedule=schedule,
        **(limits | more),
    )


def value_of(found, objective):
    best = found.best
    if best is None:
        return math.inf
    return {
        "time": best.time,
        "cost": best.cost,
        "cost_time": best.cost * best.time,
        "devices": best.devices,
    }[objective]


def test_the_search_equals_brute_force():
    infeasible = 0
    for seed in range(200):
        model, machine, devices, batches, wishes, critical = small_problem(seed)
        found = planned(model, machine, devices, batches, wishes, critical)
        least, count = brute.best(
            machine,
            model,
            devices,
            batches,
            node=machine.node_size,
            samples=SAMPLES,
            critical_batch=critical,
            **wishes,
        )
        assert found.configurations == count, seed
        # The same formulas in another order of roundings.
        assert value_of(found, wishes["objective"]) == pytest.approx(least, rel=1e-12), seed
        infeasible += least == math.inf
    assert 10 < infeasible < 100  # the limits bite, and not always


@pytest.mark.parametrize("seed", range(12))
def test_more_of_a_limit_never_makes_a_plan_worse(seed):
    model, machine, devices, batches, wishes, critical = small_problem(seed)
    values = []
    for factor in (0.3, 1.0, 3.0, math.inf):
        for limit, typical in (("budget", 3.0), ("deadline", 2000.0), ("memory", 2 * GB)):
            looser = wishes | {limit: min(factor * typical, 1e15)}
            found = planned(model, machine, devices, batches, looser, critical)
            values.append((limit, factor, value_of(found, wishes["objective"])))
    for limit in ("budget", "deadline", "memory"):
        row = [value for name, _, value in values if name == limit]
        assert row == sorted(row, reverse=True)


def test_devices_may_come_from_an_iterator():
    model, machine, *_ = small_problem(3)
    common: dict[str, Any] = {"memory": 4 * GB, "global_batch": 8}
    listed = plan(model, machine, devices=[4, 8], **common).best
    passed = plan(model, machine, devices=iter([4, 8]), **common).best
    assert listed is not None
    assert passed is not None
    assert listed.row() == passed.row()


def test_the_order_in_which_choices_are_given_changes_nothing():
    model, machine, *_ = small_problem(3)
    shuffled: dict[str, Any] = {
        "devices": [16, 4, 8, 4],
        "global_batch": [32, 8],
        "recompute": ("full", "none", "selective"),
        "zero": (3, 1, 0, 2),
        "sequence_parallel": (True, False),
        "schedule": ("zero_bubble", "interleaved", "1f1b"),
    }
    ordered: dict[str, Any] = {"devices": [4, 8, 16], "global_batch": [8, 32]}
    ordered["schedule"] = SCHEDULES
    common: dict[str, Any] = {"memory": 4 * GB, "tokens": 1e8}
    one, other = (plan(model, machine, **common, **choices) for choices in (ordered, shuffled))
    assert one.best is not None
    assert other.best is not None
    assert one.best.row() == other.best.row()


@pytest.mark.parametrize("seed", [12, 14])
def test_sums_of_table_entries_are_what_the_models_say(seed):
    """The search adds up parts; here every configuration goes through the models whole."""
    model, machine, devices, batches, _, _ = small_problem(seed)
    options, bounds = Options(), Bounds(context=4, schedules=SCHEDULES)
    layouts = Layouts(model, np.array(devices), np.array(batches), 4, bounds)
    problem = Problem.of(model, machine, Precision())
    found = tables(problem, layouts, options)
    for tile, true in tiles(iter(layouts), 1024):
        with jax.enable_x64(True):
            seconds, held = (np.asarray(part) for part in all_scores(entries(found, tile)))
        place = np.arange(seconds.shape[1])
        rows = np.repeat(tile[: len(AXES)], len(place), axis=1)
        chosen = np.tile(np.stack(options.each(place)), tile.shape[1])
        whole = dict(zip((*AXES, *brute.OPTIONS), [*rows, *chosen], strict=True))
        columns = np.stack([whole[name] for name in brute.COLUMNS], axis=1)
        expected = brute.evaluated(machine, model, columns.astype(float))
        # Parts are told from each other by differences, which costs some of the 16 digits.
        np.testing.assert_allclose(seconds.ravel(), expected[0], rtol=1e-11)
        new = np.isfinite(held.ravel())
        np.testing.assert_allclose(held.ravel()[new], expected[1][new], rtol=1e-11)
        assert true
        break


def every(seed, **more: Any):
    """A whole search with little in its way, and all that fits by brute force."""
    model, machine, devices, batches, drawn, critical = small_problem(seed)
    wishes: dict[str, Any] = (
        drawn | {"memory": 20 * GB, "budget": math.inf, "deadline": math.inf} | more
    )
    found = planned(model, machine, devices, batches, wishes, critical)
    told = wishes["context"], wishes["zero_bubble"]
    splits = brute.splits(model, devices, batches, machine.node_size, *told)
    seconds, held = brute.evaluated(machine, model, splits)
    frame = pd.DataFrame(splits, columns=brute.COLUMNS).assign(held=held)
    frame["devices"] = frame[["data", "context", "tensor", "pipeline"]].prod(axis=1)
    batch = frame[["data", "micro_batch", "accumulation"]].prod(axis=1)
    frame["time"] = seconds * (SAMPLES / batch + SAMPLES / critical)
    frame["cost"] = wishes["price"] * frame["devices"] * frame["time"]
    return found, frame[held <= wishes["memory"]]


@pytest.mark.parametrize("seed", [5, 6])
def test_the_list_is_the_best_of_each_layout(seed):
    found, fitting = every(seed, objective="cost")
    listed = found.table(1000)
    assert listed["cost"].is_monotonic_increasing
    assert not listed.duplicated(list(AXES)).any()
    best = np.sort(fitting.groupby(list(AXES))["cost"].min().to_numpy())
    np.testing.assert_allclose(listed["cost"], best[: len(listed)], rtol=1e-12)


@pytest.mark.parametrize("seed", [1, 5, 6])
def test_the_front_is_what_nothing_beats(seed):
    found, fitting = every(seed)
    points = np.unique(fitting[["time", "held", "devices"]].to_numpy().round(9), axis=0)
    beaten = [
        np.any(np.all(points <= point, axis=1) & np.any(points < point, axis=1)) for point in points
    ]
    expected = points[~np.array(beaten)]
    listed = found.pareto()[["time_s", "memory_bytes", "devices"]].to_numpy(float)
    assert len(listed) == len(expected)
    np.testing.assert_allclose(listed[np.lexsort(listed.T[::-1])], expected, rtol=1e-9)


def gpt(**changes):
    sizes: dict[str, Any] = {"hidden": 2048, "layers": 24, "heads": 16, "seq_len": 1024}
    sizes |= {"vocab": 51200}
    return Transformer(**(sizes | changes))


COMMON: dict[str, Any] = {
    "devices": 64,
    "global_batch": 256,
    "memory": 40 * GB,
    "price": 2 / hour,
    "tokens": 1e10,
}


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


ODD: dict[str, Any] = {"devices": [7, 13]}


def test_devices_over_which_nothing_splits_are_named():
    text = plan(gpt(), MACHINE, **COMMON | ODD).explain()
    assert "cannot be split evenly over 7, 13 devices" in text
    assert "Numbers of devices that would do: 3, 4, 6, 8, 12, 16" in text


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
