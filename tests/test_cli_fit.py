"""`scaleopt fit` of tables that hold no steps: collectives alone, and training runs."""

import json

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
    model = {"hidden": 1024, "heads": 16, "layers": 8, "seq_len": 1024, "vocab": 50000}
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
    done = call("fit", path)
    assert done.exit_code == 0, done.output
    assert "scaleopt plan RUN.TOML" in done.stdout
    assert "network_alpha is hardly told" in done.stdout
    assert "6 train_step rows on 1, 2 and 4 devices" in done.stdout
