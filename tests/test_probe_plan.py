"""The plan: what the step model needs, and in a survey everything else beside it."""

import pytest

import scaleopt as so
from probes import matmul
from probes.context import describe
from probes.peers import Peers
from probes.plan import QUICK, SURVEY, THOROUGH, Effort, left_out, plan
from probes.sweep import sweep
from scaleopt.data.schema import OPS

PROBED = set(OPS) - {"train_step", "broadcast", "reduce", "send"}
"""The rest is imported only."""

TINY_SURVEY = Effort(0.1, 1, 1, 1, 4, 64, survey=True)


@pytest.fixture(scope="module", autouse=True)
def small_matrices():
    """Whatever this machine's speed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matmul, "scout_side", lambda _: 64)
        yield


@pytest.fixture(scope="module")
def surveyed(tmp_path_factory, devices):
    """A row of each cell of a survey, as it is read back; the times are made up."""
    path = tmp_path_factory.mktemp("survey") / "survey.csv"
    with so.MeasurementWriter(path, describe(devices)) as writer:
        for cell in plan(devices, TINY_SURVEY, Peers(devices)):
            writer.append(cell.columns() | {"time_s": 1.0})
    return so.read_measurements(path).table


@pytest.mark.parametrize("effort", [QUICK, THOROUGH], ids=["quick", "thorough"])
def test_a_plan_for_the_step_model_holds_only_what_one_rate_explains(devices, effort):
    cells = plan(devices, effort, Peers(devices))
    assert {cell.op for cell in cells} == {"matmul", "all_reduce", "step"}
    assert {cell.dtype for cell in cells} == {"float32"}
    assert all(cell.moved_bytes is None for cell in cells)
    assert all(cell.chain == 1 for cell in cells if cell.op == "step")


def test_a_survey_holds_the_plan_and_more(devices):
    peers = Peers(devices)
    known = {cell.name + cell.label for cell in plan(devices, THOROUGH, peers)}
    cells = plan(devices, SURVEY, peers)
    assert known <= {cell.name + cell.label for cell in cells}
    assert {cell.op for cell in cells} == PROBED


def test_what_is_left_out_is_said(devices):
    assert "one device only" in left_out(devices[:1], THOROUGH)[0]
    assert "does not need them" in left_out(devices, THOROUGH)[0]
    assert "memory would not hold" in left_out(devices, SURVEY)[-1]


def test_a_survey_writes_rows_that_are_read_back(surveyed):
    assert set(surveyed["op"]) == PROBED
    streamed = surveyed[surveyed["op"] == "stream"]
    assert (streamed["moved_bytes"] > 0).all()
    assert set(streamed["label"]) == {"copy", "scale", "add", "triad"}
    copied = surveyed[surveyed["op"].isin(["to_device", "from_device"])]
    assert (copied["size_bytes"] > 0).all()


def test_what_the_step_model_explains_can_be_told_from_the_rest_of_a_survey(surveyed):
    """By its columns: single precision, no bytes through memory, steps that are waited for."""
    plain = surveyed[(surveyed["dtype"] == "float32") & surveyed["moved_bytes"].isna()]
    plain = plain[(plain["op"] != "step") | (plain["method"] == "single")]
    extra = surveyed.drop(plain.index)
    assert set(extra["op"]) == {"matmul", "step", "stream", "to_device", "from_device"}
    assert set(plain["op"]) == PROBED - {"stream", "to_device", "from_device"}
    assert set(plain.loc[plain["op"] == "step", "method"]) == {"single"}


def test_a_survey_is_measured(tmp_path, devices):
    """Operations that the plan for the step model does not hold; those it holds are swept there."""
    path, others = tmp_path / "survey.csv", ("permute", "stream", "dispatch", "to_device")
    with so.MeasurementWriter(path, describe(devices)) as writer:
        sweep(devices, writer, TINY_SURVEY, lambda *_: None, only=others)
    table = so.read_measurements(path).table
    assert set(table["op"]) == set(others)
    assert (table["time_s"] > 0).all()
