import datetime
import itertools

import pytest

import scaleopt as so
from scaleopt.data.catalog import QUANTITIES, NotKnownError, _whole, catalog, catalog_names

ENTRIES = [catalog(name) for name in catalog_names()]
NAMES = [entry.name for entry in ENTRIES]
REQUIRED = [
    "A100 SXM 40GB",
    "A100 SXM 80GB",
    "H100 SXM",
    "H100 PCIe",
    "H200",
    "B200",
    "B300",
    "GB200",
    "GB300",
    "L4",
    "L40S",
    "RTX 4090",
    "V100 SXM 32GB",
    "T4",
    "MI250X",
    "MI300X",
    "MI325X",
    "TPU v4",
    "TPU v5e",
    "TPU v5p",
    "TPU v6e",
    "Trainium 1",
    "Trainium 2",
    "2x EPYC 7742",
]
# From a server's memory and network ports to the fastest package sold, in SI and with room.
PLAUSIBLE = {
    "FLOP/s": (1e12, 2e16),
    "memory": (1e10, 1e12),
    "memory_bandwidth": (2e11, 1e13),
    "link_bandwidth": (1e10, 1e12),
    "link_alpha": (1e-7, 1e-4),
    "USD/s": (0.1 / 3600, 15 / 3600),
}


def test_the_devices_that_people_ask_for_are_there():
    assert set(REQUIRED) <= set(NAMES)


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_every_figure_has_a_source_a_date_and_a_sane_size(entry):
    assert {"memory", "memory_bandwidth"} <= set(entry.figures)
    assert any(it.unit == "FLOP/s" for it in entry.figures.values())
    for quantity, figure in entry.figures.items():
        assert len(figure.source) > 20
        assert datetime.date(2018, 1, 1) < datetime.date.fromisoformat(figure.date)
        assert (figure.provenance == "list price") == (quantity == "price")
        assert (figure.provenance == "assumed") == (quantity == "link_alpha")
        low, high = PLAUSIBLE.get(quantity, PLAUSIBLE.get(figure.unit, (0, 0)))
        assert low < figure.value < high


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_rates_are_dense(entry):
    rate = {it: figure.value for it, figure in entry.figures.items() if figure.unit == "FLOP/s"}
    # A sparse rate beside a dense one would make half the width four times as fast; sheets round
    # by up to 2 %, and one maker's fp4 is three times its fp8.
    for wide, narrow in itertools.pairwise([rate[it] for it in ("bf16", "fp8") if it in rate]):
        assert 0.98 < narrow / wide < 2.05
    if "fp4" in rate:
        assert 1.95 < rate["fp4"] / rate["fp8"] < 3.05
    if "tf32" in rate and "bf16" in rate:
        assert 0.98 < rate["bf16"] / rate["tf32"] < 2.05
    if "bf16" in rate and "fp16" in rate:
        assert rate["bf16"] == rate["fp16"]
    # No device computes more than this on a byte of its memory, in its narrowest type.
    assert max(rate.values()) / entry["memory_bandwidth"].value < 2000


@pytest.mark.parametrize(
    ("name", "quantity", "value"),
    [
        # NVIDIA prints 1,979 TFLOP/s of bf16 for the H100, with sparsity.
        ("H100 SXM", "bf16", 1979e12 / 2),
        ("H100 SXM", "fp8", 3958e12 / 2),
        ("A100 SXM 80GB", "bf16", 312e12),
        ("L4", "bf16", 242e12 / 2),
        # Twelve links of 25 GB/s, 18 of 25 GB/s, 18 of 50 GB/s: each way.
        ("A100 SXM 40GB", "link_bandwidth", 12 * 25e9),
        ("H100 SXM", "link_bandwidth", 18 * 25e9),
        ("B200", "link_bandwidth", 18 * 50e9),
        ("Trainium 2", "memory", 96 * 2**30),
        ("H100 PCIe", "price", 3.29 / 3600),
    ],
)
def test_figures_reckoned_another_way(name, quantity, value):
    # Printed numbers are rounded to three or four digits.
    assert catalog(name)[quantity].value == pytest.approx(value, rel=2e-3)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA B200 ", "B200"),
        ("AMD Instinct MI300X", "MI300X"),
        ("TPU v5 lite", "TPU v5e"),
        ("Tesla V100-SXM2-16GB", "V100 SXM 16GB"),
    ],
)
def test_a_device_is_found_by_what_it_calls_itself(kind, name):
    assert so.catalog(kind).name == name


@pytest.mark.parametrize("name", ["H100", "A100", "nvidia a100", "V100", "TPU v5", "MI3"])
def test_a_name_that_fits_several_asks_which(name):
    with pytest.raises(ValueError, match=r"may be .* or .*; say which"):
        catalog(name)


@pytest.mark.parametrize("name", ["H100 NVL", "NVIDIA RTX 6000D", "H200 NVL", "", "abacus"])
def test_a_device_that_is_not_there_is_not_replaced(name):
    with pytest.raises(ValueError, match="no other stands in for it"):
        catalog(name)


def test_what_no_text_gave_is_not_known():
    trainium = catalog("Trainium 2")
    assert trainium.get("price") is None
    with pytest.raises(NotKnownError, match="price of Trainium 2 is not known: no text"):
        trainium["price"]
    assert "price            not known" in str(trainium)
    with pytest.raises(ValueError, match="'colour' is not catalogued; use one of fp64"):
        trainium["colour"]


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_a_device_prints_every_quantity_and_every_source(entry):
    shown = str(entry)
    assert all(f"  {quantity} " in shown for quantity in QUANTITIES)
    assert all(figure.source in shown for figure in entry.figures.values())


def test_no_source_is_listed_for_nothing():
    used = {group["source"] for it in _whole()["devices"].values() for group in it["figures"]}
    assert used == set(_whole()["sources"])
