"""On a network whose delay and rate are known, the probe and the fit return them."""

import subprocess

import pytest
from network.found import GLOO, Interval, fitted, found, own_delay, own_per_byte
from network.measure import effort_for, measured
from network.ring import ring
from network.wire import TURN, Wire, missing, network, sharing

WIRE = Wire(delay=4e-3, rate=25e6)
INSTANT = Wire(0.0, WIRE.rate)
WITHIN, TRIES = 0.05, 4
OTHERS = ("permute", "all_to_all", "all_gather", "reduce_scatter")

pytestmark = [pytest.mark.timed, pytest.mark.skipif(missing() is not None, reason=str(missing()))]


@pytest.fixture(scope="module")
def by_sockets(tmp_path_factory):
    """The delay one way, without JAX and without a fit: a byte that a ring passes on."""
    folder = tmp_path_factory.mktemp("sockets")
    late, at_once = (ring(2, wire, folder) for wire in (WIRE, INSTANT))
    return late - at_once


def test_sockets_see_the_delay(by_sockets):
    assert by_sockets.value == pytest.approx(WIRE.delay, rel=WITHIN)


def test_a_network_leaves_nothing():
    before = TURN.read_text()
    with network(2, WIRE):
        pass
    links = subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    assert "net" not in [name.strip(": ")[:3] for name in links.split() if name.endswith(":")]
    assert TURN.read_text() == before


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """What the probe measures over the network."""
    path = tmp_path_factory.mktemp("network") / "wire.csv"
    return measured(2, WIRE, OTHERS, effort_for(2, WIRE, 1.5), path)


def test_the_table_says_who_took_part(table):
    assert set(table["op"]) == set(OTHERS)
    assert (table["devices"] == 2).all()
    assert (table["nodes"] == 2).all()


def test_the_fit_returns_delay_and_rate(tmp_path, by_sockets):
    """With and without delay in one minute; a machine that others want misses now and then."""
    waking = by_sockets - Interval(WIRE.delay, WIRE.delay, WIRE.delay)
    shown = []
    for turn in range(TRIES):
        (delay, per_byte), (added, _), (_, copying) = (
            all_reduces(wire, tmp_path / f"{name}-{turn}.csv", together=name == "alone")
            for name, wire in {"here": WIRE, "instant": INSTANT, "alone": INSTANT}.items()
        )
        delay -= own_delay(added, waking, sharing(2))
        rate = (per_byte - own_per_byte(copying)).inverse()
        shown.append((over(delay, WIRE.delay), over(rate, WIRE.payload_rate)))
        if all(found_well(*each) for each in shown[-1]):
            break
    said = f"delay and rate over what was put in, with their 90 % intervals: {shown}"
    assert all(found_well(*each) for each in shown[-1]), said


def over(found, put_in):
    """What was found, and its interval, over what was put in."""
    return found.value / put_in, found.low / put_in, found.high / put_in


def found_well(value, low, high):
    """Whether it is near what was put in, and its interval holds that."""
    return abs(value - 1) < WITHIN and low <= 1 <= high


def all_reduces(wire, path, *, together):
    """Delay and seconds a byte that the all-reduces over a network show."""
    op = "all_reduce"
    rows = measured(2, wire, [op], effort_for(2, WIRE, 1.5), path, together=together)
    return found(fitted(rows, op, 2), op, 2)


@pytest.mark.parametrize("op", OTHERS)
def test_other_collectives_pay_their_own_number_of_delays_and_bytes(table, op):
    fit = fitted(table, op, 2)
    _, per_byte = found(fit, op, 2)
    assert round(fit.model.keywords["delay"] / WIRE.delay) == GLOO[op].hops(2)
    # Not tried again, so a wider bound.
    assert per_byte.inverse().value == pytest.approx(WIRE.payload_rate, rel=2 * WITHIN)
