"""Numbers as they are in reality: quantities of each unit, and devices, links, works, machines.

from hypothesis import given
from scaleopt.testing import machines, works

@given(machines(), works())
def test_a_step_takes_time(step, work):
    assert step(8, work.flops, work.size) > 0
"""

import math
from typing import NamedTuple

from scaleopt.models.step import StepTime

try:
    import hypothesis.strategies as st
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "scaleopt.testing draws its numbers with hypothesis; install it with "
        "pip install 'scaleopt[test]'"
    ) from error

Number = st.SearchStrategy[float]

_RANGES = {
    "s": (1e-9, 1e3),
    "B": (1.0, 1e13),
    "FLOP": (1e3, 1e20),
    "FLOP/s": (1e6, 1e16),
    "B/s": (1e6, 1e14),
    "s/B": (1e-14, 1e-6),
    "FLOP/B": (1e-3, 1e5),
    "1/s": (1e-3, 1e7),
    "USD/s": (1e-6, 1e2),
}
"""What a quantity of each unit is in reality, from a wire's latency to a day's work."""
_TAGGED = {
    "count": (1.0, 1e5),
    "fraction": (0.01, 0.99),
    "share": (0.01, 1.5),
    "excess": (1e-3, 3.0),
    "ratio": (1e-2, 1e5),
}


def quantities(unit: str, tag: str = "", *, edges: bool = False) -> Number:
    """Physically meaningful numbers of a unit, spread evenly over their orders of magnitude.

    Args:
        unit: such as "s", "B/s", "FLOP"; "1" with a tag.
        tag: "count", "fraction", "share", "excess" or "ratio" for numbers without a unit.
        edges: whether to draw the ends of the domain too: no bytes, one device, a fraction of 0.
    """
    low, high = reality(unit, tag)
    inner = st.floats(math.log(low), math.log(high)).map(math.exp)
    if tag == "fraction":
        inner = st.floats(low, high)
    if not edges:
        return inner
    ends = {
        "count": [1.0, 2.0],
        "fraction": [0.0, 1.0],
        "share": [1.0],
        "ratio": [1.0],
        "excess": [0.0],
    }.get(tag, [])
    if unit in ("s", "B", "FLOP", "s/B"):
        ends = [0.0]
    return st.one_of(inner, st.sampled_from(ends)) if ends else inner


def reality(unit: str, tag: str = "") -> tuple[float, float]:
    """The least and the most that a quantity of this unit is in reality.

    Args:
        unit: such as "s", "B/s", "FLOP"; "1" with a tag.
        tag: "count", "fraction", "share", "excess" or "ratio" for numbers without a unit.
    """
    return _TAGGED[tag] if unit == "1" else _RANGES[unit]


class Link(NamedTuple):
    """What a collective takes beside its size and its devices."""

    alpha: float
    """α [s], time of an empty message."""
    beta: float
    """β [s/B], inverse of the bandwidth of one device in one direction."""
    launch: float
    """[s], fixed cost of an operation."""


class Work(NamedTuple):
    """One step's work."""

    flops: float
    """W [FLOP], over all devices."""
    size: float
    """M [B], bytes of the gradients."""


def _spread_evenly(low: float, high: float) -> Number:
    """Numbers spread evenly over their orders of magnitude."""
    return st.floats(math.log(low), math.log(high)).map(math.exp)


def _from_zero(high: float) -> Number:
    """Numbers from 0 up, none so small that XLA takes it for 0."""
    return st.floats(0.0, high, allow_subnormal=False)


def devices(most: int = 4096) -> st.SearchStrategy[int]:
    """Numbers of devices: any, and powers of two more often than chance would have it.

    Args:
        most: the largest.
    """
    powers = [2**power for power in range(most.bit_length())]
    return st.one_of(st.integers(1, most), st.sampled_from(powers))


def links() -> st.SearchStrategy[Link]:
    """Links from on-chip to across continents: 100 ns to 10 ms, 10 MB/s to 1 TB/s."""
    launch = st.one_of(st.just(0.0), _spread_evenly(1e-6, 1e-3))
    return st.builds(Link, _spread_evenly(1e-7, 1e-2), _spread_evenly(1e-12, 1e-7), launch)


def works() -> st.SearchStrategy[Work]:
    """Steps from a toy's to a frontier model's: 1 MFLOP to 10²⁰, no gradients to 10 TB."""
    size = st.one_of(st.just(0.0), _spread_evenly(4.0, 1e13))
    return st.builds(Work, _spread_evenly(1e6, 1e20), size)


def machines() -> st.SearchStrategy[StepTime]:
    """Step models of a core's 1 GFLOP/s to an accelerator's 10 PFLOP/s, even and uneven."""

    def machine(link: Link, rate: float, **rest: float | None) -> StepTime:
        return StepTime(rate, link.alpha, link.beta, launch=link.launch, **rest)  # pyright: ignore[reportArgumentType]

    return st.builds(
        machine,
        links(),
        _spread_evenly(1e9, 1e16),
        serial_time=st.one_of(st.just(0.0), _spread_evenly(1e-6, 1.0)),
        compute_efficiency=st.floats(0.05, 1.0),
        overlap=st.one_of(st.just(0.0), _from_zero(1.0)),
        accumulation=st.sampled_from([1.0, 4.0, 32.0]),
        imbalance=st.one_of(st.just(0.0), _from_zero(2.0)),
        spread=st.one_of(st.none(), _from_zero(0.3)),
    )
