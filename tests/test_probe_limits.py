"""Where the machine ends: no memory left, a full disk, no permission, many devices."""

import json
import subprocess
import sys

import jax.numpy as jnp
import pytest

import scaleopt as so
from probes import dispatch
from probes.cell import Cell, OutOfMemoryError, within_memory
from probes.measure import UNUSABLE
from probes.plan import Effort
from probes.sweep import sweep

pytestmark = pytest.mark.timed

TINY = Effort(0.1, 2, 2, 2, 2**12, 64)
TOO_MUCH = 2.0**46


class Kept(list):
    """Rows in memory."""

    def append(self, row):
        super().append(dict(row))


def too_large():
    """A cell whose array no machine holds."""
    return Cell(
        "stream", 1, lambda: lambda: jnp.ones(int(TOO_MUCH) // 4, jnp.float32), None, TOO_MUCH
    )


def test_a_program_that_runs_out_of_memory_is_told_from_others():
    cell = too_large()
    says = "stream on 1 devices with an array of 7"
    with pytest.raises(OutOfMemoryError, match=says), within_memory(cell):
        cell.build()()
    with pytest.raises(ZeroDivisionError), within_memory(cell):
        raise ZeroDivisionError


def test_what_does_not_fit_is_left_out_with_a_word(devices, monkeypatch):
    small = next(iter(dispatch.cells(devices, [1])))
    monkeypatch.setattr("probes.sweep.plan_within", lambda *_: [too_large(), small])
    rows = Kept()
    left_out = sweep(devices, rows, TINY, lambda done, what: None)
    assert {row["op"] for row in rows} == {"dispatch"}
    assert ["runs out of memory" in sentence for sentence in left_out] == [True]


@pytest.fixture
def disk(tmp_path, request):
    """A file system of its own, small or read-only."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", request.param, "tmpfs", str(folder)]
    if subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def measured_into(out):
    """A short measurement in a process of its own, as a command runs it."""
    code = """
import sys
from pathlib import Path
import typer
from probes.measure import Alone, measure
from probes.plan import Effort
try:
    measure(Path(sys.argv[1]), Alone(1), Effort(0.1, 9, 9, 2, 2**12, 64), quiet=True)
except typer.Exit as ended:
    sys.exit(ended.exit_code)
"""
    run = [sys.executable, "-c", code, str(out)]
    return subprocess.run(run, capture_output=True, text=True, timeout=200)


@pytest.mark.parametrize("disk", ["size=8k"], indirect=True)
def test_a_full_disk_ends_it_and_keeps_what_was_measured(disk):
    out = disk / "table.csv"
    done = measured_into(out)
    assert done.returncode == UNUSABLE, done.stderr
    assert f"error: {out}: No space left on device" in done.stderr
    assert f"rows are kept in {out}" in done.stderr
    with pytest.warns(so.TruncatedLineWarning):
        table, _ = so.read_measurements(out)
    assert len(table) > 5


@pytest.mark.parametrize("disk", ["ro"], indirect=True)
def test_a_folder_that_cannot_be_written_is_named(disk):
    out = disk / "table.csv"
    done = measured_into(out)
    assert done.returncode == UNUSABLE
    assert done.stderr == f"error: [Errno 30] Read-only file system: '{out}'\n"


def test_sixty_four_devices_reduce_together(tmp_path):
    """In a process of its own; each core carries many of them."""
    code = """
import json
from probes.context import start_devices
from probes.plan import Effort
from probes.sweep import sweep
class Kept(list):
    def append(self, row): super().append(dict(row))
devices, rows = start_devices(64), Kept()
effort = Effort(0.1, 1, 1, 1, 2**12, 2**12)
said = sweep(devices, rows, effort, lambda done, what: None, only=("all_reduce",))
print(json.dumps([said, [row["devices"] for row in rows if row["oversubscribed"]]]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    said, crowded = json.loads(done.stdout)
    assert said == []
    assert {16, 32, 64} <= set(crowded)
