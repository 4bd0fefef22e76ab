import csv
import json
import re
from types import SimpleNamespace

import pandas as pd
import pytest

from scaleopt.fitting.calibrate import calibrate
from scaleopt.models.step import StepTime
from scaleopt.show.export.registry import FORMATS, export

STEP = StepTime(rate=100e12, alpha=8e-6, beta=1 / 25e9, serial_time=0.01, launch=3e-5)
# A noiseless table: what the fit gives back is the truth to the solver's tolerance.
CLOSE = 1e-3


@pytest.fixture(scope="module")
def fit():
    rows = []
    for n in (2, 4, 8):
        for size in (1e3, 1e5, 1e7, 1e9):
            wire = 2 * (n - 1) * 8e-6 + 2 * (n - 1) / n * size / 25e9
            rows.append(("all_reduce", n, None, size, 3e-5 + wire))
    for n in (1, 2, 4, 8):
        for work in (1e12, 1e13):
            rows.append(("step", n, work, 1e8, float(STEP(n, work, 1e8))))
            rows.append(("matmul", n, work, None, 3e-5 + work / (n * 100e12)))
    names = ["op", "devices", "flops", "size_bytes", "time_s"]
    return calibrate(pd.DataFrame(rows, columns=pd.Index(names)).assign(nodes=1))


def data_lines(text):
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_xla_speaks_microseconds_and_gigabytes(fit):
    (flag,) = data_lines(export(fit, "xla").text)
    name, _, options = flag.partition("=")
    assert name == "--xla_gpu_analytical_latency_estimator_options"
    found = dict(pair.split("=") for pair in options.split(","))
    assert found["nccl_op_launch_us"] == "30"
    assert found["rtt_us"] == "16"
    assert found["gpus_per_node"] == "8"
    assert float(found["nic_speed_gbps"]) == pytest.approx(25, rel=CLOSE)


def test_nccl_covers_every_size_once(fit):
    rows = list(csv.reader(data_lines(export(fit, "nccl").text)))
    assert [len(row) for row in rows] == [8] * len(rows)
    assert [row[3] for row in rows] == ["tree", "ring"]
    assert rows[0][1] == "0"
    assert int(rows[1][1]) == int(rows[0][2]) + 1
    assert rows[-1][2] == "4294967295"


def test_json_formats_are_in_their_own_units(fit):
    (network,) = json.loads(export(fit, "calculon").text)["networks"]
    assert network["bandwidth"] == pytest.approx(25, rel=CLOSE)
    assert network["latency"] == pytest.approx(8e-6, rel=CLOSE)
    assert json.loads(export(fit, "calculon").text)["matrix"]["tflops"] == pytest.approx(100, 1e-2)
    profile = json.loads(export(fit, "taccl").text)
    assert profile["alpha"] == pytest.approx(8, rel=CLOSE)
    # 1 MB at 25 GB/s takes 40 µs.
    assert profile["node_betas_list"] == pytest.approx([40], rel=CLOSE)
    assert profile["node_invbws_list"] == pytest.approx([48], rel=CLOSE)


def test_yaml_formats_are_in_their_own_units(fit):
    astra = "\n".join(data_lines(export(fit, "astra-sim").text))
    found = {k: float(v) for k, v in re.findall(r"(\w+): \[ ([\d.]+) \]", astra)}
    assert found["bandwidth"] == pytest.approx(25, rel=CLOSE)
    assert found["latency"] == pytest.approx(8000, rel=CLOSE)
    assert found["npus_count"] == 8
    assert float(export(fit, "simai").text.splitlines()[2].split(": ")[1]) == pytest.approx(
        25, 0.01
    )


def test_the_skypilot_function_gives_the_model_s_seconds(fit):
    scope = {}
    exec(export(fit, "skypilot").text, scope)
    seconds = scope["estimate_runtime"](SimpleNamespace(accelerators={"H100": 8}))
    assert seconds == pytest.approx(float(STEP(8, 1e15, 1e9)), rel=5e-3)


def test_plain_json_tells_where_each_number_is_from(fit):
    found = json.loads(export(fit, "json").text)["constants"]
    assert found["alpha"]["provenance"] == "fitted"
    assert found["alpha"]["low"] <= 8e-6 * (1 + CLOSE)
    assert found["alpha"]["unit"] == "s"


def test_every_format_says_what_it_cannot_or_has_all(fit):
    for name in FORMATS:
        assert export(fit, name).unsaid or name == "json"


def test_an_unknown_format_is_refused(fit):
    with pytest.raises(ValueError, match="use one of xla"):
        export(fit, "xlsx")
