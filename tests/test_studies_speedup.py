"""The numbers that the studies of the laws of speed-up state."""

import amdahl_ceiling
import pytest

SINGLE = 1e-5  # the studies count in float32


def test_amdahl_ceiling():
    found = amdahl_ceiling.speedups().to_dict("index")
    assert found[0.95]["ceiling"] == pytest.approx(20, rel=SINGLE)
    assert found[0.6]["ceiling"] == pytest.approx(2.5, rel=SINGLE)
    for p, expected in {
        0.5: (1.3333333, 1.7777778, 1.9980020),
        0.9: (1.8181818, 4.7058824, 9.9108028),
        0.99: (1.9801980, 7.4766355, 90.991811),
    }.items():
        row = [found[p][column] for column in ("N = 2", "N = 8", "N = 1000")]
        assert row == pytest.approx(expected, rel=SINGLE)
