"""Every published log is read: rows, sizes, ranks, times as counted by hand; bandwidths as ours."""

import os
from pathlib import Path

import numpy as np
import pytest

import scaleopt as so
from scaleopt.data.readers.read import read_log
from scaleopt.units import GB, GiB, us

FOLDER = Path(os.environ.get("SCALEOPT_DATA", Path(__file__).parents[2] / "shared" / "data"))
LOGS = FOLDER / "logs"
pytestmark = pytest.mark.skipif(not LOGS.is_dir(), reason=f"no published logs in {LOGS}")

TOLD = {"nccom_trainium": {"devices": 64, "op": "all_reduce"}}
"""What a log does not say."""
HAND = {
    # rows, sizes, devices, nodes, last size [B], its times [µs]: counted and read off by hand
    "imb_archer2_allreduce_004nodes.out": (22, 22, {512}, set(), 4194304, [19537.04]),
    "imb_archer_allreduce_032nodes.out": (22, 22, {768}, set(), 4194304, [12734.76]),
    "nccl_2rank_2node_aws-eks_efa.log": (62, 30, {2}, set(), 1073741824, [378919, 381119]),
    "nccl_a100-class_x16_2node_azure-aks_gpudirect-rdma_NA.log": (
        32, 16, {16}, set(), 8589934592, [86026, 86106],
    ),
    "nccl_a100x16_2node_aws-p4d-efa_allreduce_noisy.log": (
        60, 30, {16}, {2}, 4294967296, [183834, 184216],
    ),
    "nccl_a100x8_allreduce_old-format.log": (68, 33, {8}, {1}, 8589934592, [63896, 63959]),
    "nccl_a100x8_alltoall_old-format.log": (68, 30, {8}, {1}, 8589934592 * 8, [33508, 33234]),
    "nccl_b200_x8-x16_gke-a4_outofplace-only.md.log": (
        24, 12, {8, 16}, {1, 2}, 17179869184, [35561, 47062],
    ),
    "nccl_h100_x16-x32-x64_ib-ndr_allreduce_5tables.md.log": (
        140, 14, {16, 32, 64}, {2, 4, 8}, 8589934592,
        [52733, 52754, 34508, 34514, 51285, 51350, 43211, 43506, 41015, 41056],
    ),
    "nccl_h100x16_2node_gcp-a3mega_allreduce.log": (62, 31, {16}, {2}, 8589934592, [47535, 47743]),
    "nccl_h100x8_aws-p5_allreduce_mpitag.log": (64, 32, {8}, set(), 17179869184, [62239, 62200]),
    "nccl_h200x4_allreduce_bytestep-truncated.log": (
        4, 2, {4}, {1}, 1074790400, [4562.52, 4542.38],
    ),
    "nccl_rtx6000d_x16_2node_allreduce+alltoall_v2.18.log": (
        96, 28, {16}, {2}, 8589934592 * 16, [175163, 176698],
    ),
    "nccom_trainium_allreduce.log": (17, 17, {64}, set(), 524288, [343.84]),
    "osu_gce-gpu_allreduce_08nodes.out": (19, 19, {64}, {8}, 1048576, [3752.37]),
    "osu_gke-cpu_allreduce_064nodes.out": (19, 19, {3584}, {64}, 1048576, [7212.86]),
    "rccl_mi300x_x8_1node_allreduce.log": (62, 31, {8}, {1}, 8589934592, [47617, 47584]),
    "rccl_mi325x_1-2-4-8node_allreduce_largest.log": (
        24, 3, {8, 16, 32, 64}, {1, 2, 4, 8}, 17179869184,
        [94222, 94185, 91973, 91996, 94942, 94968, 96405, 96498],
    ),
    "torch_allreduce_v100x16_4node_jeanzay.log": (80, 1, {16}, set(), 4_000_000_000, None),
}  # fmt: skip


def raw(name, folder):
    """A copy of the log without the lines that its collectors put on top."""
    text = (LOGS / name).read_text()
    path = folder / name
    path.write_text(text.split("## ---- raw text below", 1)[1].split("\n", 1)[1])
    return path


def told(name):
    return next((more for start, more in TOLD.items() if name.startswith(start)), {})


@pytest.mark.parametrize("name", HAND)
def test_counts_made_by_hand(name, tmp_path):
    rows, sizes, devices, nodes, last, times = HAND[name]
    table, context = read_log(raw(name, tmp_path), **told(name))
    assert len(table) == rows
    assert table["size_bytes"].nunique() == sizes
    assert set(table["devices"]) == devices
    assert set(table["nodes"].dropna()) == nodes
    assert table["size_bytes"].max() == last
    if times:
        biggest = table[table["size_bytes"] == last]
        np.testing.assert_allclose(biggest["time_s"], np.array(times) * us, rtol=1e-12)
    assert context["imported"]["skipped"] == 0


def test_every_published_log_has_counts():
    assert {path.name for path in LOGS.iterdir()} == set(HAND)


def half(cell):
    """Half a unit of the last digit that is printed, which rounding may have added or taken."""
    return 0.5 * 10.0 ** -len(cell.partition(".")[2])


def printed_numbers(path):
    """Time, algbw and busbw as printed, of every row: read off the lines in another way."""
    for line in path.read_text().splitlines():
        cells = line.split(">:")[-1].split()
        if len(cells) < 6 or not cells[0].isdigit() or not cells[2][:1].isalpha():
            continue
        numbers = [place for place, cell in enumerate(cells) if "." in cell and place > 2]
        at = numbers[0] - (cells[2 : numbers[0]][-1].isdigit())
        yield cells[at : at + 3]
        if len(cells) - at >= 7:
            yield cells[at + 4 : at + 7]


@pytest.mark.parametrize(
    "name", [name for name in HAND if name.startswith(("nccl", "rccl", "ncco"))]
)
def test_printed_bandwidths_are_ours(name, tmp_path):
    """To the printed digits: those of the bandwidth, and those of the time that ours is from."""
    path = raw(name, tmp_path)
    table, _ = read_log(path, **told(name))
    unit = GiB if name.startswith("nccom") else GB
    known = table[["op", "size_bytes", "devices", "time_s"]].to_dict("records")
    for row, (shown, *rates) in zip(known, printed_numbers(path), strict=True):
        size, time, devices = (float(row[name]) for name in ("size_bytes", "time_s", "devices"))
        assert time == pytest.approx(float(shown) * us, rel=1e-12)
        # nccl-tests' size of an all-to-all is what one device holds
        held = size / (devices if row["op"] == "all_to_all" else 1)
        algbw = float(so.algorithm_bandwidth(held, time)) / unit
        busbw = float(so.bus_bandwidth(size, time, devices, collective=row["op"])) / unit
        for ours, cell in zip((algbw, busbw), rates, strict=True):
            # the benchmark divided by the time before it was rounded, we divide by the printed one
            of_time = ours * half(shown) / (float(shown) - half(shown))
            in_single = 1e-6 * ours  # the library's formulas here compute in single precision
            assert abs(ours - float(cell)) <= half(cell) + of_time + in_single


def test_printed_throughputs_are_ours(tmp_path):
    """torch's: twice the size over the time, in bits, and N - 1 of N of that on the bus."""
    path = raw("torch_allreduce_v100x16_4node_jeanzay.log", tmp_path)
    table, _ = read_log(path)
    lines = path.read_text().splitlines()
    throughputs = [line.split()[2] for line in lines if "algo throughput: " in line]
    size, devices = float(table["size_bytes"][0]), int(table["devices"][0])
    bits = sorted(float(cell) for cell in throughputs)
    ours = sorted(16 * float(so.algorithm_bandwidth(size, time)) for time in table["time_s"])
    slack = 5e-5 / table["time_s"].min() + 1e-6  # four decimals of seconds; single precision
    np.testing.assert_allclose(ours, bits, rtol=slack)
    buses = {line.split()[1] for line in lines if line.strip().startswith("busbw: ")}
    factors = [8 * float(so.bus_bandwidth(size, 1.0, devices, collective="all_reduce"))]
    for cell in buses:
        assert any(
            abs(factor / (16 * size / bit) / GB - float(cell)) <= half(cell) + 1e-6 * float(cell)
            for bit in bits
            for factor in factors
        )
