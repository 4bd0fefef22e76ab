"""The numbers that the studies of rooflines, intensities and utilisation state."""

import matmul_rates
import mfu_reading
import pytest
import ridge_points
import rules_of_thumb
import saxpy_on_a100

import scaleopt as so

SINGLE = 1e-5  # the studies count in float32
TWO_DECIMALS = 0.005 + 1e-4  # half of the last published digit, and float32 of a percentage


def test_ridge_points():
    found = ridge_points.ridges().to_dict("index")
    expected = {
        "CPU fp32": 60 / 7,
        "RTX 4090 fp32": 82,
        "A100 fp32": 9.75,
        "H100 fp32": 670 / 33,
        "RTX 4090 bf16": 165.2,
        "A100 bf16": 156,
        "H100 bf16": 299.84848,
    }
    ridges = {chip: row["ridge FLOP/B"] for chip, row in found.items()}
    assert ridges == pytest.approx(expected, rel=SINGLE)
    for row in found.values():
        kept = [row[f"kept, s = {s}"] for s in (1, 4, 16)]
        assert kept == pytest.approx([0.5, 0.8408964, 0.9576033], rel=SINGLE)


@pytest.mark.parametrize("sharpness", ridge_points.SHARPNESS)
def test_rounding_costs_most_at_the_ridge(sharpness):
    kept = ridge_points.kept(312e12, 2e12, sharpness)
    assert ridge_points.RELATIVE[kept.argmin()] == pytest.approx(1, rel=SINGLE)
    assert kept.max() < 1 + SINGLE


def test_saxpy_on_a100():
    found = saxpy_on_a100.shares().to_dict("index")
    plain = found["fp32, 2 TB/s"]
    assert plain["FLOP/B"] == pytest.approx(1 / 6, rel=SINGLE)
    assert plain["attainable TFLOP/s"] == pytest.approx(1 / 3, rel=SINGLE)
    assert plain["TB/s for 1.5 %"] == pytest.approx(1.755, rel=SINGLE)
    shares = {case: row["% of peak"] for case, row in found.items()}
    expected = {
        "fp32, 2 TB/s": 1.7094017,
        "fp32, 40 GB card": 1.3290598,
        "fp32, 80 GB card": 1.7427350,
        "fp32, measured stream": 1.5034188,
        "fp64, 2 TB/s": 1.7182131,
        "bf16, 2 TB/s": 1.7094017,
        "bf16, matrix units' peak": 0.2136752,
    }
    assert shares == pytest.approx(expected, rel=SINGLE)


def test_rules_of_thumb():
    found = rules_of_thumb.intensities().to_dict("index")
    adding = [row["add"] for row in found.values()]
    assert adding == pytest.approx([1 / 12, 1 / 6, 1 / 3], rel=SINGLE)
    # A vector as long as 16384 is not nothing beside the matrix: 2/16384 of it.
    vector = [row["matrix × vector"] for row in found.values()]
    assert vector == pytest.approx([0.5, 1, 2], rel=1.3e-4)
    assert [row["0.1 holds"] for row in found.values()] == [True, False, False]
    assert [row["2 holds"] for row in found.values()] == [False, False, True]
    assert [row["GEMM n for 100"] for row in found.values()] == [600, 300, 150]
    assert [row["prefill tokens for 100"] for row in found.values()] == [200, 100, 50]
    assert [row["decode batch for 100, no cache"] for row in found.values()] == [200, 100, 50]


def test_what_keeps_an_intensity_below_100():
    found = rules_of_thumb.intensities().to_dict("index")
    for name, item in rules_of_thumb.ITEM.items():
        row = found[name]
        skinny = 2 / (1 / 16 + 2 / 2**14) / item
        assert row["skinny GEMM"] == pytest.approx(skinny, rel=SINGLE)
        most = 2 * 7e9 / (2 * 32 * 4096 * 2048 * item)
        assert row["decode at most"] == pytest.approx(most, rel=SINGLE)
        assert row["with 1/8 of the cache"] == pytest.approx(8 * most, rel=SINGLE)


def test_matmul_rates():
    assert matmul_rates.rates() == pytest.approx(
        {"4.6 ms": 29.878033, "2.1 s": 0.065447121}, rel=SINGLE
    )
    found = matmul_rates.shares().to_dict("index")
    for roof, expected in {
        "A100, bf16": (9.5762927, 0.020976641),
        "H100, bf16": (3.0195081, 0.0066141608),
        "RTX 4090, bf16": (18.085976, 0.039616902),
        "A100, fp32": (153.22068, 0.33562626),
        "CPU, fp32": (995.93444, 2.1815707),
    }.items():
        shares = [found[roof][f"% of peak at {told}"] for told in ("4.6 ms", "2.1 s")]
        assert shares == pytest.approx(expected, rel=SINGLE)
    assert found["A100, bf16"]["least ms"] == pytest.approx(0.44050947, rel=SINGLE)
    intensity = float(so.gemm_intensity(4096, 4096, 4096, 2))
    assert all(intensity > row["ridge FLOP/B"] for row in found.values())


def test_the_count_of_a_product_is_that_of_xla():
    found = matmul_rates.counts().to_dict("index")
    for ours, theirs in (
        ("2 m k n, bf16", "XLA, bf16 as written"),
        ("2 m k n, fp32", "XLA, fp32 compiled for a CPU"),
    ):
        assert found[ours] == found[theirs]
    assert found["2 m k n, bf16"] == {"FLOP": 137438953472, "bytes": 100663296}


def test_published_mfu_is_computed_again():
    for row in mfu_reading.runs().to_dict("records"):
        # The others publish one decimal, from times of three digits: 1.10 s may be 1.104.
        off = TWO_DECIMALS if str(row["model"]).startswith("MPT") else 0.05 + 0.005 * row["mfu"]
        assert row["recomputed"] == pytest.approx(row["mfu"], abs=off), row["model"]


def test_mfu_reading():
    found = mfu_reading.readings().to_dict("index")
    for kind, expected in {
        "all bf16": (37, 0, 8, 12, 17),
        "all fp8": (7, 2, 5, 0, 0),
        "A100 40GB bf16": (9, 0, 1, 2, 6),
        "A100 80GB bf16": (14, 0, 1, 2, 11),
    }.items():
        counted = tuple(found[kind][name] for name in ("runs", *mfu_reading.LIMITS))
        assert counted == expected
    assert (found["all bf16"]["lowest"], found["all bf16"]["highest"]) == (28.84, 64.23)
    assert (found["all fp8"]["lowest"], found["all fp8"]["highest"]) == (14.38, 30.25)


def test_another_peak_halves_the_mfu():
    found = mfu_reading.pairs().to_dict("index")
    assert len(found) == 6
    for row in found.values():
        assert row["fp8 run, bf16 peak"] == pytest.approx(2 * row["fp8 MFU"], abs=2 * TWO_DECIMALS)
        assert row["fp8 MFU"] < row["bf16 MFU"]
    faster = [row["faster %"] for row in found.values()]
    # Of tokens/s published as whole numbers, five digits and more.
    assert faster == pytest.approx([34.510, 9.790, 4.615, 30.617, 15.493, -0.279], abs=5e-3)
    assert found["MPT 1b, 32768"]["attention %"] == pytest.approx(70.03, abs=TWO_DECIMALS)
    assert found["MPT 3b, 32768"]["attention %"] == pytest.approx(66.29, abs=TWO_DECIMALS)
