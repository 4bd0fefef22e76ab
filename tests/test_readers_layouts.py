"""Layouts in which the same benchmarks' tables are found: what people and launchers make of them.

Every log here is of invented numbers, in a layout that stands in public repositories.
"""

import json

import numpy as np
import pandas as pd
import pytest
from readers_samples import IMB, MAPPING, NCCL, NCCL_ROWS, OSU

import scaleopt as so
from scaleopt.data.measurements import MeasurementError

HEADER = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""  # noqa: E501
SENDRECV = (
    "$ ./build/sendrecv_perf -b 1M -e 2M -f 2 -g 4\n"
    + HEADER
    + """\
     1048576        262144     float     sum      -1    100.0   10.49   10.49      0    200.0    5.24    5.24    N/A
     2097152        524288     float     sum      -1    200.0   10.49   10.49      0    400.0    5.24    5.24    N/A
"""  # noqa: E501
)
OLD_GATHER = (
    "mpirun -np 2 all_gather_perf -b 1M -e 1M\n"
    + HEADER
    + "     1048576        131072     float    none       0    100.0   10.49    5.24      0    50.00   20.97   10.49      0\n"  # noqa: E501
)
ELIDED = "\n".join([*NCCL.splitlines()[:15], "...", *NCCL.splitlines()[15:]])
ERRORS = """\
   nccl-tests% ./all_reduce_perf -b 1M -e 2M -f 2 -g 8
   #
   #       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
   #        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1048576        262144   float     sum    100.0   10.49   18.35  7e-07    100.0   10.49   18.35  7e-07
        2097152        524288   float     sum    100.0   20.97   36.70  1e-06    100.0   20.97   36.70  1e-06
"""  # noqa: E501
MARKDOWN = """\
Ran `all_reduce_perf -g 4`:

| size | count | type | redop | root | time | algbw | busbw | #wrong |
|-----:|------:|------|-------|-----:|-----:|------:|------:|-------:|
| 1048576 | 262144 | float | sum | -1 | 100.0 | 10.49 | 15.73 | 0 |
| 2097152 | 524288 | float | sum | -1 | 200.0 | 10.49 | 15.73 | 0 |
"""
SHORT = """\
$ ./build/all_reduce_perf -b 1M -e 4M -f 2 -g 8
[...]
           size    time   algbw   busbw
            (B)    (us)  (GB/s)  (GB/s)
      1_048_576   100.0   10.49   18.35
      2_097_152   100.0   20.97   36.70
      4_194_304   200.0   20.97   36.70
"""
DEEPSPEED = """\
> h2n0: [2026-02-02 21:48:10,503] [INFO] [launch.py:163:main] dist_world_size=8
> h2n0: ---- Performance of all_reduce on 8 devices ------------------------------------------------
> h2n0: Size (Bytes)         Description               Duration             Throughput (Gbps)    BusBW (Gbps)
> h2n0: ----------------------------------------------------------------------------------------------------
> h2n0: 16.0 GB              4294967296x4              1000.000 ms          274.878              240.518
"""  # noqa: E501
RAW_DEEPSPEED = """\

---- Performance of all_to_all on 4 devices ---------------------------------------------------------
Size (Bytes)         Description               Duration (us)        Throughput (GBps)    BusBW (GBps)
----------------------------------------------------------------------------------------------------
4194304              1048576x4                 100.000              41.943               31.457
8388608              2097152x4                 200.000              41.943               31.457
"""  # noqa: E501
TABLE = """\
Environment:
- software: torch=2.9.1, cuda=13.0

The average bandwidth of all_reduce over 8 ranks (5 warmups / 20 trials):

| payload |    busbw   |    algbw   |
| ------: | ---------: | ---------: |
|    1MiB |  36.70GBps |  20.97GBps |
|    2MiB |  73.40GBps |  41.94GBps |
|    4MiB |  73.40GBps |  41.94GBps |
Legend: 1KiB = 2**10 Bytes
"""
TAILS = """\
# OSU MPI-CUDA Allreduce Latency Test v7.4
# Datatype: MPI_FLOAT.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations  P50 Tail Lat(us)  P99 Tail Lat(us)
4                      10.10              9.00             12.00        1000             10.00             11.50
8                      10.40              9.10             12.10        1000             10.30             11.60
"""  # noqa: E501
NO_MARKS = """\
OSU MPI Broadcast Latency Test v5.9
  Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
1                       7.61              6.38              8.84        1000
2                       6.63              5.55              7.71        1000
"""
POINT_TO_POINT = """\
# OSU MPI Latency Test v5.6.3
# Size          Latency (us)
0                       1.20
1                       1.30
2                       1.40
"""
GROUPS = """\
# Benchmarking Sendrecv
# #processes = 4; rank order (rowwise):
#----------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]   Mbytes/sec
            1         1000         1.00         1.25         1.10         1.60
            2         1000         1.00         1.25         1.10         3.20
            4         1000         1.00         1.25         1.10         6.40
"""
IRONWOOD = {
    "metrics": {
        "step_time_ms_p50": 1.0, "step_time_ms_avg": 1.1, "step_time_ms_max": 1.4,
        "step_time_ms_min": 0.9, "achieved_bw (GB/s)_max": 2 * 7 / 8 * 2 * 2.097152 / 0.9,
    },
    "dimensions": {
        "op_type": "AR", "replica_group_type": "parallel", "rank": "8", "op_dimension": "1D",
        "input_num_elements": "1048576", "dtype_bytes": "2.0",
    },
}  # fmt: skip
PSUM = {
    "metrics": {
        "ici_time_ms_list": [1.0, 1.2], "ici_time_ms_avg": 1.1,
        "ici_bandwidth_gbyte_s_max": 2 * 3 / 4 * 2.097152 / 1.0,
    },
    "dimensions": {"test_name": "t_psum_AB12CD34", "matrix_dim": "1024", "dtype": "2",
                   "ici_size": "4", "dcn_size": "1"},
}  # fmt: skip
MEGA = 2**20


def scaled(time, *sizes):
    """Rows of one time each, in µs, as (operation, devices, size, time)."""
    return [(*size, time * 1e-6) for size in sizes]


LAYOUTS = {
    "sendrecv": (SENDRECV, {"devices": 4}, [
        ("permute", 4, 4 * MEGA, 1e-4), ("permute", 4, 4 * MEGA, 2e-4),
        ("permute", 4, 8 * MEGA, 2e-4), ("permute", 4, 8 * MEGA, 4e-4),
    ]),
    "a root of 0 where there is none": (
        OLD_GATHER, {}, [("all_gather", 2, MEGA, 1e-4), ("all_gather", 2, MEGA, 5e-5)],
    ),
    "rows left out by hand": (ELIDED, {}, NCCL_ROWS),
    "errors as numbers, indented": (ERRORS, {}, scaled(
        100, *[("all_reduce", 8, n * MEGA) for n in (1, 1, 2, 2)]
    )),
    "a table of markdown": (
        MARKDOWN, {}, [("all_reduce", 4, MEGA, 1e-4), ("all_reduce", 4, 2 * MEGA, 2e-4)],
    ),
    "columns left out": (SHORT, {}, [
        ("all_reduce", 8, MEGA, 1e-4), ("all_reduce", 8, 2 * MEGA, 1e-4),
        ("all_reduce", 8, 4 * MEGA, 2e-4),
    ]),
    "DeepSpeed behind pdsh": (DEEPSPEED, {}, [("all_reduce", 8, 2**34, 1.0)]),
    "DeepSpeed, raw": (RAW_DEEPSPEED, {}, [
        ("all_to_all", 4, 16 * MEGA, 1e-4), ("all_to_all", 4, 32 * MEGA, 2e-4),
    ]),
    "OSU with tails": (TAILS, {"devices": 8}, [
        ("all_reduce", 8, 4, 10.1e-6), ("all_reduce", 8, 8, 10.4e-6),
    ]),
    "OSU without marks": (NO_MARKS, {"devices": 4}, [
        ("broadcast", 4, 1, 7.61e-6), ("broadcast", 4, 2, 6.63e-6),
    ]),
    "OSU, sizes picked out": (
        "".join(OSU.splitlines(keepends=True)[place] for place in (0, 1, 2, 3, 7)),
        {"devices": 8}, [("all_gather", 8, 8, 10.1e-6), ("all_gather", 8, 128, 11.2e-6)],
    ),
    "OSU between two": (POINT_TO_POINT, {}, [
        ("send", 2, 0, 1.2e-6), ("send", 2, 1, 1.3e-6), ("send", 2, 2, 1.4e-6),
    ]),
    "IMB with bandwidths of both ways": (GROUPS, {}, scaled(
        1.1, *[("permute", 4, 4 * size) for size in (1, 2, 4)]
    )),
    "microbenchmarks, JSON lines": (
        json.dumps(IRONWOOD) + "\n" + json.dumps(PSUM), {},
        [("all_reduce", 8, 2 * MEGA, 1.1e-3), ("all_reduce", 4, 2 * MEGA, 1e-3),
         ("all_reduce", 4, 2 * MEGA, 1.2e-3)],
    ),
    "microbenchmarks, TSV": (
        pd.DataFrame([IRONWOOD["dimensions"] | IRONWOOD["metrics"]]).to_csv(sep="\t", index=False),
        {}, [("all_reduce", 8, 2 * MEGA, 1.1e-3)],
    ),
}  # fmt: skip


def read(tmp_path, text, **more):
    path = tmp_path / "x.log"
    path.write_text(text)
    return so.read_log(path, **more)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout(name, tmp_path):
    text, more, expected = LAYOUTS[name]
    table, context = read(tmp_path, text, **more)
    found = list(zip(*(table[key] for key in ("op", "devices")), strict=True))
    assert found == [row[:2] for row in expected]
    numbers = table[["size_bytes", "time_s"]]
    np.testing.assert_allclose(numbers, [row[2:] for row in expected], rtol=1e-12)
    assert context["imported"]["skipped"] == 0


def test_a_table_without_times(tmp_path):
    """A time is the payload over what is printed of its rate, and says so."""
    table, context = read(tmp_path, TABLE)
    assert set(table["devices"]) == {8}
    np.testing.assert_allclose(table["time_s"], [50e-6, 50e-6, 100e-6], rtol=5e-3 / 20.97)
    assert context["imported"]["skipped"] == 0
    assert context["notes"][0].startswith("times: payload over algbw")


def test_several_formats_in_one_log(tmp_path):
    table, context = read(tmp_path, IMB + "\nsome words\n" + NCCL + OSU, devices=None)
    assert context["imported"]["format"] == (
        "Intel MPI Benchmarks, nccl-tests, OSU micro-benchmarks"
    )
    assert len(table) == 16
    assert context["imported"]["skipped"] == 5  # OSU's, whose devices no one says
    assert "does not say how many devices" in context["imported"]["skipped_lines"][-1]["why"]


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    path = tmp_path / "x.parquet"
    pd.DataFrame({"num_gpus": [2, 4], "bytes": [1024, 1024], "time_us": [10.5, 12.5]}).to_parquet(
        path
    )
    table, _ = so.read_log(path, mapping=MAPPING)
    np.testing.assert_allclose(table["time_s"], [10.5e-6, 12.5e-6], rtol=1e-12)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(MeasurementError, match="not a Parquet file that can be read"):
        so.read_log(path, mapping=MAPPING)


def test_parquet_without_what_reads_it_is_said(tmp_path, monkeypatch):
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1")

    def lacks(*_, **__):
        raise ImportError

    monkeypatch.setattr(pd, "read_parquet", lacks)
    with pytest.raises(MeasurementError, match=r"needs pyarrow; pip install 'scaleopt\[parquet\]'"):
        so.read_log(path, mapping=MAPPING)
    with pytest.raises(MeasurementError, match="Parquet; say its columns with"):
        so.read_log(path)
