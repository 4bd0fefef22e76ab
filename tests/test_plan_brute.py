"""The planner's search against brute force."""

import math
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from oracles import planner as brute

from scaleopt.models.machine import Machine
from scaleopt.models.memory import Precision
from scaleopt.models.transformer import Transformer
from scaleopt.planning.plan import plan
from scaleopt.planning.searching.entries import entries
from scaleopt.planning.searching.layouts import AXES, SCHEDULES, Bounds, Layouts, tiles
from scaleopt.planning.searching.options import Options
from scaleopt.planning.searching.search import all_scores
from scaleopt.planning.searching.tables import Problem, tables
from scaleopt.units import GB, hour

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
