"""The table: what goes in comes back, and what is wrong is refused where it stands."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scaleopt as so
from scaleopt.data.schema import NAMES, OPS

HEADER = '# scaleopt-measurements 1 {"device_kind": "cpu"}\n'
COLUMNS = "op,devices,flops,size_bytes,time_s,method\n"
GOOD = "step,2,1e9,1e6,0.001,single\n"


def written(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    return path


numbers = st.floats(0, 1e18, allow_subnormal=False)
words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
rows = st.fixed_dictionaries(
    {
        "op": st.sampled_from(OPS),
        "devices": st.integers(1, 100_000),
        "flops": numbers | st.none(),
        "size_bytes": numbers | st.none(),
        "round": st.integers(0, 1000),
        "time_s": st.floats(1e-12, 1e6),
        "method": st.just("single") | st.integers(1, 999).map(lambda k: f"chain {k}"),
        "oversubscribed": st.booleans(),
        "label": words,
    }
)


@given(st.lists(rows, min_size=1, max_size=8), st.dictionaries(words, words, max_size=3))
def test_what_is_written_is_read(tmp_path_factory, many, context):
    path = tmp_path_factory.mktemp("table") / "t.csv"
    so.write_measurements(path, pd.DataFrame(many), context)
    table, found = so.read_measurements(path)
    assert found == context
    assert list(table.columns) == list(NAMES)
    for row, (_, back) in zip(many, table.iterrows(), strict=True):
        for name, value in row.items():
            if value is None:
                assert np.isnan(back[name])
            else:
                assert back[name] == value, name


TRAINED = {
    **{"op": "train_step", "devices": 8, "time_s": 1.5, "hidden": 4096, "heads": 32, "layers": 32},
    **{"seq_len": 2048, "global_batch": 64, "tensor": 8, "recompute": "selective"},
}


def test_rows_of_training_steps_bring_their_own_columns(tmp_path):
    so.write_measurements(tmp_path / "t.csv", pd.DataFrame([TRAINED]), {})
    table, _ = so.read_measurements(tmp_path / "t.csv")
    assert table.loc[0, list(TRAINED)].to_dict() == TRAINED
    assert "pipeline" not in table


def test_a_wrong_recomputation_is_refused(tmp_path):
    wrong = pd.DataFrame([TRAINED | {"recompute": "some"}])
    with pytest.raises(so.MeasurementError, match="'some'; write one of none, selective, full"):
        so.write_measurements(tmp_path / "t.csv", wrong, {})


def test_a_table_is_gone_on_with_in_its_own_columns(tmp_path):
    path = written(tmp_path, HEADER + COLUMNS + GOOD)
    with so.MeasurementWriter(path, {}, resume=True) as writer:
        writer.append({"op": "step", "devices": 4, "time_s": 0.25})
    assert so.read_measurements(path).table["devices"].tolist() == [2, 4]


def test_each_row_is_on_disk_before_the_next(tmp_path):
    path = tmp_path / "t.csv"
    with so.MeasurementWriter(path, {}) as writer:
        for count in range(1, 4):
            writer.append({"op": "step", "devices": 1, "time_s": 0.5})
            assert len(so.read_measurements(path).table) == count == writer.rows


def test_a_table_that_is_there_is_not_overwritten(tmp_path):
    path = written(tmp_path, HEADER + COLUMNS + GOOD)
    with pytest.raises(FileExistsError, match="is not overwritten; choose another --out"):
        so.MeasurementWriter(path, {})
    assert len(so.read_measurements(path).table) == 1


def test_a_cut_last_line_is_dropped_with_a_word(tmp_path):
    path = written(tmp_path, HEADER + COLUMNS + GOOD + "step,2,1e9")
    with pytest.warns(so.TruncatedLineWarning, match=r"table.csv:4: the last line was cut off"):
        table, _ = so.read_measurements(path)
    assert len(table) == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the file is empty"),
        ("op,devices,time_s\n" + GOOD, ":2: 6 cells where 3 columns are"),
        ("who,what\n" + GOOD, ":1: not a scaleopt table"),
        (HEADER.replace(" 1 ", " 9 ") + COLUMNS + GOOD, ":1: schema version 9 is not known"),
        ("# scaleopt-measurements 1 {oops\n" + COLUMNS + GOOD, ":1: the context is not JSON"),
        ("# scaleopt-measurements 1 []\n" + COLUMNS + GOOD, ":1: the context must be a JSON obj"),
        (HEADER, ":2: the line of column names is missing"),
        (HEADER + COLUMNS, "the table has no rows"),
        (HEADER + "op,devices\nstep,1\n", ":2: column 'time_s' is missing"),
        (HEADER + "op,devices,time_us\nstep,1,5\n", "column 'time_us' is not known; use 'time_s'"),
        (HEADER + "op,devices,time_s,color\n", ":2: column 'color' is not known; the columns are"),
        (HEADER + "op,op,devices,time_s\n", ":2: column 'op' stands twice"),
        (HEADER + COLUMNS + GOOD + "step,2,1e9\n" + GOOD, ":4: 3 cells where 6 columns are"),
        (HEADER + COLUMNS + "dance,2,1e9,1e6,0.1,single\n", ":3: op 'dance' is not known; use one"),
        (HEADER + COLUMNS + "step,2,1e9,1e6,nan,single\n", ":3: time_s is nan; it must be finite"),
        (HEADER + COLUMNS + "step,2,1e9,1e6,inf,single\n", ":3: time_s is inf; it must be finite"),
        (HEADER + COLUMNS + "step,2,1e9,1e6,-0.1,single\n", ":3: time_s is -0.1; it must be above"),
        (HEADER + COLUMNS + "step,2,1e9,1e6,0,single\n", ":3: time_s is 0; it must be above 0"),
        (HEADER + COLUMNS + "step,2,1e9,1e6,,single\n", ":3: time_s is empty; every row needs one"),
        (
            HEADER + COLUMNS + "step,2,1e9,1e6,5 us,single\n",
            ":3: time_s is '5 us', not a plain num",
        ),
        (
            HEADER + COLUMNS + "step,0,1e9,1e6,0.1,single\n",
            ":3: devices is 0; it must be 1 or more",
        ),
        (HEADER + COLUMNS + "step,1.5,1e9,1e6,0.1,single\n", ":3: devices is 1.5; it must be a wh"),
        (HEADER + COLUMNS + "step,2,-1,1e6,0.1,single\n", ":3: flops is -1; it must be 0 or more"),
        (
            HEADER + COLUMNS + "step,2,1e9,1e6,0.1,chain\n",
            ":3: method must be 'single' or 'chain k'",
        ),
    ],
)
def test_what_is_wrong_is_refused_where_it_stands(tmp_path, text, complaint):
    path = written(tmp_path, text)
    with pytest.raises(so.MeasurementError, match=re.escape(complaint)) as error:
        so.read_measurements(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"op": "step", "devices": 1, "time_s": float("nan")}, "time_s is empty"),
        (
            {"op": "step", "devices": 1, "time_ms": 1.0},
            "column 'time_ms' is not known; use 'time_s",
        ),
        ({"op": "step", "devices": 1, "time_s": 1.0, "label": "a\nb"}, "holds a line break"),
    ],
)
def test_a_wrong_row_is_not_written(tmp_path, row, complaint):
    with (
        so.MeasurementWriter(tmp_path / "t.csv", {}) as writer,
        pytest.raises(so.MeasurementError, match=complaint),
    ):
        writer.append(row)
    assert writer.rows == 0


def test_a_csv_with_our_columns_is_a_table_without_a_context(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("\ufeffop,devices,time_s\r\nstep,1,2.0\r\nstep,2,1.0")
    table, context = so.read_measurements(path)
    assert context == {}
    assert table["time_s"].tolist() == [2.0, 1.0]
    path.write_text("op,devices,time_s\nstep,1,-2.0\n")
    with pytest.raises(so.MeasurementError, match=r"mine.csv:2: time_s is -2.0"):
        so.read_measurements(path)
    path.write_text("op,devices,seconds\nstep,1,2.0\n")
    with pytest.raises(so.MeasurementError, match=r"mine.csv:1: column 'seconds' is not known"):
        so.read_measurements(path)
