"""The numbers that the studies of waiting and of what moves N* state."""

import jax
import jax.numpy as jnp
import numpy as np
import optimum_levers
import pytest
import slowest_of_many

PRINTED = 1e-3  # the findings state three or four digits


def test_slowest_of_many():
    waits = slowest_of_many.waits().to_dict("index")
    costs = [waits[n]["5 % spread costs %"] for n in (8, 256, 4096)]
    assert costs == pytest.approx([7.118, 14.13, 18.13], rel=PRINTED)
    assert max(abs(row["closed form off %"]) for row in waits.values()) < 0.15
    assert max(abs(row["Blom off %"]) for row in waits.values()) == pytest.approx(
        4.478, rel=PRINTED
    )
    half = slowest_of_many.exact(4096) / 2
    assert slowest_of_many.exact(17) < half <= slowest_of_many.exact(18)
    found = slowest_of_many.optima()
    optima = dict(zip(found["spread"].tolist(), found["N*"].tolist(), strict=True))
    assert optima[0.0] == pytest.approx(995.992, rel=1e-6)
    assert optima[0.05] == pytest.approx(1068.16, rel=1e-5)
    n = np.arange(900.0, 1300.0)
    waiting = np.array([slowest_of_many.closed(each) for each in n])
    times = 10 * (1 + 0.05 * waiting) / n + 2 * (n - 1) * 5e-6 + 2 * (n - 1) / n / 25
    assert n[times.argmin()] == 1068


def test_optimum_levers():
    found = optimum_levers.optima().to_dict("index")
    ring = found["flat ring"]
    assert ring["N*"] == pytest.approx(995.992, rel=1e-6)
    assert ring["T(256) ms"] == pytest.approx(121.3, rel=PRINTED)
    half = found["half the latency"]["N*"]
    assert half / ring["N*"] == pytest.approx(2**0.5, rel=1e-6)  # N* goes like 1/√α
    for lever in ("twice the bandwidth", "4 × compressed, free", "4 × compressed, 10 ps/B"):
        assert found[lever]["N*"] == pytest.approx(ring["N*"], rel=0.004)
    times = {
        "nodes of 8, fast inside": 54.91,
        "4 × compressed, free": 61.53,
        "twice the bandwidth": 81.46,
        "4 × compressed, 10 ps/B": 81.46,
        "half of compute hides": 101.77,
    }
    for lever, expected in times.items():
        assert found[lever]["T(256) ms"] == pytest.approx(expected, rel=PRINTED)
    assert found["nodes of 8, fast inside"]["N*"] == pytest.approx(2817, rel=PRINTED)
    assert found["double binary tree"]["N*"] == pytest.approx(2**14, rel=1e-6)
    assert found["double binary tree"]["T(256) ms"] == pytest.approx(125.9, rel=PRINTED)
    assert found["half of compute hides"]["N*"] == pytest.approx(701.4, rel=PRINTED)


@pytest.mark.parametrize("lever", ["nodes of 8, fast inside", "half of compute hides"])
def test_a_lever_moves_the_optimum_to_where_brute_force_finds_it(lever):
    devices = np.arange(8.0, 4000.0)
    time = optimum_levers.levers()[lever]
    with jax.enable_x64(True):
        times = np.asarray(time(jnp.asarray(devices), optimum_levers.WORK, optimum_levers.SIZE))
    best = optimum_levers.optima()["N*"].to_dict()[lever]
    assert abs(devices[times.argmin()] - best) <= 1
