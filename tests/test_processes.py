"""Several processes measure together: what they leave, and what a dead or hanging one leads to."""

import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest
from typer.testing import CliRunner

import scaleopt as so
from probes.launch import group_sizes, job
from probes.peers import _share
from scaleopt.cli import app

pytestmark = pytest.mark.timed

PROBE = [sys.executable, "-m", "scaleopt", "probe", "--quick"]


def start(*arguments):
    return subprocess.Popen(
        [*PROBE, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for_rows(path):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (path.exists() and path.stat().st_size > 3_000):
        time.sleep(0.1)


def ranks_of(process):
    """The ranks that a probe has started, by their number."""
    children = psutil.Process(process.pid).children()
    return {
        number: child
        for child in children
        for number in (0, 1)
        if f'"process_id": {number}' in " ".join(child.cmdline())
    }


def wait_for_ranks(process):
    """Both ranks, as soon as they have started."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and len(ranks_of(process)) < 2:
        time.sleep(0.1)
    return ranks_of(process)


def test_two_processes_and_then_one_leave_one_table(tmp_path):
    path = tmp_path / "t.csv"
    done = start("--processes", 2, "--out", path)
    _, said = done.communicate(timeout=120)
    assert done.returncode == 0, said
    table, context = so.read_measurements(path)
    assert context["processes"] == 2
    assert context["nodes"] == 1
    assert set(table["devices"]) == {1, 2}
    assert set(table["op"]) == {"matmul", "all_reduce", "step"}
    assert (table["nodes"] == 1).all()
    # Rounds of the one process come after those of the two.
    rounds = table.groupby("devices")["round"]
    assert rounds.max()[2] < rounds.min()[1]
    assert not table["oversubscribed"].any() or (os.cpu_count() or 1) < 2


def test_a_rank_that_dies_ends_the_run_by_its_name_and_rows_stay(tmp_path):
    path = tmp_path / "t.csv"
    process = start("--processes", 2, "--out", path)
    wait_for_rows(path)
    ranks = ranks_of(process)
    ranks[1].kill()
    lost = time.monotonic()
    _, errors = process.communicate(timeout=30)
    assert time.monotonic() - lost < 10
    assert process.returncode == 3
    assert "rank 1 of 2 failed at 'round " in errors
    assert "killed by SIGKILL" in errors
    assert f"{len(so.read_measurements(path).table)} rows are kept in {path}" in errors
    assert not any(rank.is_running() for rank in ranks.values())


def test_a_rank_that_hangs_ends_the_run_by_its_name(tmp_path):
    process = start("--processes", 2, "--patience", 4, "--out", tmp_path / "t.csv")
    ranks = wait_for_ranks(process)
    ranks[1].send_signal(signal.SIGSTOP)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 3
    assert "nothing has moved for 4 s: rank 1 of 2 gives no sign of life" in errors
    assert not any(rank.is_running() for rank in ranks.values())


def test_ctrl_c_ends_every_rank(tmp_path):
    path = tmp_path / "t.csv"
    process = start("--processes", 2, "--out", path)
    ranks = wait_for_ranks(process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Stopped before anything was measured" in errors
    assert not any(rank.is_running() for rank in ranks.values())
    assert not path.exists()


def test_processes_started_by_hand_find_each_other(tmp_path):
    where = ["--coordinator", "127.0.0.1:18765", "--num-processes", 2, "--patience", 7]
    paths = [tmp_path / f"{number}.csv" for number in range(2)]
    first, second = (
        start(*where, "--process-id", number, "--out", path) for number, path in enumerate(paths)
    )
    wait_for_rows(paths[0])
    second.kill()
    second.communicate()
    _, errors = first.communicate(timeout=30)
    assert first.returncode == 3
    assert "JAX gets no sign of life from rank 1" in errors
    assert (so.read_measurements(paths[0]).table["devices"] == 2).all()
    assert not paths[1].exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--coordinator", "here:1"], "give all three"),
        (["--processes", "2", "--devices", "2"], "--devices is for one process"),
        (["--quick", "--all"], "choose one"),
    ],
)
def test_contradictions_are_refused(arguments, complaint):
    done = CliRunner().invoke(app, ["probe", "--quick", *arguments])
    assert done.exit_code == 2
    assert complaint in re.sub(r"\s+", " ", done.output)


def test_a_table_that_exists_is_not_touched(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("mine")
    process = start("--processes", 1, "--out", path)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "exists and is not overwritten" in errors
    assert path.read_text() == "mine"


def test_jobs_are_recognised_by_what_their_launcher_sets():
    step = {"SLURM_JOB_ID": "1", "SLURM_STEP_NODELIST": "a", "SLURM_PROCID": "0"}
    step |= {"SLURM_LOCALID": "0", "SLURM_NTASKS": "4"}
    assert job(step) == "Slurm"
    assert job(step | {"SLURM_STEP_NUM_TASKS": "1"}) is None
    assert job({name: step[name] for name in step if name != "SLURM_STEP_NODELIST"}) is None
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert job(pod) is None
    assert job(pod | {"JOB_COMPLETION_INDEX": "2"}) == "Kubernetes"
    assert job({}) is None


def test_groups_and_cores_are_shared_out():
    assert group_sizes(4) == [4, 2, 1]
    assert group_sizes(5) == [5, 4, 2, 1]
    assert _share([0, 1, 2, 3], 0, 2, 2) == [0, 2]
    assert _share([0, 1], 3, 4, 1) == [1]
