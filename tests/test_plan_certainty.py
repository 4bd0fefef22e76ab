"""How sure a plan on a fit is: against whole plans on the machines that are drawn."""

from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest

import scaleopt as so
from scaleopt.fitting.propagate import drawn_points
from scaleopt.models.machine import Machine
from scaleopt.models.parallelism import Parallelism
from scaleopt.models.transformer import Transformer
from scaleopt.models.zero import zero_terms
from scaleopt.planning.certainty import certainty
from scaleopt.planning.plan import plan
from scaleopt.units import GB, hour

TRUTH = Machine(
    rate=240e12,
    bandwidth=1.6e12,
    alpha=1e-5,
    beta=1 / 200e9,
    network_alpha=2e-5,
    network_beta=1 / 20e9,
    grain=60.0,
    kernel=3e-5,
    host=3e-4,
    micro_batch_overhead=1e-3,
    step_overhead=0.02,
)
GPT = Transformer(hidden=2048, layers=24, heads=16, seq_len=1024, vocab=51200)
RUN: dict[str, Any] = {
    "devices": 32,
    "global_batch": 256,
    "memory": 40 * GB,
    "price": 2 / hour,
    "tokens": 1e10,
}


@pytest.fixture(scope="module")
def fit():
    """A machine fitted to thirty runs of three models on up to 16 devices, with 3 % noise."""
    draw = np.random.default_rng(0)
    rows = []
    for _ in range(30):
        hidden, layers = draw.choice([(1024, 12), (2048, 24), (3072, 16)])
        tensor, pipeline, data = (int(n) for n in draw.choice([1, 2, 4], 3))
        if tensor * pipeline * data > 16:
            data = 1
        row = {
            "hidden": int(hidden),
            "heads": 16,
            "layers": int(layers),
            "seq_len": 1024,
            "vocab": 51200,
            "tensor": tensor,
            "pipeline": pipeline,
            "data": data,
            "devices": tensor * pipeline * data,
            "micro_batch": int(draw.choice([1, 2, 4])),
            "global_batch": 64,
            "recompute": str(draw.choice(["none", "full"])),
        }
        sizes = {name: row[name] for name in ("hidden", "heads", "layers", "seq_len", "vocab")}
        axes = {name: row[name] for name in ("data", "tensor", "pipeline", "micro_batch")}
        split = Parallelism(
            **axes,
            accumulation=64 // (data * row["micro_batch"]),
            recompute=row["recompute"],
        )
        time = float(TRUTH(Transformer(**sizes), split)) * np.exp(draw.normal(0, 0.03))
        rows.append(row | {"op": "train_step", "time_s": time})
    return so.calibrate(pd.DataFrame(rows))


@pytest.fixture(scope="module")
def found(fit):
    return plan(GPT, fit, deadline=48 * hour, **RUN)


_seconds = jax.jit(lambda *run: zero_terms(*run).total)


def seconds_on(machine, best):
    """Of a step on a machine, as the models say."""
    with jax.enable_x64(True):
        split = jax.tree.map(float, best.split)
        return float(_seconds(machine, jax.tree.map(float, GPT), split, float(best.zero)))


def test_the_choice_is_near_the_true_best(found):
    truly = plan(GPT, TRUTH, deadline=48 * hour, **RUN)
    assert found.best is not None
    assert truly.best is not None
    truth = seconds_on(TRUTH, found.best)
    assert truth / truly.best.step_time - 1 < 0.05
    assert found.certainty is not None
    low, high = found.certainty.time
    assert low < found.best.time < high
    assert low < truth * found.best.steps < high


def test_odds_are_odds(found):
    sure = found.certainty
    assert sure is not None
    odds = [candidate.probability for candidate in sure.candidates]
    assert odds == sorted(odds, reverse=True)
    assert 0 < sum(odds) <= 1 + 1e-9
    assert 0 <= sure.best <= max(odds)
    assert sure.regret >= 0
    assert 0 <= sure.kept["deadline"] <= 1
    assert "How sure:" in found.explain()


def test_the_list_holds_what_a_whole_plan_finds_on_drawn_machines(fit, found):
    """Regret and odds come from the best layouts by the fit; here nothing is left out."""
    draws = 5
    sure = certainty(fit, found.searched[0], found.best, draws=draws, level=0.9)
    with jax.enable_x64(True):
        points = drawn_points(fit, draws)
        values = [np.asarray(points._replace(u=u).values()) for u in np.asarray(points.u)]
    regrets = []
    for drawn in values:
        machine = jax.tree.map(float, fit.parameters.model(drawn))
        whole = plan(GPT, machine, **RUN)
        assert whole.best is not None
        regrets.append(seconds_on(machine, found.best) / whole.best.step_time - 1)
    assert min(regrets) > -1e-9
    assert sure.regret == pytest.approx(np.mean(regrets), abs=1e-4)


def test_where_it_leaves_what_was_measured_is_said(found):
    text = found.explain()
    assert "Beyond what was measured:" in text
    assert "devices 32: at most 16 in the rows fitted" in text
