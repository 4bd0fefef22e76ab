"""Every number that is shown says where it is from."""

import dataclasses
import json

import pytest
import simulated

import scaleopt as so
from scaleopt.fitting.provenance import provenance
from scaleopt.planning.devices.choice import choose_devices
from scaleopt.show.origin import beside_the_datasheet, origin, origin_of_rows
from scaleopt.show.record import record

CONTEXT = {"device_kind": "simulated", "devices": 8, "platform": "gpu", "date": "2026-11-30"}
LOG = {"file": "a.log", "format": "nccl-tests", "lines": 90, "skipped": 2, "skipped_lines": []}


@pytest.fixture(scope="module")
def fit():
    return so.calibrate(simulated.table(0))


@pytest.fixture(scope="module")
def choice(fit):
    return choose_devices(fit, 1e14, 1e8, 8)


def numbers(value, path=()):
    """Every number in a record, by its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from numbers(inner, (*path, place))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def test_every_number_of_the_model_has_one_origin(fit):
    fields = {
        name for name in fit.model.__dataclass_fields__ if getattr(fit.model, name) is not None
    }
    assert set(fit.provenance) == fields
    assert {name for name, it in fit.provenance.items() if it == "fitted"} == set(fit.names)


def test_a_fit_that_failed_tells_nothing(fit):
    failed = dataclasses.replace(fit, failure="too few rows")
    assert "fitted" not in provenance(failed).values()


def test_every_number_of_the_record_says_where_it_is_from(fit, choice):
    found = record(fit, choice, CONTEXT)
    json.dumps(found, allow_nan=False)
    known = {"measured", "fitted", "datasheet", "assumed", "not told"}
    for path in numbers(found):
        if path[0] in ("parameters", "assumed"):
            assert found[path[0]][path[1]]["provenance"] in known
        elif path[0] in ("choice", "kinds"):
            within = found["choice"] if path[0] == "choice" else found["kinds"][path[1]]
            name = path[1] if path[0] == "choice" else path[2]
            assert within["provenance"].get(name, within["provenance"]["others"]) in known
        else:
            assert path[0] in ("version", "level", "context")
    assert set(found["parameters"]) | set(found["assumed"]) == set(fit.provenance)


def test_what_is_not_told_has_no_value(fit):
    failed = dataclasses.replace(fit, failure="too few rows")
    assert all(it["value"] is None for it in record(failed, None, CONTEXT)["parameters"].values())


def test_a_workload_that_no_step_had_is_assumed(fit, choice):
    assert record(fit, choice, CONTEXT)["choice"]["provenance"]["flops"] == "measured"
    asked = choose_devices(fit, 3e14, 1e8, 8)
    assert record(fit, asked, CONTEXT)["choice"]["provenance"]["flops"] == "assumed"
    assert any("as you gave them" in it for it in origin(fit, asked, CONTEXT)["assumed"])


def test_the_report_names_rows_parameters_and_what_was_held(fit, choice):
    said = so.report(fit, choice, CONTEXT | {"imported": LOG, "nccl": "2.20.5"})
    said = said[said.index("Where the numbers are from:") :]
    assert "measured: 180 step and 60 all_reduce rows on 1, 2, 4 and 8 devices" in said
    assert "rows from a.log (nccl-tests; 2 of 90 lines skipped)" in said
    assert "nccl 2.20.5" in said
    assert "fitted: rate, alpha, beta, serial_time, launch, to these rows" in said
    assert "assumed: compute_efficiency = 1; overlap = 0" in said
    assert "datasheet" not in said


def test_logs_that_were_joined_are_all_named():
    second = LOG | {"file": "b.log", "skipped": 0}
    (said,) = origin_of_rows({"imported": LOG, "joined": [LOG, second], "notes": []})
    assert said == (
        "rows from a.log (nccl-tests; 2 of 90 lines skipped), "
        "b.log (nccl-tests; 0 of 90 lines skipped)"
    )
    assert origin_of_rows({"devices": 8}) == []


def test_a_datasheet_stands_beside_the_fit_and_is_in_no_number(fit, choice):
    context = CONTEXT | {"device_kind": "NVIDIA A100-SXM4-40GB"}
    one_node = dataclasses.replace(fit, table=fit.table.assign(dtype="bfloat16", nodes=1))
    rate, link = beside_the_datasheet(one_node, context)
    assert rate.startswith("rate is 38 % of the A100 SXM 40GB's bf16: 312 TFLOP/s (datasheet: ")
    assert link.startswith("1/beta, 25 GB/s, is 8 % of the A100 SXM 40GB's links: 300 GB/s (data")
    assert "datasheet: rate is 38 %" in so.report(one_node, choice, context)
    with_sheet, without = record(one_node, choice, context), record(one_node, choice, CONTEXT)
    for part in ("parameters", "choice", "kinds"):
        assert with_sheet[part] == without[part]


@pytest.mark.parametrize(
    "change", [{"dtype": "float32"}, {"dtype": None}, {"dtype": "bfloat16", "nodes": 4}]
)
def test_a_datasheet_is_not_compared_with_what_it_does_not_print(fit, change):
    context = CONTEXT | {"device_kind": "NVIDIA A100-SXM4-40GB"}
    table = fit.table.assign(**{"nodes": 2} | change)
    said = beside_the_datasheet(dataclasses.replace(fit, table=table), context)
    assert len(said) == (change["dtype"] == "bfloat16")
    for unsure in ({}, {"device_kind": "A100"}, {"device_kind": "NVIDIA RTX 6000D"}):
        assert beside_the_datasheet(fit, unsure) == []


def test_a_prior_is_named_among_what_was_assumed():
    found = so.calibrate(simulated.table(0), priors={"alpha": so.Prior(5e-6, 1.5)})
    assert any("alpha was given a prior: 5e-06 within a factor of 1.5" in it for it in found.notes)
