"""How much is measured: a budget, a wanted precision, a plan shown, an interrupted run resumed."""

import contextlib
import re
import time
from dataclasses import replace

import pytest
import simulated
from typer.testing import CliRunner

import scaleopt as so
from probes.context import describe
from probes.launch import measure_alone
from probes.peers import Peers
from probes.plan import QUICK, THOROUGH, Effort, building_seconds, plan, plan_within
from probes.sweep import sweep
from probes.table import Table
from scaleopt.cli import app

pytestmark = pytest.mark.timed

TINY = Effort(0.0, 3, 3, 1, 4, 64)
REDUCED = ("all_reduce",)


def call(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def measured(path, devices, effort):
    """The table after a sweep over all-reduces of four bytes."""
    with so.MeasurementWriter(path, describe(devices)) as writer:
        sweep(devices, writer, effort, lambda *_: None, only=REDUCED)
    return so.read_measurements(path).table


def test_a_short_budget_leaves_out_sizes_and_no_operation(devices):
    peers = Peers(devices)
    whole = plan(devices, THOROUGH, peers)
    few = plan_within(devices, Effort(40.0, 5, 30, 2, 2**26, 8, budget=14.0), peers)
    assert len(few) < len(whole)
    assert building_seconds(few) <= 7.0
    for cells in (few, whole):
        assert {(cell.op, cell.devices) for cell in cells} >= {
            ("matmul", 1),
            ("all_reduce", 2),
            ("step", 1),
            ("step", 2),
        }
    sizes = {cell.size_bytes or 0.0 for cell in few if cell.op == "all_reduce"}
    assert len(sizes) >= 3
    assert min(sizes) == 4


def test_a_budget_is_kept(tmp_path, devices):
    start = time.monotonic()
    effort = Effort(1e9, 5, 1000, 2, 2**10, 64, budget=8.0)
    table = measured(tmp_path / "t.csv", devices, effort)
    assert time.monotonic() - start < 14  # the round that is under way is finished
    assert table["round"].max() >= 1


def test_a_budget_that_compiling_uses_up_is_said(tmp_path, devices):
    with so.MeasurementWriter(tmp_path / "t.csv", describe(devices)) as writer:
        effort = replace(TINY, budget=1e-3, side=64)
        said = sweep(devices, writer, effort, lambda *_: None, only=REDUCED)
    assert said[-1].startswith("more than one round: compiling and checking took all of the 0.001")
    assert set(so.read_measurements(tmp_path / "t.csv").table["round"]) == {0}


def test_a_wanted_precision_ends_the_rounds(tmp_path, devices):
    """Six rounds are the fewest that bound a median; a half width of 50 times it comes soon."""
    effort = Effort(30.0, 3, 200, 1, 4, 64, precision=50.0)
    assert measured(tmp_path / "t.csv", devices, effort)["round"].max() == 5


def test_processes_are_started_for_each_run_and_measure_the_same_cells(tmp_path):
    """And an interrupted measurement is gone on with by the runs that are left."""
    path, effort = tmp_path / "t.csv", replace(TINY, runs=2)
    with contextlib.closing(Table(path)) as first:
        measure_alone(1, first, replace(effort, runs=1))
    cut = path.read_text()[:-30]
    path.write_text(cut)
    with pytest.warns(so.TruncatedLineWarning):
        resumed = Table(path, resume=True)
    with contextlib.closing(resumed):
        measure_alone(1, resumed, effort)
    table = so.read_measurements(path).table
    assert table.groupby("run")["round"].unique().map(list).tolist() == [[0, 1, 2], [3, 4, 5]]
    cells = [
        set(map(tuple, rows[["op", "flops"]].fillna(0).values)) for _, rows in table.groupby("run")
    ]
    assert cells[0] == cells[1]


def test_a_table_of_another_machine_is_not_gone_on_with(tmp_path):
    path = tmp_path / "t.csv"
    so.write_measurements(path, simulated.table(0).assign(round=0), {"platform": "gpu"})
    before = path.read_bytes()
    done = call("probe", "--resume", "--out", path)
    assert done.exit_code == 3
    assert "was not measured like this (platform is gpu and cpu" in done.stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--budget", "60"], "has no unit"),
        (["--budget", "-1 s"], "must be above 0 s"),
        (["--resume", "--processes", "2"], "are for one process"),
    ],
)
def test_wrong_options_are_refused(arguments, complaint):
    done = call("probe", *arguments)
    assert done.exit_code == 2
    assert complaint in re.sub(r"\s+", " ", done.stderr)


def test_there_must_be_a_table_to_go_on_with(tmp_path):
    done = call("probe", "--resume", "--out", tmp_path / "none.csv")
    assert done.exit_code == 3
    assert "there is no table to go on with; leave --resume out" in done.stderr.replace("\n", " ")
    assert not (tmp_path / "none.csv").exists()


def test_the_usual_efforts_have_no_budget():
    assert QUICK.budget == THOROUGH.budget == float("inf")
