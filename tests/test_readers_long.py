"""Long logs and lines that are meant to be slow: bounded memory, and no time that grows too fast.

A gigabyte is read by hand: python tests/test_readers_long.py 1000
"""

import random
import resource
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import pytest
from readers_samples import NCCL, NCCL_ROWS

import scaleopt as so
from scaleopt.data.measurements import MeasurementError
from scaleopt.data.readers import gathered

MEGA = 10**6
NOISE = (
    "host{}:{}:{} [{}] NCCL INFO Channel {}/0 : 0[{}] -> 1[0] via P2P/IPC/read",
    "[2026-05-01 10:00:00,{}][host{}][INFO] step {} loss: 2.{} lr 3e-{} grad_norm 1.{} tokens 4096",
    "  warnings.warn('the order of {} and {} was not as in {}, {}, {}, {}')",
)


def write_long(path, megabytes):
    """A log of ordinary lines, with a table's header above them and its rows among them."""
    rng = random.Random(0)
    head, rows = NCCL.split("        1024 ", 1)
    rows = ("        1024 " + rows).splitlines(keepends=True)
    block = "".join(
        rng.choice(NOISE).format(*(rng.randrange(1000) for _ in range(6))) + "\n"
        for _ in range(400)
    )
    with path.open("w") as file:
        file.write(head)
        for row in rows:
            file.write(row)
            for _ in range(int(megabytes * MEGA / len(rows) / len(block))):
                file.write(block)


def peak_of_reading(path):
    """Bytes that Python held at most, and what was read."""
    tracemalloc.start()
    try:
        table, _ = so.read_log(path)
        return tracemalloc.get_traced_memory()[1], table
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_log(tmp_path):
    path = tmp_path / "x.log"
    peaks = []
    for megabytes in (1, 3):
        write_long(path, megabytes)
        peak, table = peak_of_reading(path)
        peaks.append(peak)
        assert sorted(table["time_s"]) == pytest.approx(sorted(row[3] for row in NCCL_ROWS))
    assert peaks[1] < peaks[0] + 0.5 * MEGA


def test_rows_of_a_long_table_are_kept_as_columns(tmp_path, monkeypatch):
    """The same rows, however many are settled at a time; more than a table is worth is refused."""
    path = tmp_path / "x.log"
    head, _, rest = NCCL.partition("        1024 ")
    rows, _, foot = ("        1024 " + rest).partition("# Out")
    path.write_text(head + 40 * rows + "# Out" + foot)
    table, context = so.read_log(path)
    assert len(table) == 240
    monkeypatch.setattr(gathered, "FULL", 50)
    monkeypatch.setattr("scaleopt.data.readers.settle.FULL", 50)
    again, told = so.read_log(path)
    assert again.equals(table)
    assert told["imported"]["skipped"] == context["imported"]["skipped"]
    monkeypatch.setattr(gathered, "MOST", 100)
    with pytest.raises(MeasurementError, match="more than 100 rows in one file"):
        so.read_log(path)


SLOW = {
    "no line end": "x" * MEGA,
    "digits": "1" * MEGA,
    "a header's words": "# size count type time " * 40_000,
    "units": "#" + "(B) " * 200_000 + "GB",
    "dashes": "-" * MEGA + " Performance of",
    "titles": "# OSU MPI " * 100_000,
    "spaces": "1" + " " * MEGA + "x",
    "colours": "\x1b]" * 500_000,
    "workers": "worker" * 200_000,
    "launchers": "mpirun " * 150_000,
    "brackets": "[" * MEGA,
    "points": "PARAMETER p\nPOINTS " + "(" * 100_000,
    "deep JSON": '{"a":' * 100_000,
}


@pytest.mark.parametrize("name", SLOW)
def test_lines_that_are_meant_to_be_slow(name, tmp_path):
    """A megabyte of each takes far below a second; what grows faster than it would take hours."""
    path = tmp_path / "x.log"
    path.write_text(NCCL + SLOW[name] + "\n" if name not in ("points", "deep JSON") else SLOW[name])
    start = time.process_time()
    try:
        table, _ = so.read_log(path)
        assert len(table) == len(NCCL_ROWS)
    except MeasurementError:
        assert name in ("points", "deep JSON")
    assert time.process_time() - start < 10  # of a machine that is busy with other things


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "long.log"
        write_long(log, float(sys.argv[1]))
        size = log.stat().st_size
        started = time.process_time()
        rows, said = so.read_log(log)
        took = time.process_time() - started
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(f"{len(rows)} rows of {said['imported']['lines']} lines, {most:.0f} MB of memory at most")
    print(f"{size / MEGA / took:.1f} MB/s ({took:.1f} s of processor time)")
