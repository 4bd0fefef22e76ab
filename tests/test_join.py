"""Tables measured alike become one; others only when asked, and then it is said."""

import pandas as pd
import pytest

import scaleopt as so
from scaleopt.data.join import differences, likeness

CONTEXT = {
    "date": "2026-11-30",
    "host": "a",
    "platform": "cpu",
    "versions": {"jax": "0.10.2"},
    "environment": {},
}
TABLE = pd.DataFrame({"op": "step", "devices": 1, "round": [0, 1], "time_s": [1.0, 1.1]})


def test_another_day_or_host_is_alike():
    later = CONTEXT | {"date": "2027-01-01", "host": "b"}
    assert differences(CONTEXT, later) == []
    assert likeness(CONTEXT) == likeness(later)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"platform": "gpu"}, "platform is cpu and gpu"),
        ({"versions": {"jax": "0.11.0"}}, "versions.jax is 0.10.2 and 0.11.0"),
        ({"environment": {"NCCL_ALGO": "Tree"}}, "environment.NCCL_ALGO is None and Tree"),
    ],
)
def test_another_machine_version_or_flag_is_not(change, said):
    other = CONTEXT | change
    assert differences(CONTEXT, other) == [said]
    assert likeness(CONTEXT) != likeness(other)
    runs = [so.Measurements(TABLE, CONTEXT), so.Measurements(TABLE, other)]
    with pytest.raises(so.MeasurementError, match=f"not measured alike .*{said}"):
        so.join_measurements(runs)
    joined = so.join_measurements(runs, across=True)
    assert joined.context["joined_across"] == [f"table 2: {said}"]
    assert len(joined.table) == 4


def test_the_rounds_of_each_run_are_its_own():
    joined = so.join_measurements([so.Measurements(TABLE, CONTEXT)] * 3)
    assert joined.table["round"].tolist() == [0, 1, 2, 3, 4, 5]


def test_no_table_is_refused():
    with pytest.raises(so.MeasurementError, match="no table to join"):
        so.join_measurements([])


def test_an_interrupted_table_is_gone_on_with(tmp_path):
    path = tmp_path / "table.csv"
    row = {"op": "step", "devices": 1, "time_s": 1.0}
    with so.MeasurementWriter(path, CONTEXT) as writer:
        writer.append(row)
    with path.open("a") as file:
        file.write("step,1,")  # a crash in the middle of a row
    with so.MeasurementWriter(path, CONTEXT, resume=True) as writer:
        writer.append(row | {"time_s": 2.0})
    table, context = so.read_measurements(path)
    assert table["time_s"].tolist() == [1.0, 2.0]
    assert context == CONTEXT


def test_there_must_be_a_table_to_go_on_with(tmp_path):
    with pytest.raises(FileNotFoundError):
        so.MeasurementWriter(tmp_path / "none.csv", CONTEXT, resume=True)
