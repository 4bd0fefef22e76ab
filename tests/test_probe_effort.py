"""How much is measured: a budget, a wanted precision, a plan shown, an interrupted run resumed."""

import re
import time

import pytest
import simulated
from typer.testing import CliRunner

import scaleopt as so
from probes.context import describe
from probes.peers import Peers
from probes.plan import QUICK, THOROUGH, Effort, building_seconds, plan, plan_within
from probes.sweep import sweep
from scaleopt.cli import app

pytestmark = pytest.mark.timed

TINY = Effort(0.0, 3, 3, 1, 4, 64)
REDUCED = ("all_reduce",)


def call(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def measured(path, devices, effort, **options):
    """The table after a sweep over all-reduces of four bytes."""
    context = describe(devices)
    with so.MeasurementWriter(path, context, resume="done_rounds" in options) as writer:
        sweep(devices, writer, effort, lambda *_: None, only=REDUCED, **options)
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


def test_a_wanted_precision_ends_the_rounds(tmp_path, devices):
    """Six rounds are the fewest that bound a median; a half width of 50 times it comes soon."""
    effort = Effort(30.0, 3, 200, 1, 4, 64, precision=50.0)
    assert measured(tmp_path / "t.csv", devices, effort)["round"].max() == 5


def test_an_interrupted_run_is_gone_on_with(tmp_path, devices):
    path = tmp_path / "t.csv"
    first = measured(path, devices, TINY)
    both = measured(path, devices, TINY, done_rounds=3)
    assert sorted(set(first["round"])) == [0, 1, 2]
    assert sorted(set(both["round"])) == [0, 1, 2, 3, 4, 5]


def test_a_table_of_another_machine_is_not_gone_on_with(tmp_path):
    path = tmp_path / "t.csv"
    so.write_measurements(path, simulated.table(0).assign(round=0), {"platform": "gpu"})
    before = path.read_bytes()
    done = call("probe", "--resume", "--out", path)
    assert done.exit_code == 3
    assert re.search("was not measured like this|JAX was started", done.stderr)
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


def test_the_usual_efforts_have_no_budget():
    assert QUICK.budget == THOROUGH.budget == float("inf")
