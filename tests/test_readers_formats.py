"""Each format's own rows, whatever stands around them; damage is said, never passed on."""

import contextlib
import gzip
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutated_logs import trial
from readers_printed import key, printed_rows
from readers_samples import MAPPED, MAPPING, NCCL, NCCL_ROWS, OSU, SAMPLES

import scaleopt as so
from scaleopt.data.measurements import MeasurementError, write_measurements
from scaleopt.data.readers.extrap import write_extrap
from scaleopt.data.readers.read import read_rows


def rows_of(table):
    return list(table[["op", "devices", "size_bytes", "time_s"]].itertuples(index=False, name=None))


def check(table, expected):
    found = rows_of(table)
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    np.testing.assert_allclose([row[2:] for row in found], [row[2:] for row in expected])


@pytest.mark.parametrize("name", SAMPLES)
def test_rows(name, tmp_path):
    text, more, expected = SAMPLES[name]
    path = tmp_path / "x.log"
    path.write_text(text)
    table, context = so.read_log(path, **more)
    check(table, expected)
    assert context["imported"]["skipped"] == 0
    write_measurements(tmp_path / "table.csv", table, context)
    again, told = so.read_measurements(tmp_path / "table.csv")
    assert rows_of(again) == rows_of(table)
    assert told == json.loads(json.dumps(context))


WRAPPINGS = {
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16 without a mark": lambda text: text.encode("utf-16-le"),
    "UTF-8 with a mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "colours": lambda text: text.replace("\n", "\x1b[0m\n\x1b[32m").encode(),
    "Open MPI tags": lambda text: _each("[1,0]<stdout>:", text),
    "Slurm labels": lambda text: _each(" 0: ".strip() + " ", text),
    "time stamps": lambda text: _each("2024-05-01T10:11:12.123456789Z ", text),
    "a pod and a time": lambda text: _each("2024-05-01T10:11:12Z [1,0]<stdout>:", text),
    "markdown": lambda text: b"# Results\n\n```bash\n" + text.encode() + b"```\n",
    "rank names": lambda text: _each("rank0: ", text),
}


def _each(front, text):
    return "".join(front + line + "\n" for line in text.splitlines()).encode()


@pytest.mark.parametrize("name", WRAPPINGS)
def test_what_others_write_around_the_lines(name, tmp_path):
    path = tmp_path / "x.log"
    path.write_bytes(WRAPPINGS[name](NCCL))
    check(so.read_log(path).table, NCCL_ROWS)


def test_a_row_that_contradicts_itself_is_reported(tmp_path):
    path = tmp_path / "x.log"
    path.write_text(NCCL.replace("100.00   10.49", "200.00   10.49"))
    table, context = so.read_log(path)
    check(table, NCCL_ROWS[:-2])
    [skipped] = context["imported"]["skipped_lines"]
    assert skipped["line"] == 17
    assert "200.00" in skipped["text"]
    assert skipped["why"] == "size, time and bandwidth do not agree"


DOUBLE = {
    "the last two rows joined, and a third decimal": (
        [("2.46       0\n     1048576", "2.46       0     1048576"), ("10.00 ", "10.005")],
        [],
    ),
    "a cell moved to the left, and another last digit": (
        [("   100.00   10.49   15.73", "   100.01   10.49  15.73")],
        NCCL_ROWS[:4],
    ),
}


@pytest.mark.parametrize("name", DOUBLE)
def test_two_faults_that_hide_one_another_are_reported(name, tmp_path):
    changes, left = DOUBLE[name]
    text = NCCL
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "x.log"
    path.write_text(text)
    if left:
        check(so.read_log(path).table, left)
    else:
        with pytest.raises(MeasurementError, match="no row that can be read"):
            so.read_log(path)


def test_one_row_is_left_and_it_is_no_step_of_the_table(tmp_path):
    path = tmp_path / "x.log"
    head, *rows = OSU.rstrip("\n").rsplit("\n", 5)
    broken = [f"{row}  x" for row in rows]
    broken[2] = rows[2].replace("4 ", "40", 1)
    path.write_text("\n".join([head, *broken]))
    with pytest.raises(MeasurementError, match="no row that can be read"):
        so.read_log(path, devices=8)
    broken[2] = rows[2]
    path.write_text("\n".join([head, *broken]))
    assert len(so.read_log(path, devices=8).table) == 1


def test_a_collective_whose_name_is_lost_is_no_message_between_two(tmp_path):
    path = tmp_path / "x.log"
    path.write_text(OSU.replace("Allgather ", ""))
    with pytest.raises(MeasurementError, match="columns of a collective"):
        so.read_log(path, devices=8)


def test_decimals_that_the_benchmark_does_not_print(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(SAMPLES["nccl-tests, JSON"][0].replace('"time":50.000000', '"time":50.0000004'))
    with pytest.raises(MeasurementError, match="more decimals than the benchmark prints"):
        so.read_log(path)


def test_a_quotation_that_does_not_end_is_reported(tmp_path):
    text, more, rows = SAMPLES["oneCCL, CSV"]
    path = tmp_path / "x.csv"
    path.write_text(text.replace("30,36", '30,"36'))
    table, context = so.read_log(path, **more)
    assert len(table) == len(rows) - 1
    assert context["imported"]["skipped_lines"][0]["why"] == "a quotation that does not end"


def test_a_row_out_of_line_with_its_header_is_reported(tmp_path):
    text, more, _ = SAMPLES["DeepSpeed"]
    path = tmp_path / "x.log"
    path.write_text(text.replace("524288x2                  100", "524285x2         100"))
    with pytest.raises(MeasurementError, match="begin where the header's do"):
        so.read_log(path, **more)


def test_ranks_that_say_different_sizes_are_reported(tmp_path):
    text, more, _ = SAMPLES["torch"]
    path = tmp_path / "x.log"
    path.write_text(text.replace("1 data size: 4.0", "1 data size: 8.0"))
    with pytest.raises(MeasurementError, match="that another rank does not say"):
        so.read_log(path, **more)


def test_a_row_below_a_damaged_header_is_reported(tmp_path):
    text, more, rows = SAMPLES["nccl-tests, old"]
    path = tmp_path / "x.log"
    broken = text.replace("       size ", "       siz  ")
    cut = broken.index("   float") + 8
    path.write_text(broken[:cut] + broken[cut + 39 :])
    table, context = so.read_log(path, **more)
    assert len(table) == len(rows) - 2
    assert context["imported"]["skipped"] == 2


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ((",1,20,30,", ",1,2v,30,"), "are not all numbers"),
        (("allgatherv,,float32,4,16384", "allgatherv,B,float32,4,16384"), "reduction 'B'"),
    ],
)
def test_cells_beside_the_times_are_looked_at_too(change, why, tmp_path):
    text, more, rows = SAMPLES["oneCCL, CSV"]
    path = tmp_path / "x.csv"
    path.write_text(text.replace(*change))
    table, context = so.read_log(path, **more)
    assert len(table) == len(rows) - 1
    assert why in context["imported"]["skipped_lines"][0]["why"]


def test_latencies_of_a_row_have_as_many_decimals(tmp_path):
    path = tmp_path / "x.log"
    path.write_text(OSU.replace("12.10 ", "12100 "))
    _, context = so.read_log(path, devices=8)
    assert "different decimals" in context["imported"]["skipped_lines"][0]["why"]


def test_a_row_that_ran_into_the_units_is_reported(tmp_path):
    text, more, rows = SAMPLES["nccl-tests, old"]
    units, first = text.splitlines()[2:4]
    path = tmp_path / "x.log"
    path.write_text(text.replace(f"{units}\n{first}", units + first[30:].replace("20.97", "j20")))
    table, context = so.read_log(path, **more)
    assert len(table) == len(rows) - 2
    assert context["imported"]["skipped"] == 1


def test_a_message_inside_a_row_is_reported(tmp_path):
    path = tmp_path / "x.log"
    path.write_text(NCCL.replace("   0    50.00", " host0:11:11 [0] NCCL INFO x\n   0    50.00"))
    table, context = so.read_log(path)
    check(table, NCCL_ROWS[:-2])
    assert context["imported"]["skipped"] == 2


def test_what_the_log_does_not_say_is_asked_for(tmp_path):
    path = tmp_path / "x.log"
    path.write_text(OSU)
    with pytest.raises(
        MeasurementError, match=r"how many devices.*devices=… \(scaleopt import --devices\)"
    ):
        so.read_log(path)
    path.write_text("mpirun -np 16 ./osu_allgather\n" + OSU)
    table, context = so.read_log(path)
    assert set(table["devices"]) == {16}
    assert context["notes"] == ["devices 16: from the launcher's command or job record"]


def test_devices_from_the_bandwidths_are_said(tmp_path):
    path = tmp_path / "x.log"
    path.write_text("\n".join(line for line in NCCL.splitlines() if "Rank" not in line))
    table, context = so.read_log(path)
    check(table, NCCL_ROWS)
    assert context["notes"] == ["devices 4: from busbw/algbw, as the log does not say"]


def test_overrides(tmp_path):
    path = tmp_path / "x.log"
    path.write_text(OSU)
    table, _ = so.read_log(path, devices=4, nodes=2, op="all_reduce")
    assert rows_of(table)[0] == ("all_reduce", 4, 1.0, pytest.approx(10.1e-6))
    assert set(table["nodes"]) == {2}
    with pytest.raises(MeasurementError, match="op 'sort' is not one of all_reduce"):
        so.read_log(path, op="sort")


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 3000, b"hello\n", gzip.compress(b"x" * 999, mtime=0), b"{", b"[[[[[", b"a,b\n"],
)
def test_a_file_of_no_known_format_names_those_we_know(content, tmp_path):
    path = tmp_path / "x.log"
    path.write_bytes(content)
    said = r"nccl-tests|not JSON|compressed \(gzip\); unpack it first|the file is empty"
    with pytest.raises(MeasurementError, match=said):
        so.read_log(path)


def test_mapping(tmp_path):
    path = tmp_path / "x.json"
    records = pd.read_csv(__import__("io").StringIO(MAPPED)).to_dict("records")
    path.write_text(json.dumps({"runs": records}))
    check(so.read_log(path, mapping=MAPPING).table, SAMPLES["mapped CSV"][2])
    path.write_text("\n".join(map(json.dumps, records)))
    check(so.read_log(path, mapping=MAPPING).table, SAMPLES["mapped CSV"][2])
    for wrong, words in (
        ({"seconds": "time_us"}, "the columns are op, devices"),
        ({**MAPPING, "time_s": "time_us:parsec"}, "unit 'parsec'"),
        ({"time_s": "time_us:us"}, "op, devices is not said"),
        ({"time_s": "duration"}, "no column 'duration'.*it has num_gpus"),
    ):
        with pytest.raises(MeasurementError, match=words):
            so.read_log(path, mapping=wrong)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_damaged_row_is_never_passed_on_in_silence(name, tmp_path):
    """What cannot be known of a damaged log, `readers_printed` says; 100,000 are tried by hand."""
    outcome, silent = trial(name, 150, 1, tmp_path)
    assert outcome.total() == 150
    assert not silent


@pytest.mark.parametrize("name", SAMPLES)
def test_what_can_be_printed_is_judged_in_another_way(name, tmp_path):
    """The judge reads the samples as they are, and nothing that a benchmark does not print."""
    text, more, _ = SAMPLES[name]
    path = tmp_path / "x.log"
    path.write_text(text)
    known = [key(row) for row in read_rows(path, **more).log.gathered.rows]
    assert printed_rows(name, text, known) == known
    assert printed_rows(name, "~" + text, known) is None


@given(
    name=st.sampled_from(sorted(SAMPLES)),
    place=st.floats(0, 1),
    cut=st.integers(0, 80),
    junk=st.binary(max_size=40),
)
@settings(max_examples=150, deadline=None)
def test_no_bytes_make_it_crash(name, place, cut, junk, tmp_path_factory):
    """Whatever stands in a log, of any encoding or none, it is read or refused."""
    text, more, _ = SAMPLES[name]
    path = tmp_path_factory.getbasetemp() / "bytes.log"
    whole = text.encode()
    at = int(place * len(whole))
    path.write_bytes(whole[:at] + junk + whole[at + cut :])
    with contextlib.suppress(MeasurementError):
        found = read_rows(path, **more)
        assert len(found.log.gathered) > 0


TIMES = st.lists(st.floats(1e-7, 1e3), min_size=1, max_size=3)
CELLS = st.dictionaries(
    st.tuples(st.integers(1, 4096), st.integers(0, 2**40)), TIMES, min_size=1, max_size=5
)


@given(cells=CELLS, op=st.sampled_from(["all_reduce", "all_gather", "step", "matmul", "send"]))
@settings(max_examples=50, deadline=None)
def test_extrap_text_and_back(cells, op, tmp_path_factory):
    path = tmp_path_factory.mktemp("extrap") / "x.txt"
    rows = [(op, devices, size, time) for (devices, size), times in cells.items() for time in times]
    table = pd.DataFrame(rows, columns=["op", "devices", "size_bytes", "time_s"])
    assert write_extrap(path, table) == []
    assert rows_of(so.read_log(path).table) == rows
