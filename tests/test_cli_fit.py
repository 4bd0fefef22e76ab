"""`scaleopt fit` of tables that hold no steps: collectives alone, and training runs."""

import gc
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import scaleopt as so
from scaleopt.cli import app
from scaleopt.models.collectives import all_to_all_time
from scaleopt.models.parallelism import Parallelism


def call(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory):
    """A table of all-to-alls with 2 % noise."""
    works = [(n, m) for n in (2, 4, 8) for m in np.geomspace(1e3, 1e9, 10)]
    table = pd.DataFrame(works, columns=["devices", "size_bytes"]).assign(op="all_to_all")
    noise = np.exp(0.02 * np.random.default_rng(0).normal(size=len(works)))
    exact = [float(all_to_all_time(m, n, 5e-6, 1e-11, launch=1e-5)) for n, m in works]
    path = tmp_path_factory.mktemp("fit") / "exchanged.csv"
    so.write_measurements(path, table.assign(time_s=noise * exact), {})
    return path


def test_collectives_alone_are_fitted_as_such(exchanged, tmp_path):
    out = tmp_path / "out"
    done = call("fit", exchanged, "-o", out)
    assert done.exit_code == 0, done.output
    assert "all_to_all: 30 rows" in done.stdout
    assert "within their 95 % range" in done.stdout
    assert "fitted: launch, alpha, beta" in done.stdout
    assert sorted(it.name for it in out.iterdir()) == [
        "diagnostics.png", "report.txt", "result.json",
    ]  # fmt: skip
    [told] = json.loads((out / "result.json").read_text())["collectives"].values()
    assert told["constants"]["alpha"]["provenance"] == "fitted"
    assert told["mean_error"] < 0.03


def test_their_record_is_printed_for_programs(exchanged):
    done = call("fit", exchanged, "--json")
    assert json.loads(done.stdout)["inside"] > 0.8


def test_too_few_collectives_are_a_failure_that_says_so(tmp_path):
    path = tmp_path / "few.csv"
    table = pd.DataFrame({"op": "all_gather", "devices": [2, 2], "size_bytes": [1e3, 1e6]})
    so.write_measurements(path, table.assign(time_s=[1e-5, 1e-4]), {})
    done = call("fit", path)
    assert done.exit_code == 4
    assert "too few rows" in done.stdout


def test_training_runs_are_reported_too(tmp_path):
    model: dict[str, Any] = {
        "hidden": 1024,
        "heads": 16,
        "layers": 8,
        "seq_len": 1024,
        "vocab": 50000,
    }
    machine = so.Machine(rate=2e14, bandwidth=1.5e12, alpha=1e-5, beta=5e-12, host=3e-4)
    rows = []
    for data, tensor, micro in [(1, 1, 1), (2, 1, 1), (4, 1, 2), (1, 2, 1), (2, 2, 2), (1, 4, 4)]:
        split = Parallelism(
            data=data, tensor=tensor, micro_batch=micro, accumulation=16 // data // micro
        )
        time = float(machine(so.Transformer(**model), split))
        rows.append(
            {"op": "train_step", "devices": data * tensor, **model, "global_batch": 16}
            | {"micro_batch": micro, "data": data, "tensor": tensor, "time_s": time}
        )
    path = tmp_path / "runs.csv"
    so.write_measurements(path, pd.DataFrame(rows), {})
    found = so.calibrate(pd.DataFrame(rows))
    assert found.predict(pd.DataFrame(rows)[:0]).time.shape == (0,)
    done = call("fit", path)
    assert done.exit_code == 0, done.output
    assert "scaleopt plan RUN.TOML" in done.stdout
    assert "network_alpha is hardly told" in done.stdout
    assert "6 train_step rows on 1, 2 and 4 devices" in done.stdout


def test_rows_that_nothing_bounds_are_no_good_news(tmp_path):
    """Three rows: no scatter of repeats, no share within an open range, nothing reckoned."""
    table = pd.DataFrame({"op": "step", "devices": [1, 2, 4], "time_s": [0.01, 0.006, 0.004]})
    path = tmp_path / "few.csv"
    so.write_measurements(path, table.assign(flops=1e9, size_bytes=1e6), {})
    said = call("fit", path).stdout
    assert "any number may be" in said
    assert "range of every row is open" in said
    for wrong in ("inf", "100 %", "scatter", "fitted: N*"):
        assert wrong not in said


@pytest.mark.parametrize("count", [2, 3])
def test_a_kind_that_the_model_goes_through_leaves_an_interval(count):
    """As many steps as parameters of theirs, or one more: no noise seen is not none."""
    works = [(n, m) for n in (2, 4, 8) for m in np.geomspace(1e4, 1e8, 8)]
    reduced = pd.DataFrame(works, columns=["devices", "size_bytes"]).assign(op="all_reduce")
    noise = np.exp(0.05 * np.random.default_rng(0).normal(size=len(works)))
    step = so.StepTime(rate=1.25e11, alpha=1e-6, beta=1e-11, serial_time=2e-3)
    reduced["time_s"] = noise * [1e-5 + float(step(n, 0.0, m)) - 2e-3 for n, m in works]
    steps = pd.DataFrame({"op": "step", "devices": [1, 2, 4], "flops": 1e9, "size_bytes": 1e6})
    steps["time_s"] = [float(step(n, 1e9, 1e6)) for n in steps["devices"]]
    fit = so.calibrate(pd.concat([steps[:count], reduced], ignore_index=True))
    low, high = fit.interval()
    assert low.rate < 0.97 * 1.25e11
    assert high.rate > 1.03 * 1.25e11
    assert fit.noise[0].scattered == ""


def test_scatter_about_the_model_is_not_called_one_of_repeats():
    sizes = np.geomspace(1e4, 1e8, 32)
    noise = np.exp(0.3 * np.random.default_rng(1).normal(size=32))
    table = pd.DataFrame({"op": "all_reduce", "devices": 4, "size_bytes": sizes})
    fit = so.calibrate(table.assign(time_s=noise * (1e-4 + 1e-10 * sizes)))
    assert "rows scatter by" in fit.summary()
    said = so.report(fit, None, {})
    assert "% about the model" in said
    assert "repeats" not in said
    again = pd.concat([table.assign(time_s=noise * 1e-4)] * 2)
    assert "repeats scatter by 0 %" in so.calibrate(again).summary()


def test_rows_that_cannot_be_are_not_predicted(exchanged):
    table = pd.DataFrame({"op": "step", "devices": [1, 2, 4, 8], "time_s": [9.0, 5, 3, 2]})
    fit = so.calibrate(table.assign(flops=1e9, size_bytes=1e6))
    with pytest.raises(ValueError, match="devices is 0; it must be a number from 1 up"):
        fit.predict(devices=[4, 0], flops=1e9, size=1e6)
    reduced = so.fit_collective(so.read_measurements(exchanged).table)
    with pytest.raises(ValueError, match="size is -1; it must be a number 0 or more"):
        reduced.predict(op="all_to_all", devices=4, size=-1)


def test_every_table_of_a_join_is_named_and_unlikeness_said(tmp_path):
    """Steps of who knows what, all-reduces of others: both are named, and that they may differ."""
    table = pd.DataFrame({"op": "step", "devices": [1, 2, 4], "time_s": [0.01, 0.006, 0.004]})
    works = [(n, m) for n in (2, 4) for m in (1e4, 1e6, 1e8)]
    reduced = pd.DataFrame(works, columns=["devices", "size_bytes"]).assign(op="all_reduce")
    reduced["time_s"] = [1e-5 + 2 * (n - 1) * (1e-6 + 1e-10 * m / n) for n, m in works]
    paths = tmp_path / "mine.csv", tmp_path / "theirs.csv"
    so.write_measurements(paths[0], table.assign(flops=1e9, size_bytes=1e6), {})
    so.write_measurements(paths[1], reduced, {"device_kind": "H100"})
    said = call("fit", *paths).stdout
    assert "table mine.csv, theirs.csv" in said
    assert "joined though not alike: not every table says its devices" in said


def test_garbage_is_looked_for_again_behind_a_command(exchanged):
    assert call("fit", exchanged).exit_code == 0
    assert gc.isenabled()
