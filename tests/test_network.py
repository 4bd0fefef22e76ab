"""On a network whose delay and rate are known, the probe and the fit return them."""

import subprocess

import pytest
from network.found import GLOO, fitted, found
from network.measure import effort_for, measured
from network.ring import ring
from network.wire import Wire, missing, network

WIRE = Wire(delay=4e-3, rate=25e6)
WITHIN, TRIES = 0.05, 4
OPS = ("all_reduce", "permute", "all_to_all", "all_gather")

pytestmark = [pytest.mark.timed, pytest.mark.skipif(missing() is not None, reason=str(missing()))]


def test_sockets_see_the_delay(tmp_path):
    """Without JAX and without a fit: a byte that a ring of plain sockets passes on."""
    late, at_once = (ring(2, wire, tmp_path) for wire in (WIRE, Wire(0.0, WIRE.rate)))
    assert (late - at_once).value == pytest.approx(WIRE.delay, rel=WITHIN)


def test_a_network_leaves_nothing():
    with network(2, WIRE):
        pass
    links = subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    assert "net" not in [name.strip(": ")[:3] for name in links.split() if name.endswith(":")]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """What the probe measures over the network."""
    path = tmp_path_factory.mktemp("network") / "wire.csv"
    return measured(2, WIRE, OPS, effort_for(2, WIRE, 1.5), path)


def test_the_table_says_who_took_part(table):
    assert set(table["op"]) == set(OPS)
    assert (table["devices"] == 2).all()
    assert (table["nodes"] == 2).all()


def test_the_fit_returns_delay_and_rate(tmp_path):
    """With and without delay in one minute; a machine that others want misses now and then."""
    effort, ratios = effort_for(2, WIRE, 1.5), (0.0, 0.0)
    for turn in range(TRIES):
        delay, rate = all_reduce_over(WIRE, effort, tmp_path / f"wire-{turn}.csv")
        added, _ = all_reduce_over(Wire(0.0, WIRE.rate), effort, tmp_path / f"instant-{turn}.csv")
        ratios = (delay - added).value / WIRE.delay, rate.value / WIRE.payload_rate
        if ratios == pytest.approx((1, 1), abs=WITHIN):
            break
    assert ratios == pytest.approx((1, 1), abs=WITHIN), "delay and rate over what was put in"


def all_reduce_over(wire, effort, path):
    """Delay and rate that the all-reduces over a network show."""
    return found(fitted(measured(2, wire, OPS[:1], effort, path), OPS[0], 2), OPS[0], 2)


@pytest.mark.parametrize("op", OPS[1:])
def test_other_collectives_pay_their_own_number_of_delays_and_bytes(table, op):
    fit = fitted(table, op, 2)
    _, rate = found(fit, op, 2)
    assert round(fit.model.keywords["delay"] / WIRE.delay) == GLOO[op].hops(2)
    assert rate.value == pytest.approx(WIRE.payload_rate, rel=2 * WITHIN)  # not tried again
