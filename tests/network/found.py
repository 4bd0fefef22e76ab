"""What a fit finds of a network, freed of the algorithm: the delay one way, and the bytes a second.

A collective of M bytes over p ranks takes, in a program of k of them, one after another,

    T = launch + k (hops · delay + volume · M / rate),

where hops and volume are the algorithm's. In gloo a receiver announces that it is ready before data
move, so a step of a ring costs two delays one way.

What the ranks themselves add is in the delay and the rate too. It is measured, for each operation
on the same network without a delay, for each byte without a network, and taken away as far as it is
known: how much of it shows beside a wait depends on what can be done meanwhile, so it is a range,
and the intervals are as wide as that.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jax.tree_util import Partial

import scaleopt as so
from scaleopt.units import Bytes, Count, Seconds, SecondsPerByte

_SHARP = 8.0
_NONE = np.finfo(float).tiny


@dataclass(frozen=True)
class Algorithm:
    """How often a delay is paid, and which part of M passes a port."""

    hops: Callable[[int], float]
    volume: Callable[[int], float]


GLOO = {
    "all_reduce": Algorithm(lambda p: 4 * (p - 1), lambda p: 2 * (p - 1) / p),
    "all_gather": Algorithm(lambda p: 2 * (p - 1), lambda p: (p - 1) / p),
    # By halving, so it takes log₂ p steps.
    "reduce_scatter": Algorithm(lambda p: 2 * (p - 1).bit_length(), lambda p: (p - 1) / p),
    # The array is that of all ranks, of which each holds a part and passes on the most of it.
    "all_to_all": Algorithm(lambda p: 2, lambda p: (p - 1) / p**2),
    "permute": Algorithm(lambda p: 2, lambda p: 1 / p),
}


@dataclass(frozen=True)
class Interval:
    """A number and its interval."""

    value: float
    low: float
    high: float

    def __sub__(self, other: "Interval") -> "Interval":
        """The difference of two independent ones."""
        below = np.hypot(self.value - self.low, other.high - other.value)
        above = np.hypot(self.high - self.value, other.value - other.low)
        value = self.value - other.value
        return Interval(value, value - float(below), value + float(above))

    def inverse(self) -> "Interval":
        """One over it."""
        most, value, least = 1 / np.maximum((self.low, self.value, self.high), _NONE)
        return Interval(float(value), float(least), float(most))


def within(low: float, high: float) -> Interval:
    """Somewhere between two bounds, and nothing else is known: the middle 90 %."""
    middle, reach = (low + high) / 2, 0.45 * (high - low)
    return Interval(middle, middle - reach, middle + reach)


def line_time(
    operations: Count, size: Bytes, *, launch: Seconds, delay: Seconds, per_byte: SecondsPerByte
) -> Seconds:
    """Seconds of a program of so many collectives of M bytes, each on one line."""
    return launch + operations * (delay + per_byte * size)


def pipelined_time(
    operations: Count,
    size: Bytes,
    *,
    launch: Seconds,
    delay: Seconds,
    segment: SecondsPerByte,
    ends: Seconds,
    per_byte: SecondsPerByte,
) -> Seconds:
    """The same where a ring of several ranks has two segments under way.

    Small arrays wait for every delay, while one segment's bytes hide behind the other's delay;
    large ones keep the wire busy, and show only the delays at both ends. The later of the two
    counts, rounded where they meet.
    """
    waiting, sending = delay + segment * size, ends + per_byte * size
    return launch + operations * (waiting**_SHARP + sending**_SHARP) ** (1 / _SHARP)


def fitted(table: pd.DataFrame, op: str, count: int, *, pipelined: bool = False) -> so.Fit:
    """The fit of one collective's rows.

    Args:
        table: rows of a probe.
        op: the collective.
        count: how many ranks.
        pipelined: whether it is a ring of several ranks with a delay to hide behind.
    """
    # Gloo skips steps whose part of the array is empty.
    rows = table[(table["op"] == op) & (table["size_bytes"] >= 32 * count)]
    start: dict[str, float] = {"launch": 1e-3, "delay": 1e-2, "per_byte": 1e-8}
    if pipelined:
        return so.fit(Partial(pipelined_time, **start, segment=1e-8, ends=1e-3), rows)
    return so.fit(Partial(line_time, **start), rows)


def worst_miss(fit: so.Fit) -> float:
    """By how much a fit misses the median of the worst size."""
    rows = fit.rows
    ratio = rows["time_s"] / rows["predicted_s"]
    return float((ratio.groupby([rows["size_bytes"], rows["method"]]).median() - 1).abs().max())


def found(fit: so.Fit, op: str, count: int) -> tuple[Interval, Interval]:
    """Delay one way and seconds a byte of a port as the fit of one collective shows them."""
    low, high = (model.keywords for model in fit.interval(0.9))
    value, algorithm = fit.model.keywords, GLOO[op]
    shares = {"delay": algorithm.hops(count), "per_byte": algorithm.volume(count)}
    delay, per_byte = (
        Interval(*(keywords[name] / share for keywords in (value, low, high)))
        for name, share in shares.items()
    )
    return delay, per_byte


def own_delay(instant: Interval, waking: Interval, turns: float) -> Interval:
    """What ranks add to each delay [s].

    Args:
        instant: what they add where there is no delay.
        waking: by how much later a plain socket wakes after such a delay than after none. A rank
            wakes a thread for the message and another for the collective, so up to twice it.
        turns: ranks that share a processor. Without a delay they take turns while all wait; with
            one they work while another's message is on its way, so as little as one turn shows.
    """
    return within(instant.low / turns, instant.high + 2 * max(waking.high, 0.0))


def own_per_byte(alone: Interval) -> Interval:
    """What ranks add to each byte [s]: nothing where they copy while the wire is busy, all at most.

    Args:
        alone: what they take for each without a network between them.
    """
    return Interval(0.0, 0.0, alone.high)
