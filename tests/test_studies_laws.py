"""The numbers of the studies on efficiency, weak scaling, serial fractions and cost."""

import amdahl_efficiency
import karp_flatt_reading
import numpy as np
import pytest
import strong_and_weak
import tokens_cost
from scipy.optimize import minimize_scalar

SINGLE = 1e-5  # the studies count in float32
DOUBLE = 4e-15  # a few roundings in float64, 1.1e-16 each, grown by 1 − p where p is near 1
FITTED = 1e-5  # the fit stops where a step changes the parameters by less
ROBUST = 4e-3  # Tukey's loss weighs the worst of three rows less than least squares does


def test_amdahl_efficiency():
    found = amdahl_efficiency.efficiencies().to_dict("index")
    tenth = found[0.9]
    assert [tenth[f"S({n})"] for n in (2, 4, 8)] == pytest.approx(
        [1.8181818, 3.0769231, 4.7058824], rel=SINGLE
    )
    assert [tenth[f"E({n})"] for n in (2, 4, 8)] == pytest.approx(
        [0.90909091, 0.76923077, 0.58823529], rel=SINGLE
    )
    for p, half in {0.5: 3, 0.9: 11, 0.95: 21, 0.99: 101}.items():
        assert found[p]["N of half"] == pytest.approx(half, rel=SINGLE)
        assert found[p]["E there"] == pytest.approx(0.5, rel=SINGLE)


def test_the_two_forms_of_efficiency_are_one():
    p, devices = amdahl_efficiency.grid()
    assert amdahl_efficiency.largest_difference(p, devices) < DOUBLE
    assert (len(p), len(devices)) == (1001, 121)
    assert [p[0], p[-1], devices[0], devices[-1]] == pytest.approx([0, 1, 1, 1e6])


def test_strong_and_weak_scaling_share_a_serial_time():
    found = strong_and_weak.runs().to_dict("index")
    last = found[25]
    # In ms: 10 serial, and 10 for each cell of 19 or 500.
    assert last["S of layout"] == pytest.approx((10 + 190) / (10 + 190 / 25), rel=DOUBLE)
    assert last["S of city"] == pytest.approx((10 + 5000) / (10 + 200), rel=DOUBLE)
    assert last["city's cells"] == 500
    shares = [found[1]["serial on N"], last["serial on N"]]
    assert shares == pytest.approx([10 / 200, 10 / 17.6], rel=DOUBLE)
    of_city = [row["city's serial on N"] for row in found.values()]
    assert of_city == pytest.approx([10 / 210] * 25, rel=DOUBLE)
    assert last["city's serial on 1"] == pytest.approx(10 / 5010, rel=DOUBLE)


def test_the_fractions_of_amdahl_and_gustafson_lead_to_each_other():
    found = strong_and_weak.runs().to_dict("index")
    assert list(found) == list(range(1, 26))
    assert max(row["laws off by"] for row in found.values()) < DOUBLE


def test_the_serial_fraction_read_falls_by_more_than_rounding():
    found = karp_flatt_reading.readings().to_dict("index")
    expected = [(2 / 1.85 - 1) / 1, (4 / 3.4 - 1) / 3, (8 / 6 - 1) / 7]
    assert [found[n]["read"] for n in (2, 4, 8)] == pytest.approx(expected, rel=SINGLE)
    assert found[2]["low"] == pytest.approx(2 / 1.855 - 1, rel=SINGLE)
    assert found[8]["high"] == pytest.approx((8 / 5.95 - 1) / 7, rel=SINGLE)
    assert found[2]["low"] > 0.078
    assert found[8]["high"] < 0.0493


@pytest.mark.parametrize(
    ("form", "parameter", "time", "largest"),
    [
        ("Amdahl", "serial", lambda n, s: s + (1 - s) / n, 0.0290238),
        ("cost alone", "cost", lambda n, c: 1 / n + c, 0.0070934),
        ("power law", "exponent", lambda n, k: n**-k, 0.0182037),
    ],
)
def test_forms_of_one_parameter_fit_as_least_squares_does(form, parameter, time, largest):
    found = karp_flatt_reading.fits().to_dict("index")[form]
    devices, speedup = np.array([2, 4, 8.0]), np.array([1.85, 3.4, 6.0])

    def loss(value: float) -> float:
        return float(np.sum(np.log(time(devices, value) * speedup) ** 2))

    best = minimize_scalar(loss, bounds=(1e-3, 1), method="bounded", options={"xatol": 1e-10})
    assert found["fitted"][parameter] == pytest.approx(best.x, rel=ROBUST)
    assert found["largest"] == pytest.approx(largest, rel=1e-3)


def test_a_second_parameter_stays_at_zero():
    found = karp_flatt_reading.fits().to_dict("index")
    assert found["serial and cost"]["fitted"]["serial"] == 0
    assert found["serial and cost"]["largest"] == pytest.approx(
        found["cost alone"]["largest"], abs=FITTED
    )
    assert found["USL"]["fitted"]["coherency"] == 0
    assert found["USL"]["largest"] == pytest.approx(found["Amdahl"]["largest"], abs=FITTED)


def test_only_a_cost_gives_the_figures_as_printed():
    possible = {form for form in karp_flatt_reading.FORMS if karp_flatt_reading.allowed(form)}
    assert possible == {"serial and cost", "cost alone"}
    low, high = karp_flatt_reading.allowed("cost alone")["cost"]
    # 6.05 on 8 and 1.845 on 2 devices are the figures that end the range.
    assert (low, high) == pytest.approx((1 / 6.05 - 1 / 8, 1 / 1.845 - 1 / 2), rel=1e-9)
    costs = np.linspace(0.03, 0.05, 2001)
    printed = [
        [round(1 / (1 / n + c), digits) for n, digits in ((2, 2), (4, 1), (8, 1))] for c in costs
    ]
    giving = costs[[figures == [1.85, 3.4, 6.0] for figures in printed]]
    assert (giving.min(), giving.max()) == pytest.approx((low, high), abs=1e-5)  # the grid's step
    _, serial = karp_flatt_reading.allowed("serial and cost")["serial"]
    # Least cost at N = 2 and most at N = 8; their slopes in s are 1/2 and 7/8.
    rise = (1 / 5.95 - 1 / 8) - (1 / 1.855 - 1 / 2)
    assert serial == pytest.approx(rise / (7 / 8 - 1 / 2), rel=1e-9)


def test_the_scalability_law_would_need_negative_coherency():
    found = karp_flatt_reading.coherencies()
    # N/S − 1 = σ (N − 1) + κ N (N − 1), solved for each pair of points.
    for (a, b), coherency in found.items():
        matrix = np.array([[n - 1, n * (n - 1)] for n in (a, b)], float)
        speedup = {2: 1.85, 4: 3.4, 8: 6.0}
        solved = np.linalg.solve(matrix, [n / speedup[n] - 1 for n in (a, b)])
        assert coherency == pytest.approx(solved[1], rel=1e-4)  # differences of float32 readings
        assert coherency < 0
    assert [round(found[pair], 3) for pair in ((2, 4), (2, 8), (4, 8))] == [-0.011, -0.006, -0.003]


def test_cost_of_a_million_tokens():
    found = tokens_cost.costs().to_dict("index")
    table = [found[n] for n in (1, 2, 4, 8)]
    expected = [3 / 3600 * n * 1e6 / rate for n, rate in ((1, 50), (2, 92), (4, 170), (8, 300))]
    assert [row["$ a million"] for row in table] == pytest.approx(expected, rel=SINGLE)
    assert [round(row["$ a million"], 2) for row in table] == [16.67, 18.12, 19.61, 22.22]
    rises = [row["rise"] for row in table]
    assert rises == pytest.approx([0, 0.0869565, 0.1764706, 1 / 3], rel=SINGLE, abs=1e-7)
    assert rises == pytest.approx([row["1/E - 1"] for row in table], rel=SINGLE, abs=1e-7)


def test_the_published_cost_is_of_a_thousand_tokens_rounded():
    found = tokens_cost.costs().to_dict("index")
    thousand = [found[n]["$ a thousand, rounded"] for n in (1, 2, 4, 8)]
    assert thousand == pytest.approx([0.017, 0.018, 0.020, 0.022], rel=1e-9)  # rounded values
    assert (thousand[0], thousand[-1]) == pytest.approx(tokens_cost.PUBLISHED_ENDS, rel=1e-9)
    rises = [round(found[n]["its rise"], 2) for n in (1, 2, 4, 8)]
    assert rises == [found[n]["published rise"] for n in (1, 2, 4, 8)] == [0, 0.06, 0.18, 0.29]
