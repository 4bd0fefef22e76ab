"""A plan says where its numbers are from, and the catalogue fills in what it prints of a device."""

import pandas as pd
import pytest

import scaleopt as so
from scaleopt.data.catalog import NotKnownError
from scaleopt.planning.asking.wish_list import plan_from_file
from scaleopt.units import hour

MODEL = so.Transformer(hidden=512, layers=4, heads=8, vocab=1000, seq_len=128)
MACHINE = so.Machine(rate=1e14, bandwidth=1e12, alpha=5e-6, beta=1e-11)


def test_the_catalogue_fills_in_what_is_not_given():
    offer = so.Offer.of("A100 SXM 80GB", MACHINE, devices=8, price=2 / hour)
    assert offer.name == "A100 SXM 80GB"
    assert (offer.memory, offer.peak_rate, offer.price) == (80e9, 312e12, 2 / hour)
    assert set(offer.sources) == {"memory", "peak_rate"}


def test_what_it_does_not_know_is_asked_for():
    with pytest.raises(ValueError, match="say how many H200"):
        so.Offer.of("H200", MACHINE)
    with pytest.raises(ValueError, match="not in the catalogue"):
        so.Offer.of("Abacus", MACHINE, devices=8)
    # No text that was read gives the dense bf16 rate of a T4: the machine's own rate serves.
    assert so.Offer.of("T4", MACHINE, devices=8).peak_rate is None
    assert isinstance(NotKnownError("x"), KeyError)


def test_every_number_of_a_plan_says_where_it_is_from():
    offers = [
        so.Offer.of("A100 SXM 80GB", MACHINE, devices=8, price=2 / hour, name="a"),
        so.Offer(MACHINE, devices=8, memory=40e9, name="b"),
    ]
    plan = so.plan(MODEL, offers, global_batch=8)
    where = plan.provenance
    assert where["a.memory"] == where["a.peak_rate"] == "datasheet"
    assert where["a.price"] == where["b.memory"] == where["a.rate"] == "assumed"
    assert where["step_time"] == "assumed"
    said = plan.explain().partition("Where the numbers are from:")[2]
    assert "a: datasheet: stas00/ml-engineering" in said
    assert "memory 80 GB" in said
    assert "b: assumed: memory 40 GB, as you gave it" in said


def test_a_rate_above_the_peak_is_said():
    said = "rate 100 TFLOP/s is above the peak rate 50 TFLOP/s: one of them is wrong"
    wishes = {"devices": 1, "memory": 40e9, "global_batch": 8}
    assert said in so.plan(MODEL, MACHINE, peak_rate=50e12, **wishes).explain()
    late = so.plan(MODEL, MACHINE, peak_rate=50e12, deadline=1e-9, **wishes)
    assert said in late.explain()
    assert "above the peak" not in so.plan(MODEL, MACHINE, peak_rate=2e14, **wishes).explain()


def test_a_plan_on_a_fit_rests_on_its_rows():
    step = so.StepTime(rate=1e14, alpha=1e-5, beta=1e-11, serial_time=1e-3)
    works = [(n, w, m) for n in (1, 2, 4, 8) for w, m in ((1e14, 1e6), (4e14, 1e6), (1e14, 1e9))]
    table = pd.DataFrame(works, columns=["devices", "flops", "size_bytes"]).assign(op="step")
    table["time_s"] = [float(step(*work)) for work in works]
    fit = so.calibrate(table)
    work = so.DataParallel(sample_flops=1e12, gradient_bytes=1e6, state_bytes=4e6)
    plan = so.plan(work, fit, global_batch=64, devices=8, memory=1e9)
    assert plan.provenance["rate"] == plan.provenance["step_time"] == "fitted"
    assert "measured: 12 step rows on 1, 2, 4 and 8 devices" in plan.explain()


def test_a_device_in_a_file(tmp_path):
    text = """
    [model]
    hidden = 512
    layers = 4
    heads = 8
    vocab = 1000
    seq_len = 128
    [run]
    global_batch = 8
    [[offer]]
    device = "%s"
    devices = 8
    [offer.machine]
    rate = "100 TFLOP/s"
    bandwidth = "1 TB/s"
    alpha = "5 us"
    link = "100 GB/s"
    """
    path = tmp_path / "run.toml"
    path.write_text(text % "H100 SXM")
    assert plan_from_file(path).provenance["memory"] == "datasheet"
    path.write_text(text % "H1000")
    with pytest.raises(ValueError, match=r"\[\[offer\]\] 1: device 'H1000'"):
        plan_from_file(path)
