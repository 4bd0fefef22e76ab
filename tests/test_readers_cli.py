"""`scaleopt import` and `scaleopt fit` of a log, as a user types them."""

import numpy as np
import pandas as pd
import pytest
from readers_samples import IMB, MAPPED, NCCL, NCCL_ROWS, OSU
from typer.testing import CliRunner

import scaleopt as so
from probes.measure import UNUSABLE
from scaleopt.cli import app
from scaleopt.units import GB, us


def call(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def logs(tmp_path):
    for name, text in (("a.log", NCCL), ("b.out", IMB), ("osu.out", OSU), ("my.csv", MAPPED)):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_several_logs_become_one_table(logs):
    out = logs / "table.csv"
    done = call("import", logs / "a.log", logs / "b.out", "-o", out)
    assert done.exit_code == 0, done.output
    for said in (
        f"{logs / 'a.log'}: nccl-tests, 6 rows",
        "  operations: all_reduce",
        "  sizes: 3, 1.02 kB to 1.05 MB",
        "  devices: 4",
        "  skipped lines: 0 of 19",
        f"{logs / 'b.out'}: Intel MPI Benchmarks, 10 rows",
        "  operations: send, all_to_all",
        f"16 rows written to {out}",
    ):
        assert said in done.stdout, done.stdout
    table, context = so.read_measurements(out)
    assert len(table) == 16
    assert [one["file"] for one in context["joined"]] == ["a.log", "b.out"]
    np.testing.assert_allclose(table["time_s"][:6], [row[3] for row in NCCL_ROWS])


def test_skipped_lines_are_shown_with_number_reason_and_text(logs):
    lines = NCCL.splitlines()
    lines[13] = lines[13].replace("10.00", "19.00")
    (logs / "a.log").write_text("\n".join(lines))
    done = call("import", logs / "a.log", "-o", logs / "table.csv")
    assert done.exit_code == 0
    assert "skipped lines: 1 of 19" in done.stdout
    assert "line 14: size, time and bandwidth do not agree: 1024 " in done.stdout
    assert len(so.read_measurements(logs / "table.csv").table) == 4


def test_what_the_log_does_not_say_is_asked_for_and_taken(logs):
    out = logs / "table.csv"
    done = call("import", logs / "osu.out", "-o", out)
    assert done.exit_code == UNUSABLE
    assert "does not say how many devices" in done.stderr
    assert not out.exists()
    done = call("import", logs / "osu.out", "-o", out, "--devices", 8, "--nodes", 2)
    assert done.exit_code == 0
    table, _ = so.read_measurements(out)
    assert set(table["devices"]) == {8}
    assert set(table["nodes"]) == {2}


def test_a_mapping(logs):
    out = logs / "table.csv"
    maps = ["op=all_reduce", "devices=num_gpus", "size_bytes=bytes", "time_s=time_us:us"]
    done = call("import", logs / "my.csv", "-o", out, *(x for m in maps for x in ("--map", m)))
    assert done.exit_code == 0, done.output
    table, _ = so.read_measurements(out)
    np.testing.assert_allclose(table["time_s"], [10.5e-6, 12.5e-6])
    done = call("import", logs / "my.csv", "-o", logs / "t2.csv", "--map", "devices")
    assert done.exit_code == 2
    assert "write COLUMN=THEIRS" in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("notes.txt", "nothing of the kind\n", "no format that is known: nccl-tests"),
        ("cut.log", NCCL[: NCCL.index("        1024 ")], "has no row that can be read"),
        ("empty.log", "", "the file is empty"),
        ("ours.csv", "op,devices,time_s\nstep,1,2\n", "a table of measurements already"),
        (
            "magic.csv",
            "# scaleopt-measurements 1 {}\nop,devices\n",
            "a table of measurements already",
        ),
        ("semi.csv", "op;devices;time_s\nstep;1;2\n", "divided by ';'; divide them by commas"),
    ],
)
def test_what_cannot_be_read_is_an_error_and_leaves_no_table(name, text, said, tmp_path):
    (tmp_path / name).write_text(text)
    done = call("import", tmp_path / name, "-o", tmp_path / "table.csv")
    assert done.exit_code == UNUSABLE
    assert said in done.stderr
    assert name in done.stderr
    assert not (tmp_path / "table.csv").exists()


def test_no_file_and_a_table_that_is_there_already(logs):
    done = call("import", logs / "none.log", "-o", logs / "table.csv")
    assert done.exit_code == UNUSABLE
    assert "none.log" in done.stderr
    (logs / "table.csv").write_text("precious")
    done = call("import", logs / "a.log", "-o", logs / "table.csv")
    assert done.exit_code == UNUSABLE
    assert "exists and is not overwritten" in done.stderr
    assert (logs / "table.csv").read_text() == "precious"


def test_logs_of_different_versions_are_joined_only_knowingly(logs):
    (logs / "a.log").write_text("NCCL version 2.18.3+cuda12.2\n" + NCCL)
    (logs / "b.log").write_text(NCCL + "NCCL version 2.13.4\n")
    both = ("import", logs / "a.log", logs / "b.log", "-o", logs / "table.csv")
    done = call(*both)
    assert done.exit_code == UNUSABLE
    assert "versions.nccl is 2.18.3+cuda12.2 and 2.13.4" in done.stderr
    assert call(*both, "--across").exit_code == 0


def nccl_log(alpha, beta, devices=8):
    """A log of all-reduces that take 2(N - 1)(α + βM/N), printed as nccl-tests prints."""
    head, _, table = NCCL.partition("#  Rank")
    header = table[table.index("#     ") : table.index("        1024 ")]
    ranks = [
        f"#  Rank {rank:2} Group  0 Pid  11 on host0 device {rank:2} [0000:{rank:02}:00] Invented A"
        for rank in range(devices)
    ]
    rows = []
    for size in 2 ** np.arange(10, 31):
        time = 2 * (devices - 1) * (alpha + beta * size / devices)
        rates = size / time / GB, 2 * (devices - 1) / devices * size / time / GB
        block = f"  {time / us:7.2f}  {rates[0]:6.2f}  {rates[1]:6.2f}  {0:6}"
        rows.append(f"{size:12}  {size // 4:12}     float     sum      -1{block}{block}")
    head = head.replace("nGpus 4", f"nGpus {devices}")
    return "\n".join([head + "\n".join(ranks), header + "\n".join(rows), ""])


def test_a_log_is_fitted_as_it_is(tmp_path):
    path = tmp_path / "h100.log"
    path.write_text(nccl_log(2 * us, 1 / (200 * GB)))
    done = call("fit", path)
    assert done.exit_code == 0, done.output
    assert "nccl-tests, 42 rows" in done.stderr
    assert "skipped lines: 0" in done.stderr
    assert "all_reduce" in done.stdout or "all-reduce" in done.stdout


def test_the_table_of_a_log_reads_back_as_it_was(logs):
    table, context = so.read_log(logs / "a.log")
    so.write_measurements(logs / "table.csv", table, context)
    again, told = so.read_measurements(logs / "table.csv")
    pd.testing.assert_frame_equal(again, table)
    assert told == context


def test_a_number_of_devices_that_the_bandwidths_contradict_is_refused(logs):
    done = call("import", logs / "a.log", "-o", logs / "t.csv", "--devices", 8)
    assert done.exit_code == UNUSABLE
    assert "the bandwidths of all_reduce on 4 devices, and not on the 8" in done.stderr
    assert not (logs / "t.csv").exists()
    done = call("import", logs / "osu.out", "-o", logs / "t.csv", "--devices", 8, "--nodes", 9)
    assert done.exit_code == UNUSABLE
    assert "nodes is 9" in done.stderr


def test_a_number_of_devices_in_place_of_the_launchers_is_said(logs):
    path = logs / "launched.out"
    path.write_text("mpirun -np 16 ./osu_allgather\n" + OSU)
    done = call("import", path, "-o", logs / "t.csv", "--devices", 8)
    assert "note: devices 8: as given, in place of the 16 that the log says" in done.stdout


@pytest.mark.parametrize(
    ("maps", "says"),
    [
        (["devices=num_gpu"], r"no column 'num_gpu' (--map devices=num_gpu); it has num_gpus"),
        (["op=sort"], "no column 'sort'"),
        (["time_s=time_us"], "column 'time_us' seems to be in us"),
    ],
)
def test_a_mapping_of_what_is_not_there_names_what_is(logs, maps, says):
    whole = {"op": "all_reduce", "devices": "num_gpus", "time_s": "time_us:us"}
    whole |= dict(one.split("=") for one in maps)
    options = [it for pair in whole.items() for it in ("--map", "=".join(pair))]
    done = call("import", logs / "my.csv", "-o", logs / "t.csv", *options)
    assert done.exit_code == UNUSABLE
    assert says in done.stderr
    assert "formats that are known" not in done.stderr


def test_comments_above_a_mapped_header_are_passed_over(logs):
    path = logs / "noted.csv"
    path.write_text("# taken on monday, twice\n# num_gpus are of one node\n#" + MAPPED)
    maps = ["op=all_reduce", "devices=num_gpus", "time_s=time_us:us"]
    options = [it for one in maps for it in ("--map", one)]
    done = call("import", path, "-o", logs / "t.csv", *options)
    assert done.exit_code == 0, done.output
    assert len(so.read_measurements(logs / "t.csv").table) == 2


def test_files_that_are_not_there_or_empty_are_said_so(logs):
    (logs / "empty.log").touch()
    assert "the file is empty" in call("import", logs / "empty.log", "-o", logs / "t.csv").stderr
    for command in (["import", logs / "no.log", "-o", logs / "t.csv"], ["fit", logs / "no.log"]):
        assert f"there is no file {logs / 'no.log'}" in call(*command).stderr
