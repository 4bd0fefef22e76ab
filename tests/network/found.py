"""What a fit finds of a network, freed of the algorithm: the delay one way, and the bytes a second.

A collective of M bytes over p ranks takes, in a program of k of them, one after another,

    T = launch + k (hops · delay + volume · M / rate),

where hops and volume are the algorithm's. In gloo a receiver announces that it is ready before data
move, so a step of a ring costs two delays one way. What the ranks themselves add to each operation
is in the delay too; it is found at a delay of 0 and taken away.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jax.tree_util import Partial

import scaleopt as so
from scaleopt.units import Bytes, Count, Seconds, SecondsPerByte

_SHARP = 8.0


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


def found(fit: so.Fit, op: str, count: int, level: float = 0.9) -> tuple[Interval, Interval]:
    """Delay and rate as the fit of one collective shows them."""
    low, high = (model.keywords for model in fit.interval(level))
    hops, volume = GLOO[op].hops(count), GLOO[op].volume(count)
    value = fit.model.keywords
    delay = [keywords["delay"] / hops for keywords in (value, low, high)]
    with np.errstate(divide="ignore"):
        rate = [float(volume / np.float64(keys["per_byte"])) for keys in (value, high, low)]
    return Interval(*delay), Interval(*rate)
