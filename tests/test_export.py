import csv
import dataclasses
import json
import math
import re
from importlib.resources import files
from types import SimpleNamespace

import jax
import jsonschema
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

import scaleopt as so
from scaleopt.cli import app
from scaleopt.fitting.calibrate import calibrate
from scaleopt.models.collectives import all_reduce_time
from scaleopt.models.step import StepTime
from scaleopt.show.export.registry import FORMATS, export, exported

RATE, ALPHA, BETA, SERIAL, LAUNCH = 100e12, 8e-6, 1 / 25e9, 0.01, 3e-5
STEP = StepTime(rate=RATE, alpha=ALPHA, beta=BETA, serial_time=SERIAL, launch=LAUNCH)
# A noiseless table: what the fit gives back is the truth to the solver's tolerance.
CLOSE = 1e-3
SIZES = (1e3, 1e5, 1e7, 1e9)
NOT_JSON = sorted(FORMATS.keys() - {"json", "taccl", "calculon"})


def all_reduces():
    """All-reduces of up to 8 devices."""
    rows = []
    for n in (2, 4, 8):
        for size in SIZES:
            wire = 2 * (n - 1) * ALPHA + 2 * (n - 1) / n * size * BETA
            rows.append(("all_reduce", n, None, size, LAUNCH + wire))
    return rows


def table_of(rows):
    names = ["op", "devices", "flops", "size_bytes", "time_s"]
    return pd.DataFrame(rows, columns=pd.Index(names))


def all_rows():
    rows = all_reduces()
    for n in (1, 2, 4, 8):
        for work in (1e12, 1e13):
            rows.append(("step", n, work, 1e8, float(STEP(n, work, 1e8))))
            rows.append(("matmul", n, work, None, LAUNCH + work / (n * RATE)))
    return table_of(rows)


@pytest.fixture(scope="module")
def fit():
    """Four nodes of two devices, where there are as many."""
    table = all_rows()
    nodes = (table["devices"] / 2).clip(lower=1)
    return calibrate(table.assign(nodes=nodes, dtype="bfloat16"))


@pytest.fixture(scope="module")
def one_node():
    return calibrate(table_of(all_reduces()).assign(nodes=1))


@pytest.fixture(scope="module")
def one_count():
    """All-reduces of one number of devices, which cannot tell α from the launch."""
    return calibrate(table_of([row for row in all_reduces() if row[1] == 8]))


def data_lines(text):
    return [line for line in text.splitlines() if not line.startswith("#")]


def xla_options(text):
    (flag,) = data_lines(text)
    name, _, options = flag.partition("=")
    assert name == "--xla_gpu_analytical_latency_estimator_options"
    return {key: float(value) for key, value in (it.split("=") for it in options.split(","))}


def xla_all_reduce(size, devices, it):
    """Seconds by XLA's own formula, from its options."""
    share, per_node = size / devices, it["gpus_per_node"]
    us = 1e-6
    transfer = share / (it["nic_speed_gbps"] * 1e9) * 1.025
    prepare = math.ceil(share / it["chunk_size_bytes"]) * it["chunk_prep_us"] * us
    step = transfer + prepare + it["rtt_us"] * us
    return it["nccl_op_launch_us"] * us + 2 * (devices - 1) / per_node * step


@pytest.mark.parametrize("size", SIZES)
def test_xla_reckons_what_the_fit_predicts(fit, size):
    options = xla_options(export(fit, "xla"))
    assert options["rtt_us"] == 15  # of 2 x 8 µs for the two ports of a node, less 1 of its chunk
    seconds = xla_all_reduce(size, 8, options)
    with jax.enable_x64(True):
        expected = float(all_reduce_time(size, 8, ALPHA, BETA, launch=LAUNCH))
    assert seconds == pytest.approx(expected, rel=CLOSE)


def test_xla_is_told_what_one_node_cannot_say(one_node):
    made = exported(one_node, "xla")
    assert "rows are of one node" in made.unsaid[0]
    assert made.text.index("rows are of one node") < made.text.index("--xla_gpu")
    assert xla_options(made.text)["gpus_per_node"] == 8


def test_xla_takes_no_time_below_a_microsecond(fit):
    quick = dataclasses.replace(fit, model=dataclasses.replace(fit.model, alpha=1e-7, launch=1e-8))
    options = xla_options(export(quick, "xla"))
    assert options["rtt_us"] == options["nccl_op_launch_us"] == 1


def test_xla_is_not_told_of_nodes_that_no_row_names(fit):
    options = xla_options(
        export(dataclasses.replace(fit, table=fit.table.drop(columns="nodes")), "xla")
    )
    assert "gpus_per_node" not in options
    assert options["rtt_us"] == 7


def nccl_times(size, devices, per_node, nodes):
    """Seconds of NCCL's tree and ring, by the steps and volumes of its own tuning."""
    tree = 2 * (per_node - 1 + math.floor(math.log2(nodes))) * ALPHA + 2 * size * BETA
    ring = 2 * (devices - 1) * ALPHA + 2 * (devices - 1) / devices * size * BETA
    return {"tree": tree, "ring": ring}


def test_nccl_covers_every_size_once_by_the_faster(fit):
    rows = list(csv.reader(data_lines(export(fit, "nccl"))))
    assert [len(row) for row in rows] == [8] * len(rows)
    assert [row[3] for row in rows] == ["tree", "ring"]
    assert {tuple(row[6:]) for row in rows} == {("4", "8")}
    assert rows[0][1] == "0"
    assert int(rows[1][1]) == int(rows[0][2]) + 1
    assert rows[-1][2] == "4294967295"
    for size in SIZES:
        (chosen,) = [row[3] for row in rows if int(row[1]) <= size <= int(row[2])]
        times = nccl_times(size, 8, 2, 4)
        assert chosen == min(times, key=lambda name: times[name])
    border = nccl_times(int(rows[0][2]), 8, 2, 4)
    assert border["tree"] == pytest.approx(border["ring"], rel=CLOSE)
    assert "not measured" in export(fit, "nccl")


def test_nccl_keeps_the_ring_on_one_node(one_node):
    rows = list(csv.reader(data_lines(export(one_node, "nccl"))))
    assert [row[1:4] for row in rows] == [["0", "4294967295", "ring"]]
    assert "a chain and saves nothing" in export(one_node, "nccl")


def calculon_time(network, op, size, devices):
    """Seconds by Calculon's own formula, from its JSON."""
    scalar, offset = network["ops"][op]
    moved = size * scalar * (1 + (offset or 0) / devices)
    return network["latency"] + moved / (network["bandwidth"] * 1e9 * network["efficiency"])


@pytest.mark.parametrize("size", SIZES)
def test_calculon_reckons_what_the_fit_predicts(fit, size):
    (network,) = json.loads(export(fit, "calculon"))["networks"]
    with jax.enable_x64(True):
        expected = float(all_reduce_time(size, 8, ALPHA, BETA, launch=LAUNCH))
    assert calculon_time(network, "all_reduce", size, 8) == pytest.approx(expected, rel=CLOSE)


def test_calculon_finds_the_keys_it_asserts(fit):
    system = json.loads(export(fit, "calculon"))
    (network,) = system["networks"]
    assert set(network) == {
        *("bandwidth", "efficiency", "size", "latency", "ops"),
        *("must_be_filled", "processor_usage"),
    }
    assert network["ops"]["p2p"][1] is None
    assert all(it[1] is not None for op, it in network["ops"].items() if op != "p2p")
    matrix = system["matrix"]["bfloat16"]
    assert matrix["tflops"] == pytest.approx(100, rel=1e-2)
    assert matrix["gflops_efficiency"] == [[0, 1.0]]
    assert system["scaleopt"]["constants"]["alpha"]["provenance"] == "fitted"


def test_taccl_finds_the_keys_it_asserts(fit):
    profile = json.loads(export(fit, "taccl"))
    assert profile["alpha"] == pytest.approx(8, rel=CLOSE)
    # 1 MB at 25 GB/s takes 40 µs.
    assert profile["node_betas_list"] == pytest.approx([40], rel=CLOSE)
    assert profile["node_invbws_list"] == pytest.approx([48], rel=CLOSE)
    assert profile["gpus_per_node"] == 2
    assert {"nics_per_node", "remote_alpha", "remote_beta", "remote_invbw"} <= set(profile)
    assert not {"links", "betas", "invbws"} & set(profile)


def test_taccl_is_told_that_several_nodes_are_not_one(fit, one_node):
    assert "these rows are of several" in exported(fit, "taccl").unsaid[0]
    assert not any("are of several" in it for it in exported(one_node, "taccl").unsaid)


def test_astra_sim_s_gigabytes_are_binary(fit):
    found = yaml.safe_load(export(fit, "astra-sim"))
    assert found["topology"] == ["Ring"]
    assert found["npus_count"] == [8]
    assert found["latency"] == pytest.approx([8000], rel=CLOSE)
    # Its backend takes a GB for 2^30 bytes: of those, 25e9 B/s are 23.28 a second.
    assert found["bandwidth"][0] * 2**30 == pytest.approx(25e9, rel=CLOSE)


@pytest.mark.parametrize(
    ("group", "flags"), [("TP", "-nv 25 -g_p_s 8"), ("DP", "-nic 12.5 -n_p_s 2 -g_p_s 2")]
)
def test_simai_has_one_title_and_nulls_for_what_was_not_measured(fit, one_node, group, flags):
    made = exported(fit if group == "DP" else one_node, "simai")
    title, *lines = made.text.splitlines()
    assert "fitted to 12 all_reduce" in title
    assert lines[15:] == ["PP:", "busbw: null"]
    for start, name in zip((0, 5, 10), ("TP", "DP", "EP"), strict=True):
        assert lines[start] == f"{name}:"
        values = dict(line.split(",: ") for line in lines[start + 1 : start + 5])
        assert list(values) == ["allreduce", "allgather", "reducescatter", "alltoall"]
        measured = {op: float(it) for op, it in values.items() if it != "null"}
        assert measured == ({"allreduce": pytest.approx(25, rel=CLOSE)} if name == group else {})
    assert any(it.endswith(flags) for it in made.unsaid)


def test_the_skypilot_function_gives_the_model_s_seconds(fit):
    scope = {}
    exec(export(fit, "skypilot"), scope)
    scope.update(STEPS=10_000)
    seconds = scope["estimate_runtime"](SimpleNamespace(accelerators={"H100": 8}))
    assert isinstance(seconds, int)
    assert seconds == pytest.approx(10_000 * float(STEP(8, 1e15, 1e9)), rel=5e-3)
    with pytest.raises(ValueError, match="no accelerators"):
        scope["estimate_runtime"](SimpleNamespace(accelerators=None))


SCHEMA = json.loads(
    files("scaleopt.show.export").joinpath("constants.schema.json").read_text(encoding="utf-8")
)


def test_plain_json_keeps_its_schema_and_tells_where_each_number_is_from(fit, one_node):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for each in (fit, one_node):
        jsonschema.validate(json.loads(export(each, "json")), SCHEMA)
    found = json.loads(export(fit, "json"))["constants"]
    assert found["alpha"]["provenance"] == "fitted"
    assert found["alpha"]["low"] <= ALPHA * (1 + CLOSE)
    assert found["alpha"]["unit"] == "s"
    assert found["overlap"] == {
        **{"value": 0, "low": None, "high": None, "unit": "1"},
        "provenance": "assumed",
    }
    alone = json.loads(export(one_node, "json"))["constants"]
    assert alone["rate"]["provenance"] == "not told"
    assert alone["rate"]["value"] is None
    assert alone["rate"]["high"] is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda it: it.pop("origin"), "'origin' is a required property"),
        (lambda it: it["constants"]["alpha"].pop("unit"), "'unit' is a required property"),
        (lambda it: it["constants"]["alpha"].update(low=None), "None is not of type 'number'"),
        (lambda it: it["constants"]["alpha"].update(provenance="guessed"), "is not one of"),
        (lambda it: it["constants"].pop("beta"), "'beta' is a required property"),
    ],
)
def test_the_schema_refuses_what_lacks_its_origin(fit, change, complaint):
    whole = json.loads(export(fit, "json"))
    change(whole)
    with pytest.raises(jsonschema.ValidationError, match=complaint):
        jsonschema.validate(whole, SCHEMA)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_says_where_it_is_from_and_what_it_lacks(fit, name):
    imported = {"file": "a.log", "format": "nccl-tests", "lines": 90, "skipped": 2}
    context = {"imported": imported, "nccl": "2.20.5", "notes": []}
    made = exported(fit, name, context=context)
    assert "fitted to 12 all_reduce, 8 step and 8 matmul rows on 1, 2, 4 and 8 devices" in made.text
    assert "rows from a.log (nccl-tests; 2 of 90 lines skipped); nccl 2.20.5" in made.text
    assert re.search(r"fitted.*95|95.*fitted|\"provenance\": \"fitted\"", made.text, re.DOTALL)
    assert made.unsaid or name == "json"
    if name != "simai":
        assert all(it in made.text for it in made.unsaid)


@pytest.mark.parametrize("name", ["nccl", "calculon", "astra-sim", "taccl", "skypilot"])
def test_what_a_format_cannot_do_without_is_asked_for(one_count, name):
    with pytest.raises(ValueError, match="not told by these rows"):
        export(one_count, name)


def test_what_the_rows_do_not_tell_is_left_to_the_tool(one_count):
    made = exported(one_count, "xla")
    assert "rtt_us" not in xla_options(made.text)
    assert "alpha: not told by these rows" in made.text
    assert any("rtt_us: these rows do not tell alpha" in it for it in made.unsaid)


def test_an_unknown_format_and_another_model_are_refused(fit):
    with pytest.raises(ValueError, match="use one of xla"):
        exported(fit, "xlsx")
    law = jax.tree_util.Partial(lambda devices, *, work: work / devices, work=1.0)
    with pytest.raises(TypeError, match="StepTime, and this is one of Partial"):
        so.export(dataclasses.replace(fit, model=law), "json")
    with pytest.raises(ValueError, match="the fit failed and has no constants"):
        so.export(dataclasses.replace(fit, failure="too few rows"), "json")


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "table.csv"
    context = {"device_kind": "simulated", "devices": 8, "platform": "gpu"}
    so.write_measurements(path, all_rows(), context)
    return path


def call(*arguments):
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


def test_the_command_prints_the_file_and_says_nothing_twice(saved):
    done = call("xla", saved)
    assert done.exit_code == 0, done.output
    assert data_lines(done.stdout)[0].startswith("--xla_gpu_analytical_latency_estimator_options=")
    assert "# table table.csv; device kind simulated" in done.stdout
    assert "not expressed" not in done.stderr


def test_what_a_file_does_not_express_is_said_aside(saved, tmp_path):
    done = call("xla", saved, "--out", tmp_path / "flags.txt")
    assert "not expressed: gpus_per_node" in done.stderr


def test_the_command_writes_a_file_and_overwrites_none(saved, tmp_path):
    out = tmp_path / "constants.json"
    assert call("json", saved, "--out", out, "--level", "0.9").exit_code == 0
    whole = json.loads(out.read_text())
    assert whole["level"] == 0.9
    jsonschema.validate(whole, SCHEMA)
    again = call("json", saved, "--out", out)
    assert again.exit_code == 3
    assert "constants.json" in again.stderr
    assert json.loads(out.read_text()) == whole


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["xlsx", "TABLE"], 3, "use one of xla"),
        (["xla", "none.csv"], 3, "none.csv"),
        (["XLA", "none.csv"], 3, "error: format 'XLA' is not known"),
        (["xla", "TABLE", "--out", "none/x.txt"], 3, "the file none/x.txt cannot be written"),
        (["xla", "TABLE", "--level", "95"], 2, "Invalid value for '--level'"),
        (["xla"], 2, "Missing argument"),
    ],
)
def test_the_command_refuses_with_a_reason(saved, arguments, code, complaint):
    done = call(*(saved if it == "TABLE" else it for it in arguments))
    assert done.exit_code == code
    assert complaint in re.sub(r"\s+", " ", done.output)


def test_a_log_is_exported_at_once(tmp_path):
    log = tmp_path / "all_reduce.log"
    head = [
        "# Collective test starting: all_reduce_perf",
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 1024 step: 4(factor)",
        *(
            f"#  Rank {rank:2d} Group  0 Pid {rank:4d} on  host device {rank:2d} [0x1b] NVIDIA H100"
            for rank in range(8)
        ),
        "#       size         count      type   redop    root     time   algbw   busbw #wrong",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)",
    ]
    rows = []
    for size in (1024, 65536, 4194304, 268435456):
        us = 1e6 * (LAUNCH + 14 * ALPHA + 1.75 * size * BETA)
        algbw = size / us / 1e3
        rows.append(
            f"{size:12d} {size // 4:12d}     float     sum      -1 {us:8.2f} {algbw:7.2f} "
            f"{1.75 * algbw:7.2f}      0"
        )
    log.write_text("\n".join(head + rows) + "\n")
    done = call("simai", log)
    assert done.exit_code == 0, done.output
    assert "rows from all_reduce.log (nccl-tests" in done.stdout
