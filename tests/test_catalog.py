import itertools

import pytest

from scaleopt.data.catalog import catalog, device

ENTRIES = list(catalog().values())
NAMES = [entry.name for entry in ENTRIES]


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_an_entry_is_complete_and_plausible(entry):
    assert entry.source
    assert len(entry.date) >= 7
    assert entry.rates
    assert all(rate > 0 for rate in entry.rates.values())
    # From a server's DDR to a TPU: no memory of a computer is slower or faster today.
    assert 1e11 < entry.memory_bandwidth < 2e13
    if entry.link_bandwidth is not None:
        assert 1e10 < entry.link_bandwidth < 2e12
    # Ridge points of the published devices lie between a CPU's in fp64 and the widest fp4.
    for rate in entry.rates.values():
        assert 1 < rate / entry.memory_bandwidth < 3000
    if entry.price is not None:
        assert 0.1 < entry.price.dollars_per_second * 3600 < 20
        assert entry.price.source
        assert entry.price.date


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_types_half_as_wide_are_up_to_twice_as_fast(entry):
    # A sparse rate beside a dense one would be four times as fast; rounding of datasheets is 2 %.
    order = [entry.rates[t] for t in ("bf16", "fp8", "fp4") if t in entry.rates]
    for wide, narrow in itertools.pairwise(order):
        assert 0.98 < narrow / wide < 3.05
    if "tf32" in entry.rates and "bf16" in entry.rates:
        assert 0.98 < entry.rates["bf16"] / entry.rates["tf32"] < 2.05
    if "fp16" in entry.rates and "bf16" in entry.rates:
        assert entry.rates["fp16"] == entry.rates["bf16"]


@pytest.mark.parametrize(
    ("name", "bf16"), [("A100 80GB SXM", 312e12), ("H100 SXM", 989e12), ("MI300X", 1307.4e12)]
)
def test_rates_are_dense(name, bf16):
    assert device(name).rates["bf16"] == pytest.approx(bf16)


def test_an_unknown_device_is_refused_with_the_nearest_names():
    with pytest.raises(ValueError, match=r"'H100 SXN'.*not replaced.*H100 SXM"):
        device("H100 SXN")
