"""A machine from the step times of training runs: published ones, and what is refused."""

import dataclasses
import itertools
import os
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from simulated_machine import MACHINE, training_runs

import scaleopt as so
from scaleopt.data.catalog import catalog_names
from scaleopt.fitting.train_step import fit_train_steps
from scaleopt.fitting.train_step_likeness import SCALES, SHAPE, SPLIT, Alike, Misses
from scaleopt.fitting.train_step_priors import PRIORS
from scaleopt.planning.telling.extrapolation import extrapolations

FOLDER = Path(os.environ.get("SCALEOPT_DATA", Path(__file__).parents[2] / "shared" / "data"))
RUN = {"hidden": 1024, "heads": 16, "layers": 12, "seq_len": 1024, "global_batch": 8}
ROWS = pd.DataFrame({"op": "train_step", "devices": 1, "time_s": [1.0, 2.0], **RUN})
ROWS["layers"] = [12, 24]
FEW_AND_OTHERS = slice(20), slice(20, None)
AXES = {"tp": "tensor", "dp": "data", "pp": "pipeline", "num_gpus": "devices"}


def one_node():
    path = FOLDER / "shard_vtrain_singlenode_a100_1-8gpus.half.csv"
    if not path.exists():
        pytest.skip(f"needs {path.name}; set SCALEOPT_DATA to its folder")
    rows = pd.read_csv(path, comment="#").rename(columns=AXES)
    time = rows["iter_time_ms"] / 1e3
    return rows.assign(op="train_step", time_s=time, recompute="full", nodes=1)


def large():
    path = FOLDER / "shard_vtrain_multinode_a100_64-512gpus.half.csv"
    rows = pd.read_csv(path, comment="#").rename(columns=AXES)
    return rows.assign(op="train_step", time_s=rows["iter_time_ms"] / 1e3, recompute="full")


def megatron():
    path = FOLDER / "shard_korthikanti_selene_8-512gpus.csv"
    if not path.exists():
        pytest.skip(f"needs {path.name}; set SCALEOPT_DATA to its folder")
    names = AXES | {"batch": "global_batch", "iter_time_s": "time_s"}
    rows = pd.read_csv(path, comment="#").rename(columns=names).assign(op="train_step")
    rows["sequence_parallel"] = 1.0 * (rows["recompute"] == "seqsel")
    return rows.assign(recompute=rows["recompute"].replace("seqsel", "selective"))


def misses(fit, rows):
    found, time = fit.predict(rows, level=0.9), rows["time_s"].to_numpy()
    within = (found.low <= time) & (time <= found.high)
    return np.abs(found.time / time - 1), np.mean(within)


def test_fifty_runs_of_one_node_tell_of_the_others():
    rows = one_node()
    order = np.random.default_rng(0).permutation(len(rows))
    fit = so.calibrate(rows.iloc[order[:50]])
    found, within = misses(fit, rows.iloc[order[50:]])
    # 3.1 % mean, 1.9 % median and 91 % covered were found; the room is for another order of sums.
    assert np.mean(found) < 0.035
    assert np.median(found) < 0.022
    assert 0.85 < within < 0.96
    assert any("network_beta" in sentence for sentence in fit.unidentified)
    assert fit.provenance["network_beta"] == "assumed"
    assert fit.provenance["rate"] == "fitted"


def test_runs_of_8_and_64_devices_tell_of_280_and_512():
    rows = megatron()
    fit = so.calibrate(rows[rows["devices"] <= 64])
    found, within = misses(fit, rows[rows["devices"] > 64])
    assert np.mean(found) < 0.02
    assert np.max(found) < 0.04
    assert within == 1


def test_large_runs_are_told_by_small_ones_and_a_few_of_their_own():
    small, rows = one_node(), large()
    draw = np.random.default_rng(0)
    few, order = draw.permutation(len(small))[:50], draw.permutation(len(rows))
    fit = so.calibrate(pd.concat([small.iloc[few], rows.iloc[order[:20]]], ignore_index=True))
    found, within = misses(fit, rows.iloc[order[20:]])
    # 7.0 % mean and 3.6 % median were found: one run in ten is much slower than its neighbours.
    assert np.mean(found) < 0.085
    assert np.median(found) < 0.04
    assert within > 0.85


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"tensor": 2}, "row 0: data · tensor · pipeline · context is not devices"),
        ({"micro_batch": 3}, "row 0: data · micro_batch does not divide global_batch"),
        ({"recompute": "half"}, "recompute is 'half'; write one of none, selective, full"),
        ({"hidden": np.nan}, "row 0: hidden is nan"),
        ({"active_experts": 2}, "row 0: active_experts is above experts"),
        ({"experts": 0, "active_experts": 0}, "row 0: experts is no whole number above 0"),
        ({"expert": 0}, "row 0: expert is no whole number above 0"),
        ({"experts": 6, "expert": 4}, "row 0: expert does not divide experts"),
        ({"experts": 8, "expert": 4}, "row 0: expert does not divide data · context"),
        ({"interleave": 2, "zero_bubble": 1}, "row 0: zero_bubble has no chunks of layers"),
    ],
)
def test_a_row_that_cannot_be_is_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        so.calibrate(ROWS.assign(**wrong))


def test_repeats_of_a_run_count_as_so_many():
    rows = megatron()
    few = rows[rows["devices"] <= 64]
    once = fit_train_steps(few)
    often = fit_train_steps(pd.concat([few] * 50, ignore_index=True))
    assert len(often.rows) == 50 * len(few)
    assert len(often.misses.miss) == len(once.misses.miss)
    scatter = [
        np.std(np.log(fit.rows["predicted_s"] / fit.rows["time_s"])) for fit in (often, once)
    ]
    assert scatter[0] < scatter[1]


def test_what_is_known_is_kept_and_what_is_believed_pulls():
    rows = megatron()
    few = rows[rows["devices"] <= 64]
    plain = fit_train_steps(few)
    assert "crowding" in plain.resting
    told = so.calibrate(few, fixed={"crowding": 0.0}, priors={"grain": so.Prior(40.0, 1.1)})
    assert told.model.crowding == 0
    assert "crowding" not in told.names
    assert told.model.grain < plain.model.grain
    with pytest.raises(ValueError, match="'graim' is no constant of a machine; it has rate"):
        so.calibrate(few, priors={"graim": so.Prior(40.0, 1.1)})


def test_a_faster_device_is_believed_to_have_faster_links():
    runs = training_runs(MACHINE, 12)
    runs = runs[runs["devices"] <= 8].assign(nodes=1)
    plain, fast = (
        fit_train_steps(runs.assign(time_s=runs["time_s"] / times)).model for times in (1, 8)
    )
    faster = fast.rate / plain.rate
    assert faster > 3
    # No row crosses a node: the network goes with the rate, and with nothing else.
    assert plain.network_beta / fast.network_beta == pytest.approx(faster, rel=1e-3)
    known = so.calibrate(runs, priors={"network_beta": so.Prior(5e-11, 2.0)})
    assert known.model.network_beta == pytest.approx(5e-11, rel=1e-3)
    fixed = so.calibrate(runs, fixed={"rate": 4.4e14})
    assert fixed.model.network_beta == pytest.approx(4e-11, rel=1e-3)


def test_memory_and_links_go_with_the_rate_from_device_to_device():
    found = []
    for name in catalog_names():
        device = so.catalog(name)
        rate = device.get("bf16") or device.get("fp16")
        figures = [rate, device.get("memory_bandwidth"), device.get("link_bandwidth")]
        if None not in figures:
            found.append([np.log(figure.value) for figure in figures if figure])
    rate, memory, link = np.array(found).T
    assert len(rate) > 10
    for bandwidth, prior in ((memory, PRIORS["bandwidth"].value), (link, 1 / PRIORS["beta"].value)):
        relative = bandwidth - rate
        assert np.std(relative) < np.std(bandwidth)
        # Of what data sheets print, products reach two thirds, and so about do the others.
        assert abs(np.median(relative) - np.log(prior / PRIORS["rate"].value)) < np.log(2)


def probe_rows():
    """Products and all-reduces on the machine of `simulated_machine`, without noise."""
    rows = []
    for flops in np.geomspace(1e10, 1e14, 7):
        rows.append({"op": "matmul", "devices": 1, "flops": flops, "time_s": flops / MACHINE.rate})
    near, far = (MACHINE.alpha, MACHINE.beta), (MACHINE.network_alpha, MACHINE.network_beta)
    for size in np.geomspace(1e4, 1e9, 7):
        for devices in (2, 4, 8):
            hops = 2 * (devices - 1)
            time = hops * near[0] + hops / devices * near[1] * size
            rows.append({"devices": devices, "nodes": 1, "size_bytes": size, "time_s": time})
        time = 2 * (7 * near[0] + far[0]) + 2 * 15 / 16 * max(near[1], far[1] / 8) * size
        rows.append({"devices": 16, "nodes": 2, "size_bytes": size, "time_s": time})
    table = pd.DataFrame(rows).fillna({"op": "all_reduce"})
    return table.assign(time_s=table["time_s"] + 1e-5)


def test_probe_rows_and_training_steps_are_fitted_together():
    runs = training_runs(MACHINE, 12)
    runs = runs[runs["devices"] <= 8]
    odd = pd.DataFrame([{"op": "dispatch", "devices": 1, "time_s": 1e-5}])
    alone = so.calibrate(runs)
    both = so.calibrate(pd.concat([runs, probe_rows(), odd], ignore_index=True))
    assert alone.provenance["network_beta"] == "assumed"
    assert both.provenance["network_beta"] == "fitted"
    # Within the factor of 1.3 that steps may be off a probe.
    assert abs(np.log(both.model.network_beta / MACHINE.network_beta)) < np.log(1.3)
    for name in ("rate", "beta", "network_beta"):
        (low, high), wide = (
            [getattr(end, name) for end in fit.interval()] for fit in (both, alone)
        )
        assert low < getattr(MACHINE, name) < high
        assert high / low < wide[1] / wide[0]
    assert "Rows of kind dispatch (1) are not used." in both.notes
    assert any("tell rate, alpha, beta, network_alpha, network_beta" in note for note in both.notes)
    known = so.calibrate(pd.concat([runs, probe_rows()]), fixed={"rate": 200e12})
    assert known.model.rate == 200e12


def test_what_is_predicted_is_the_machine_times_what_runs_alike_were_off_by():
    runs = training_runs(MACHINE, 24)
    slow = np.where(runs["tensor"] == 2, 1.2, 1.0)
    runs = runs.assign(nodes=1, time_s=slow * runs["time_s"])
    fit = fit_train_steps(runs.iloc[:16])
    others = runs.iloc[16:]
    corrected = []
    for _, run in others.iterrows():
        names = ("hidden", "heads", "layers", "seq_len", "vocab")
        sizes: dict[str, Any] = {name: int(run[name]) for name in names}
        split = so.Parallelism(
            **{name: int(run[name]) for name in ("data", "tensor", "pipeline", "micro_batch")},
            accumulation=int(64 / (run["data"] * run["micro_batch"])),
            recompute=run["recompute"],
        )
        # A run on one node has a node of all its devices, or of 8.
        size = max(8, int(run["devices"]))
        machine = dataclasses.replace(fit.model, node_size=size)
        corrected.append(float(machine(so.Transformer(**sizes), split)))
    corrected *= fit.correction(others)
    np.testing.assert_allclose(fit.predict(others).time, corrected, rtol=1e-4)  # float32 here
    unlike = fit.correction(others.assign(hidden=2**20))
    assert np.abs(np.log(unlike)).max() < 1e-3 < np.abs(np.log(fit.correction(others))).max()
    many = pd.concat([others] * 1200, ignore_index=True)
    np.testing.assert_array_equal(fit.correction(many)[-8:], fit.correction(others))


def mixtures():
    """Runs of mixtures of experts on the machine of `simulated_machine`, without noise."""
    cases = itertools.product((1024, 2048), (1, 2, 4), (1, 2), (4, 8), (0, 1))
    rows = pd.DataFrame(cases, columns=["hidden", "expert", "pipeline", "experts", "zero_bubble"])
    rows = rows[(rows["pipeline"] > 1) | (rows["zero_bubble"] == 0)]
    rows = rows.assign(heads=16, layers=8, seq_len=1024, vocab=51200, active_experts=2)
    rows = rows.assign(data=4, tensor=2, global_batch=32, devices=8 * rows["pipeline"])
    sizes = ("hidden", "heads", "layers", "seq_len", "vocab", "experts", "active_experts")
    axes = ("data", "tensor", "pipeline", "expert", "zero_bubble")
    given: dict[str, Any] = {name: jnp.asarray(rows[name]) for name in (*sizes, *axes)}
    model = so.Transformer(**{name: given[name] for name in sizes})
    time = MACHINE(model, so.Parallelism(**{name: given[name] for name in axes}, accumulation=8))
    return rows.assign(op="train_step", time_s=np.asarray(time))


def test_runs_of_mixtures_of_experts_are_fitted_as_they_are():
    rows = mixtures()
    few, others = (rows.sample(frac=1, random_state=0).iloc[part] for part in FEW_AND_OTHERS)
    found, _ = misses(fit_train_steps(few), others)
    assert np.mean(found) < 0.02
    dense = {"experts": 1, "active_experts": 1, "expert": 1}
    blind, _ = misses(fit_train_steps(few.assign(**dense)), others.assign(**dense))
    assert np.mean(blind) > 0.03


def test_a_run_of_a_kind_never_seen_has_a_wide_range():
    rows = one_node()
    fit = so.calibrate(rows[rows["tensor"] == 1].iloc[:40])
    seen, unseen = (fit.predict(rows[rows["tensor"] == t].iloc[:1]) for t in (1, 8))
    assert unseen.high / unseen.low > (seen.high / seen.low) ** 2


def test_times_of_another_unit_are_a_failure():
    rows = megatron()
    fit = so.calibrate(rows.assign(time_s=1e9 * rows["time_s"]))
    assert "check that time_s is in seconds" in str(fit.failure)
    assert np.isinf(fit.predict(rows).high).all()


def test_one_run_is_asked_for_by_numbers():
    fit = fit_train_steps(training_runs(MACHINE, 8).assign(nodes=1))
    run: dict[str, Any] = {"hidden": 2048, "heads": 16, "layers": 24, "seq_len": 1024}
    run |= {"global_batch": 64, "devices": 4, "data": 4, "recompute": "full"}
    several: dict[str, Any] = run | {"micro_batch": [1, 2]}
    one, two = fit.predict(**run), fit.predict(**several)
    assert one.time.shape == ()
    assert two.time.shape == (2,)
    np.testing.assert_allclose(one.time, two.time[0])
    np.testing.assert_allclose(one, np.squeeze(fit.predict(pd.DataFrame([run]))))
    assert fit.correction(**run).shape == ()
    with pytest.raises(ValueError, match="micro_bach: a training run has no such column; it has"):
        fit.predict(**run, micro_bach=2)
    with pytest.raises(ValueError, match="train_step rows need heads, layers, seq_len; add what"):
        fit.predict(hidden=2048, devices=4, global_batch=64)
    with pytest.raises(ValueError, match="no column 'heads', 'layers', which the model needs"):
        so.calibrate(training_runs(MACHINE, 8).drop(columns=["heads", "layers"]))


def test_a_plan_says_of_mixtures_only_what_no_row_has_shown():
    fit = fit_train_steps(mixtures())
    model = so.Transformer(
        hidden=1024, heads=16, layers=8, seq_len=1024, vocab=51200, experts=8, active_experts=2
    )
    run: dict[str, Any] = {"memory": 200e9, "global_batch": 32, "draws": 16}
    run |= {"schedule": ("1f1b", "zero_bubble"), "max_expert": 4}
    found = so.plan(model, fit, devices=[16], **run)
    assert found.best is not None
    text = found.explain()
    assert "a mixture of experts: rows fitted are of dense models" not in text
    assert "zero bubble: not in the rows fitted" not in text
    split = so.Parallelism(data=16, expert=8)
    far = dataclasses.replace(found.best, split=split)
    assert "expert 8: at most 4 in the rows fitted" in extrapolations(far)


def test_runs_that_are_one_are_drawn_as_one_and_leave_the_others_theirs():
    def at(*doublings: float):
        shape, split = (np.outer(doublings, np.ones(len(each))) for each in (SHAPE, SPLIT))
        return Alike(shape, split, np.ones(len(doublings)), np.ones(len(doublings)))

    nothing = np.empty((0, 1))
    unseen = Misses(SCALES, at(), nothing[:, 0], nothing, nothing @ nothing.T, nothing[:, 0])
    drawn = unseen.drawn(at(0, 0, 0, 0.5, 3), np.zeros((20_000, 1)), np.random.default_rng(0))
    np.testing.assert_allclose(drawn[:, :2], drawn[:, 2:3].repeat(2, axis=1), atol=1e-6)
    # Of 20,000 draws a deviation is known to half a percent.
    np.testing.assert_allclose(drawn.std(axis=0), np.hypot.reduce(SCALES[[0, 2, 4]]), rtol=0.02)
