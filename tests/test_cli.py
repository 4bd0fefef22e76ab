"""The commands as a user gives them: results, files, exit codes, wrong input, and Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import simulated
from typer.testing import CliRunner

import scaleopt as so
from scaleopt.cli import app

pytestmark = pytest.mark.timed

CONTEXT = {"device_kind": "simulated", "devices": 8, "platform": "gpu"}
RUN = [sys.executable, "-m", "scaleopt"]


def call(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    so.write_measurements(path, simulated.table(0), CONTEXT)
    return path


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    """A whole quick run in a new process, as a user starts it."""
    folder = tmp_path_factory.mktemp("run") / "out"
    done = subprocess.run(
        [*RUN, "run", "--quick", "--out", str(folder)], capture_output=True, text=True, timeout=300
    )
    return done, folder


def test_a_run_leaves_everything_it_concluded(quick_run):
    done, folder = quick_run
    assert done.returncode == 0, done.stderr
    written = {path.name for path in folder.iterdir()}
    pictures = {"diagnostics.png", "step_time.png"}
    assert written == {"measurements.csv", "report.txt", "result.json"} | pictures
    assert (folder / "report.txt").read_text().strip() in done.stdout
    assert (folder / "step_time.png").read_bytes()[:4] == b"\x89PNG"
    assert "compiling" in done.stderr or "measured" in done.stderr


def test_a_run_predicts_what_it_measured(quick_run):
    _, folder = quick_run
    report = (folder / "report.txt").read_text()
    share = re.search(r"All rows: ([\d.]+) % within their 95 % range", report)
    assert share is not None
    assert float(share.group(1)) >= 85


def test_a_run_finds_the_parameters(quick_run):
    _, folder = quick_run
    result = json.loads((folder / "result.json").read_text())
    assert result["failure"] is None
    assert set(result["parameters"]) >= {"rate", "alpha", "beta", "serial_time", "launch"}
    rate = result["parameters"]["rate"]
    assert 0 < rate["low"] < rate["value"] < rate["high"]
    assert result["choice"]["best_devices"]["value"] in (1, 2, 3, 4, 5, 6, 7, 8)


def test_fit_reports_and_keeps_what_it_found(table, tmp_path):
    done = call("fit", table, "--flops", "100 TFLOP", "--size", "100 MB", "--out", tmp_path / "o")
    assert done.exit_code == 0, done.output
    assert "best of up to 8: 8 (8 … 8)" in done.output
    assert "N* = 228" in done.output
    assert "N* lies beyond the 8 measured" in done.output
    assert {path.name for path in (tmp_path / "o").iterdir()} == {
        "diagnostics.png",
        "report.txt",
        "result.json",
        "step_time.png",
    }


def test_fit_speaks_json_to_programs(table):
    done = call("fit", table, "--json", "--max-devices", "1000", "--level", "0.9")
    result = json.loads(done.stdout)
    assert result["level"] == 0.9
    assert result["parameters"]["alpha"]["unit"] == "s"
    assert result["parameters"]["alpha"]["value"] == pytest.approx(simulated.ALPHA, rel=0.05)
    assert result["context"] == CONTEXT


def test_a_table_without_steps_gets_parameters_and_a_hint(tmp_path):
    path = tmp_path / "t.csv"
    rows = simulated.table(0)
    so.write_measurements(path, rows[rows["op"] == "all_reduce"], CONTEXT)
    done = call("fit", path)
    assert done.exit_code == 0
    assert "give --flops and --size" in done.output


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["--flops", "100 TFLOP"], 2, "give both, or neither"),
        (["--flops", "100", "--size", "1 GB"], 2, "'100' has no unit"),
        (["--flops", "100 GB", "--size", "1 GB"], 2, "a quantity in FLOP is needed"),
        (["--flops", "0 FLOP", "--size", "1 GB"], 2, "must be above 0"),
        (["--flops", "-5 TFLOP", "--size", "1 GB"], 2, "must be above 0"),
        (["--flops", "1e400 TFLOP", "--size", "1 GB"], 2, "above 0 and finite"),
        (["--level", "95"], 2, "Invalid value for '--level'"),
        (["--max-devices", "0"], 2, "Invalid value for '--max-devices'"),
    ],
)
def test_wrong_options_are_refused(table, arguments, code, complaint):
    done = call("fit", table, *arguments)
    assert done.exit_code == code
    assert complaint in re.sub(r"\s+", " ", done.output)


def test_wrong_files_are_refused(tmp_path):
    missing = call("fit", tmp_path / "none.csv")
    assert missing.exit_code == 3
    assert "none.csv" in missing.output
    bad = tmp_path / "bad.csv"
    bad.write_text("# scaleopt-measurements 1 {}\nop,devices,time_s\nstep,1,-1\n")
    done = call("fit", bad)
    assert done.exit_code == 3
    assert "bad.csv:3: time_s is -1; it must be above 0" in done.output


def test_a_cut_table_is_fitted_with_a_word(table):
    table.write_text(table.read_text()[:-9])
    done = call("fit", table)
    assert done.exit_code == 0
    assert "the last line was cut off" in done.stderr


def test_tables_measured_alike_are_fitted_together(table, tmp_path):
    more, other = tmp_path / "more.csv", tmp_path / "other.csv"
    so.write_measurements(more, simulated.table(1), CONTEXT | {"date": "another"})
    so.write_measurements(other, simulated.table(1), CONTEXT | {"platform": "cpu"})
    assert call("fit", table, more).exit_code == 0
    refused = call("fit", table, other)
    assert refused.exit_code == 3
    assert "platform is gpu and cpu" in refused.stderr
    joined = call("fit", table, other, "--across")
    assert "joined though not alike: table 2: platform is gpu and cpu" in joined.stdout


def test_folders_that_cannot_be_used_are_refused(table, tmp_path):
    for arguments in (["run", "--quick"], ["fit", table]):
        there = call(*arguments, "--out", tmp_path)
        assert there.exit_code == 3
        assert "exists and is not overwritten" in there.output
        beyond = call(*arguments, "--out", "/dev/null/out")
        assert beyond.exit_code == 3
        assert "cannot be made" in beyond.output


def test_a_run_that_measures_nothing_leaves_nothing(tmp_path):
    done = call("run", "--devices", "0", "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "Invalid value for '--devices'" in done.output
    assert not (tmp_path / "out").exists()


def test_more_devices_than_cores_are_marked_everywhere(tmp_path):
    path, most = tmp_path / "t.csv", (os.cpu_count() or 1) + 1
    done = subprocess.run(
        [*RUN, "probe", "--quick", "--json", "--devices", str(most), "--out", str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["context"]["oversubscribed"] is True
    table = so.read_measurements(path).table
    assert len(table) == said["rows"]
    assert table.loc[table["devices"] == most, "oversubscribed"].all()
    assert not table.loc[table["devices"] == 1, "oversubscribed"].any()
    report = call("fit", path).output
    assert f"{most} (oversubscribed)" in report
    assert "oversubscribed: more CPU devices than" in report
    assert f"best of up to {os.cpu_count()}:" in report


def test_ctrl_c_keeps_what_was_measured_and_says_how_to_go_on(tmp_path):
    folder = tmp_path / "out"
    process = subprocess.Popen(
        [*RUN, "run", "--out", str(folder)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    path = folder / "measurements.csv"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (path.exists() and path.stat().st_size > 20_000):
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    rows = len(so.read_measurements(path).table)
    assert f"{rows} rows are kept in {path}" in said
    assert f"Go on with: scaleopt fit {path}" in said
    assert call("fit", path).exit_code == 0


def test_ctrl_c_during_a_fit_ends_it_with_a_word(table):
    process = subprocess.Popen([*RUN, "fit", str(table)], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "fitting" in process.stderr.readline()
    time.sleep(0.1)  # in the midst of it
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopped. Nothing was changed." in said


def test_a_platform_that_is_not_there_is_said(tmp_path):
    done = subprocess.run(
        [*RUN, "run", "--quick", "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"JAX_PLATFORMS": "cuda"},
    )
    assert done.returncode == 3
    assert "JAX finds no device for JAX_PLATFORMS='cuda'" in done.stderr
    assert not (tmp_path / "out").exists()


def test_what_was_measured_otherwise_is_said(tmp_path):
    """Steps that get slower with devices contradict the model that the other rows make."""
    rows = simulated.table(0)
    steps = (rows["op"] == "step") & (rows["flops"] == 1e15) & (rows["size_bytes"] == 1e10)
    slower = rows.assign(time_s=rows["time_s"].where(~steps, 8.3 * rows["devices"]))
    path = tmp_path / "t.csv"
    so.write_measurements(path, slower, CONTEXT)
    done = call("fit", path)
    said = done.stdout
    assert "MEASURED OTHERWISE: this step was fastest on 1, not on 8 devices" in said
    assert said.index("MEASURED OTHERWISE") < said.index("best of up to")
    result = json.loads(call("fit", path, "--json").stdout)
    assert result["choice"]["contradiction"] == 1
    assert any("MEASURED OTHERWISE" in line for line in result["careful"])


def test_a_unit_slip_is_noticed(tmp_path):
    rows = simulated.table(0)
    milliseconds = rows["time_s"].where(rows["op"] == "step", 1000 * rows["time_s"])
    path = tmp_path / "t.csv"
    so.write_measurements(path, rows.assign(time_s=milliseconds), CONTEXT)
    assert "a column is in another unit than SI" in call("fit", path).output


def test_the_version_is_that_of_the_package():
    assert call("--version").output.strip() == so.__version__
