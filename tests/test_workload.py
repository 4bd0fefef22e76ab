"""Work that is no transformer: its plans against brute force, and what must hold of any of them."""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import workload as brute

import scaleopt as so
from scaleopt.fitting.propagate import drawn_points
from scaleopt.models.data_parallel import DataParallel, DataSplit
from scaleopt.models.halo import Blocks, Halo
from scaleopt.models.machine import Machine
from scaleopt.models.sharded_matmul import MatmulGrid, ShardedMatmul
from scaleopt.models.workload import DeviceWork, Message, plain_flops
from scaleopt.models.workload_time import step_terms, workload_time
from scaleopt.planning.plan import plan
from scaleopt.planning.telling.limits import infeasible
from scaleopt.units import GB, MB, hour

FREE = Machine(rate=1e14, bandwidth=math.inf, alpha=0.0, beta=0.0)
"""A machine on which only compute takes time."""
NETWORK = DataParallel(
    sample_flops=24.6e9, gradient_bytes=102 * MB, state_bytes=409 * MB, activation_bytes=90 * MB
)
STEP = so.StepTime(rate=1e14, alpha=1e-5, beta=1 / 20e9, serial_time=0.01)


def machine_of(draw):
    scale = np.exp(draw.normal(0, 1, 8))
    found: dict[str, Any] = {
        "rate": 1e14 * scale[0],
        "bandwidth": 1.5e12 * scale[1],
        "alpha": 8e-6 * scale[2],
        "beta": 5e-12 * scale[3],
        "network_alpha": 2e-5 * scale[4],
        "network_beta": 5e-11 * scale[5],
        "grain": 60.0 * scale[6],
        "step_overhead": 1e-4 * scale[7],
        "micro_batch_overhead": 1e-4,
        "overlap": float(draw.choice([0.0, 0.5])),
        "node_size": int(draw.choice([2, 4])),
    }
    return found


def data_parallel_of(draw):
    scale = np.exp(draw.normal(0, 1, 6))
    sizes: dict[str, Any] = {
        "sample_flops": 1e11 * scale[0],
        "gradient_bytes": 1e8 * scale[1],
        "state_bytes": 5e8 * scale[2],
        "weight_bytes": 1e8 * scale[3],
        "activation_bytes": 1e8 * scale[4],
        "moved_bytes": 1e8 * scale[5],
        "half_batch": float(draw.choice([0.0, 4.0])),
    }
    return DataParallel(**sizes), sizes, np.unique(draw.choice([4, 6, 8, 12, 24, 48], 3)).tolist()


def halo_of(draw):
    scale = np.exp(draw.normal(0, 1, 3))
    sizes: dict[str, Any] = {
        "grid": tuple(int(side) for side in draw.choice([5, 12, 32, 48, 100], 3)),
        "cell_flops": 1e6 * scale[0],
        "cell_bytes": 1e4 * scale[1],
        "sent_bytes": 1e3 * scale[2],
        "moved_bytes": float(draw.choice([0.0, 1e4])),
        "width": int(draw.choice([1, 2, 3])),
        "exchanges": int(draw.choice([1, 3])),
        "reductions": int(draw.choice([0, 2])),
        "periodic": bool(draw.choice([False, True])),
    }
    return Halo(**sizes), sizes, [None]


def matmul_of(draw):
    m, k, n = (int(side) for side in draw.choice([192, 480, 960, 4096, 16384], 3))
    sizes: dict[str, Any] = {"m": m, "k": k, "n": n, "item_bytes": float(draw.choice([2.0, 4.0]))}
    return ShardedMatmul(**sizes), sizes, [None]


KINDS = {
    "data parallel": (data_parallel_of, brute.data_parallel),
    "halo": (halo_of, brute.halo),
    "matmul": (matmul_of, brute.matmul),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_plan_equals_brute_force(kind):
    made, split = KINDS[kind]
    nothing = 0
    for seed in range(40):
        draw = np.random.default_rng(seed)
        work, sizes, batches = made(draw)
        machine = machine_of(draw)
        devices = np.unique(draw.choice(np.arange(1, 25), int(draw.integers(1, 8)))).tolist()
        # Limits about what a middling split takes, so that about every fourth bites.
        tried = [it for n in devices for b in batches for it in split(sizes, machine, n, b)]
        seconds, held, _ = np.median(tried, axis=0) if tried else (1.0, 1e9, 1)
        samples = 20_000.0 if batches[0] else None
        length = 100 if samples is None else samples / np.median(batches)
        limits: dict[str, float] = {
            "deadline": float(draw.choice([math.inf, length * seconds * draw.lognormal(0, 0.7)])),
            "budget": float(draw.choice([math.inf, length * seconds * draw.lognormal(2, 1)])),
        }
        wishes: dict[str, Any] = {
            "memory": max(float(held * draw.lognormal(0.3, 0.7)), MB),
            "price": 1.0,
            "objective": str(draw.choice(["time", "cost", "cost_time", "devices"])),
            "samples": samples,
            "steps": None if samples else 100.0,
        }
        kept: dict[str, Any] = {name: value for name, value in limits.items() if value < math.inf}
        batch = None if batches[0] is None else batches
        found = plan(
            work,
            Machine(**machine),
            devices=devices,
            global_batch=batch,
            reserve=0.0,
            **wishes,
            **kept,
        )
        least, count = brute.best(split, sizes, machine, devices, batches, **wishes, **limits)
        assert found.configurations == count, seed
        best, value = found.best, math.inf
        if best is not None:
            value = {
                "time": best.time,
                "cost": best.cost,
                "cost_time": best.cost * best.time,
                "devices": best.devices,
            }[wishes["objective"]]
        # The same formulas in another order of roundings.
        assert value == pytest.approx(least, rel=1e-10), seed
        nothing += least == math.inf
    assert 3 < nothing < 30  # the limits bite, and not always


@pytest.mark.parametrize(
    ("work", "split"),
    [
        (NETWORK, DataSplit(micro_batch=32)),
        (Halo((64, 64, 64), 1e3, 1e2, 40.0, exchanges=3, reductions=2), Blocks()),
        (ShardedMatmul(m=4096, k=4096, n=4096), MatmulGrid()),
    ],
    ids=KINDS,
)
def test_one_device_sends_nothing(work, split):
    machine = Machine(rate=1e14, bandwidth=1e12, alpha=1.0, beta=1.0)
    terms = step_terms(machine, work.work(split))
    waits = {name: float(s) for name, s in terms.items() if name not in ("compute", "memory")}
    assert set(waits.values()) == {0.0}
    assert float(terms["compute"]) > 0


@pytest.mark.parametrize("devices", [2, 8, 64])
@pytest.mark.parametrize(
    ("work", "batch"),
    [
        (NETWORK, 4096),
        (Halo((64, 64, 64), 1e3, 1e2, 40.0, exchanges=3, reductions=2), None),
        (ShardedMatmul(m=4096, k=4096, n=4096), None),
    ],
    ids=KINDS,
)
def test_with_free_messages_the_speed_up_is_linear(work, batch, devices):
    alone, many = (
        plan(work, FREE, devices=[n], memory=1e15, global_batch=batch) for n in (1, devices)
    )
    assert alone.best is not None
    assert many.best is not None
    assert alone.best.step_time / many.best.step_time == pytest.approx(devices, rel=1e-9)
    assert many.best.mfu == pytest.approx(1.0)


@given(st.integers(1, 8), st.integers(1, 3), st.integers(6, 40))
@settings(max_examples=8)
def test_faces_go_with_the_surface(cut, width, side):
    """Blocks that are cubes send what the formula of cubes says, strong and weak."""
    machine = Machine(rate=1e30, bandwidth=1e30, alpha=1e-6, beta=1e-10)
    wide = Machine(**(vars(machine) | {"node_size": 1000}))
    cells, count = float((cut * side) ** 3), float(cut**3)
    expected = float(so.halo_time(cells, count, 40.0, 1e-6, 1e-10, width=float(width)))
    strong = Halo((cut * side,) * 3, 1.0, 8.0, 40.0, width=width)
    weak = Halo((side,) * 3, 1.0, 8.0, 40.0, width=width, weak=True)
    for halo in (strong, weak):
        terms = step_terms(wide, halo.work(Blocks(cut, cut, cut)))
        assert float(terms["halo"]) == pytest.approx(expected, rel=1e-5)
        assert float(halo.samples(Blocks(cut, cut, cut))) == pytest.approx(cells)


@given(st.tuples(*[st.integers(1, 4)] * 3), st.tuples(*[st.integers(6, 13)] * 3), st.booleans())
@settings(max_examples=30)
def test_the_halo_is_what_a_block_needs_of_others(cuts, grid, periodic):
    """Counted on a real grid whose cells know their block."""
    halo = Halo(grid, 1.0, 1.0, 1.0, periodic=periodic)
    if Blocks(*cuts) not in list(halo.splits(math.prod(cuts), None, 8)):
        return
    places = [np.arange(side) // -(-side // cut) for side, cut in zip(grid, cuts, strict=True)]
    owner = np.stack(np.meshgrid(*places, indexing="ij"))
    middle = tuple(1 if cut > 2 else 0 for cut in cuts)
    mine = (owner == np.reshape(middle, (3, 1, 1, 1))).all(axis=0)
    needed = []
    for axis in range(3):
        count = 0
        for step in (-1, 1):
            beside = np.roll(mine, step, axis)
            if not periodic:  # what came around the end did not
                edge: list[Any] = [slice(None)] * 3
                edge[axis] = 0 if step == 1 else -1
                beside[tuple(edge)] = False
            count += int((beside & ~mine).sum())
        needed.append(count)
    sent = [float(m.times * m.size) for m in halo.work(Blocks(*cuts)).messages["halo"]]
    assert sent == needed
    assert int(mine.sum()) == math.prod(int(side) for side in halo.block(Blocks(*cuts)))


def test_a_weak_grid_takes_as_long_but_for_its_messages():
    halo = Halo((64, 64, 64), 1e5, 1e2, 40.0, weak=True)
    machine = Machine(rate=1e14, bandwidth=1e12, alpha=1e-6, beta=1e-10)
    found = plan(halo, machine, devices=64, memory=80 * GB, samples=1e9)
    assert found.best is not None
    assert found.best.devices == 64  # more cells a second, so sooner done
    assert found.best.global_batch == 64 * 64**3
    terms, _ = found.searched[0].breakdown(found.best)
    alone = float(workload_time(machine, halo, Blocks()))
    assert found.best.step_time - terms["halo"] == pytest.approx(alone, rel=1e-5)


def test_a_weak_grid_grows_alike_along_its_sides():
    halo = Halo((8, 8, 8), 1.0, 1.0, 1.0, weak=True)
    assert list(halo.splits(64, None, 8)) == [(4, 4, 4)]
    assert {tuple(sorted(cut)) for cut in halo.splits(24, None, 8)} == {(2, 3, 4)}
    assert not list(halo.splits(5, None, 8))  # 1 × 1 × 5 is more than twice as far


def test_a_plain_step_is_that_of_a_step_time():
    found = plan(NETWORK, STEP, devices=[16], memory=40 * GB, global_batch=1024)
    assert found.best is not None
    expected = float(STEP(16, 1024 * 24.6e9, 102 * MB))
    assert found.best.step_time == pytest.approx(expected, rel=1e-5)  # float32 here


def test_messages_of_ones_own_are_paid_for():
    each = DataParallel(
        sample_flops=1e9,
        gradient_bytes=1e6,
        state_bytes=1e6,
        messages=(Message("all_reduce", 1e5, times=2),),
        sample_messages=(Message("all_to_all", 1e4),),
    )
    terms = step_terms(STEP, each.work(DataSplit(data=8, micro_batch=16, accumulation=4)))
    links = STEP.alpha, STEP.beta
    expected = 8 * so.all_reduce_time(1e5, 8, *links)
    expected += 4 * so.all_to_all_time(1e4 * 8 * 16, 8, *links)
    assert float(terms["messages"]) == pytest.approx(float(expected), rel=1e-5)


def test_sharded_states_fit_where_whole_ones_do_not():
    large = DataParallel(sample_flops=1e12, gradient_bytes=14 * GB, state_bytes=112 * GB)
    machine = Machine(rate=1e14, bandwidth=1e12, alpha=1e-5, beta=1e-11)
    found = plan(large, machine, devices=64, memory=40 * GB, global_batch=64)
    assert found.best is not None
    assert found.best.split.sharded == 1
    assert found.best.memory <= 0.8 * 40 * GB


@pytest.mark.parametrize("limit", ["budget", "deadline", "memory", "min_mfu", "min_efficiency"])
def test_the_smallest_relaxation_would_do_and_less_would_not(limit):
    common: dict[str, Any] = {
        "devices": 64,
        "memory": 40 * GB,
        "price": 2 / hour,
        "global_batch": 256,
        "samples": 1e7,
    }
    tight = {"budget": 1e-3, "deadline": 10.0, "memory": 0.1 * GB, "min_mfu": 0.999}
    wishes: dict[str, Any] = common | {limit: tight.get(limit, 1.0)}
    free = plan(NETWORK, STEP, **common)
    assert free.best is not None
    if limit == "min_efficiency":
        wishes["deadline"] = 1.01 * free.best.time
    found = plan(NETWORK, STEP, **wishes)
    assert found.best is None
    needed = infeasible(found.searched).relaxed[limit]
    better = 1 + 1e-9 if not limit.startswith("min_") else 1 - 1e-9
    wishes[limit] = needed * better
    assert plan(NETWORK, STEP, **wishes).best is not None
    wishes[limit] = needed * (2 - better) ** 1000
    assert plan(NETWORK, STEP, **wishes).best is None
    assert "What would do" in found.explain()


def test_what_is_said_adds_up():
    machine = Machine(rate=1e14, bandwidth=1e12, alpha=1e-5, beta=1e-11, network_beta=1e-10)
    wishes: dict[str, Any] = {"devices": 64, "memory": 40 * GB, "price": 2 / hour}
    found = plan(NETWORK, machine, objective="cost", global_batch=[256, 512], samples=1e6, **wishes)
    assert found.best is not None
    terms, memory = found.searched[0].breakdown(found.best)
    assert sum(terms.values()) == pytest.approx(found.best.step_time)
    assert sum(memory.values()) == pytest.approx(found.best.memory)
    text = found.explain()
    assert "gradients" in text
    assert "What nearly was:" in text
    front = found.pareto()
    table = found.table(10**6)
    beaten = [
        (
            (table["time_s"] <= row.time_s)
            & (table["cost"] <= row.cost)
            & (table["memory_bytes"] <= row.memory_bytes)
            & (table["devices"] <= row.devices)
            & (
                (table["time_s"] < row.time_s)
                | (table["cost"] < row.cost)
                | (table["memory_bytes"] < row.memory_bytes)
                | (table["devices"] < row.devices)
            )
        ).any()
        for row in front.itertuples()
    ]
    assert len(front) > 5
    assert not any(beaten)


@pytest.fixture(scope="module")
def fit():
    """A step time fitted to 36 steps on up to 8 devices, with 3 % noise."""
    draw = np.random.default_rng(0)
    each = [(n, n * b * 24.6e9, 102 * MB) for n in (1, 2, 4, 8) for b in (8, 32, 128)]
    rows = pd.DataFrame(each * 3, columns=["devices", "flops", "size_bytes"]).assign(op="step")
    rows["time_s"] = [float(STEP(*row)) * np.exp(draw.normal(0, 0.03)) for row in each * 3]
    return so.calibrate(rows)


def test_a_plan_on_a_fit_says_how_sure_it_is(fit):
    wishes: dict[str, Any] = {"memory": 40 * GB, "global_batch": 2048, "price": 2 / hour}
    wishes |= {"steps": 1000, "objective": "cost"}
    found = plan(NETWORK, fit, devices=128, deadline=40.0, draws=16, **wishes)
    truly = plan(NETWORK, STEP, devices=128, deadline=40.0, **wishes)
    assert found.best is not None
    assert truly.best is not None
    sure = found.certainty
    assert sure is not None
    truth = 1000 * float(STEP(found.best.devices, 2048 * 24.6e9, 102 * MB))
    assert sure.time[0] < truth < sure.time[1]
    assert sure.time[0] < found.best.time < sure.time[1]
    odds = [candidate.probability for candidate in sure.candidates]
    assert odds == sorted(odds, reverse=True)
    assert 0 < sum(odds) <= 1 + 1e-9
    assert 0 <= sure.kept["deadline"] <= 1
    assert "devices" in found.explain().split("Beyond what was measured:")[1]
    assert "How sure:" in found.explain()
    # The regret against whole plans on the machines that are drawn, where it keeps the deadline.
    with jax.enable_x64(True):
        points = drawn_points(fit, 16)
        values = [np.asarray(points._replace(u=u).values()) for u in np.asarray(points.u)]
        drawn = [jax.tree.map(float, fit.parameters.model(value)) for value in values]
    regrets = []
    for machine in drawn:
        whole = plan(NETWORK, machine, devices=128, deadline=40.0, **wishes)
        ours = plan(NETWORK, machine, devices=[found.best.devices], **wishes)
        assert ours.best is not None
        if ours.best.time > 40:
            continue  # it breaks the deadline, and that is counted in `kept`
        best = whole.best.cost if whole.best is not None else ours.best.cost
        regrets.append(max(ours.best.cost / best - 1, 0))
    assert sure.regret == pytest.approx(np.mean(regrets), abs=1e-4)


def test_work_far_from_what_was_fitted_is_said(fit):
    wishes: dict[str, Any] = {"memory": 800 * GB, "devices": 8, "draws": 16}
    near = plan(NETWORK, fit, global_batch=1024, **wishes).explain()
    assert "FLOP a device and step" not in near
    large = replace(NETWORK, gradient_bytes=1 * GB, moved_bytes=1 * MB)
    far = plan(large, fit, global_batch=8 * 1024, **wishes).explain()
    said = far.split("Beyond what was measured:")[1].split("How sure:")[0]
    # The largest of the steps has 128 samples on each device.
    assert "25.2 TFLOP a device and step: at most 3.15 TFLOP in the rows fitted" in said
    assert "1 GB in a message: at most 102 MB in the rows fitted" in said
    assert "steps tell no memory bandwidth" in said


def test_text_is_refused_where_it_enters():
    wrong: dict[str, Any] = {"m": "1024", "k": 8, "n": 8}
    with pytest.raises(TypeError, match="ShardedMatmul: m is '1024'; give a number in SI"):
        ShardedMatmul(**wrong)
    sizes: list[Any] = [1e6, 8.0, 8.0]
    for grid, says in ((1024, "grid is 1024; give its sides"), (("9",), "a side of '9' cells")):
        wrong = {"grid": grid}
        with pytest.raises(TypeError, match=says):
            Halo(wrong["grid"], *sizes)
    wrong = {"rate": "160 TFLOP/s", "bandwidth": 1e12, "alpha": 0.0, "beta": 0.0}
    with pytest.raises(TypeError, match="Machine: rate is '160 TFLOP/s'; give a number in SI"):
        Machine(**wrong)
    with pytest.raises(TypeError, match="sample_flops is '24 GFLOP'; give a number in SI"):
        so.DataParallel(
            sample_flops="24 GFLOP",  # pyright: ignore[reportArgumentType]
            gradient_bytes=1.0,
            state_bytes=1.0,
        )


def test_a_fit_that_does_not_tell_what_a_plan_needs_is_refused():
    reduced = [(n, m, 1e-5 * n + m / 1e11) for n in (2, 4, 8) for m in (1e3, 1e6, 1e9)]
    table = pd.DataFrame(reduced, columns=["devices", "size_bytes", "time_s"])
    links = so.calibrate(table.assign(op="all_reduce"))
    says = r"rows do not tell rate, which a plan rests on.*Time matmuls, or steps"
    with pytest.raises(ValueError, match=says):
        plan(NETWORK, links, devices=1, memory=40 * GB, global_batch=256)
    alone = [(w, w / 1e14 + 1e-3) for w in (1e12, 1e13, 1e14)]
    table = pd.DataFrame(alone, columns=["flops", "time_s"]).assign(op="step", devices=1)
    chip = so.calibrate(table)
    with pytest.raises(ValueError, match=r"rows do not tell alpha and beta.*Time all-reduces"):
        plan(NETWORK, chip, devices=2, memory=40 * GB, global_batch=256)
    # On one device there is nobody to send to.
    assert plan(NETWORK, chip, devices=1, memory=40 * GB, global_batch=256).best is not None


def test_devices_over_which_nothing_splits_are_named():
    found = plan(Halo((8, 1, 1), 1.0, 1.0, 1.0), FREE, devices=[7, 13], memory=1e9)
    assert found.best is None
    text = found.explain()
    assert "cannot be split evenly over 7, 13 devices" in text
    assert "Numbers of devices that would do: 1, 2, 3, 4, 8" in text


class Sweep(NamedTuple):
    """Runs that have nothing to do with each other, as a user would write it."""

    runs: float
    sample_flops: float

    class Split(NamedTuple):
        devices: Any

        @property
        def kind(self):
            return (self.devices,)

        def __str__(self):
            return f"{self.devices} at once"

    def splits(self, devices, samples, node_size):
        yield self.Split(devices)

    def samples(self, split):
        return self.runs

    def work(self, split):
        each = jnp.ceil(self.runs / split.devices)
        return DeviceWork(split.devices, (plain_flops(each * self.sample_flops),))

    def memory(self, split):
        return {"run": 1e9 + 0 * split.devices}


def test_work_of_ones_own_is_planned():
    found = plan(Sweep(100.0, 1e15), FREE, devices=60, memory=80 * GB, objective="cost", price=1.0)
    assert found.best is not None
    assert 100 % found.best.devices == 0  # no device ever waits
    assert found.best.cost == pytest.approx(1000.0)
    assert f"{found.best.devices} at once" in found.explain()


COMMON: dict[str, Any] = {"devices": 8, "memory": 40 * GB}
WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (NETWORK, {}, "global_batch is needed: the samples of a step"),
    (NETWORK, {"global_batch": 8, "tokens": 1e9}, "tokens is of a Transformer, not of a Data"),
    (NETWORK, {"global_batch": 8, "zero": (1,)}, "zero is of a Transformer"),
    (NETWORK, {"global_batch": [8, 16]}, "2 global batches can be compared by the run"),
    (Halo((8, 8), 1.0, 1.0, 1.0), {"global_batch": 8}, "updates the cells of its grid; leave it"),
    (ShardedMatmul(m=8, k=8, n=8), {"global_batch": 8}, "a product has no samples"),
]


@pytest.mark.parametrize(("work", "wrong", "says"), WRONG, ids=[says for *_, says in WRONG])
def test_a_wrong_wish_is_refused_with_a_sentence(work, wrong, says):
    with pytest.raises(ValueError, match=says):
        plan(work, FREE, **COMMON | wrong)


def test_a_wrong_workload_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match="sample_flops is 0; it must be above 0"):
        DataParallel(sample_flops=0, gradient_bytes=1.0, state_bytes=1.0)
    with pytest.raises(ValueError, match=r"state_bytes is -1\.0; it must be 0 or more"):
        DataParallel(sample_flops=1.0, gradient_bytes=1.0, state_bytes=-1.0)
    with pytest.raises(ValueError, match="grid has 4 sides; give one, two or three"):
        Halo((2, 2, 2, 2), 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match=r"a side of 2\.5 cells"):
        Halo((2.5,), 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="k is 0; it must be a whole number above 0"):
        ShardedMatmul(m=1, k=0, n=1)
    gpt = so.Transformer(hidden=64, layers=1, heads=1, seq_len=8, vocab=8)
    with pytest.raises(TypeError, match="planned on a Machine or a fit of one, not on a StepTime"):
        plan(gpt, STEP, global_batch=8, **COMMON)
