"""The planner against brute force, and what must hold of any plan."""

import math
from typing import Any

import numpy as np
import pytest
from oracles import planner as brute

from scaleopt.models.machine import Machine
from scaleopt.models.transformer import Transformer
from scaleopt.planning.plan import plan
from scaleopt.units import GB, TFLOP, hour, us

MACHINE = Machine(
    rate=250 * TFLOP,
    bandwidth=1500 * GB,
    alpha=8 * us,
    beta=1 / (200 * GB),
    network_alpha=20 * us,
    network_beta=1 / (20 * GB),
    grain=60.0,
    kernel=100 * us,
    host=500 * us,
    micro_batch_overhead=1000 * us,
    step_overhead=0.01,
    node_size=4,
)


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
    return model, machine, devices, batches, wishes, critical


SAMPLES = 20_000


def planned(model, machine, devices, batches, wishes, critical, **more):
    limits = {name: wishes[name] for name in ("budget", "deadline") if wishes[name] < math.inf}
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


def test_the_order_in_which_choices_are_given_changes_nothing():
    model, machine, *_ = small_problem(3)
    shuffled: dict[str, Any] = {
        "devices": [16, 4, 8, 4],
        "global_batch": [32, 8],
        "recompute": ("full", "none", "selective"),
        "zero": (3, 1, 0, 2),
        "sequence_parallel": (True, False),
    }
    ordered: dict[str, Any] = {"devices": [4, 8, 16], "global_batch": [8, 32]}
    common: dict[str, Any] = {"memory": 4 * GB, "tokens": 1e8}
    one, other = (plan(model, machine, **common, **choices) for choices in (ordered, shuffled))
    assert one.best is not None
    assert other.best is not None
    assert one.best.row() == other.best.row()
