"""A scaling curve from numbers of devices and times alone: the fit, its forecast, its terms.

How the terms are found and averaged is told in `scaleopt.fitting.term_sets`, and what the points
lack of the curve in `scaleopt.fitting.scaling_misfit`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from scaleopt.fitting.prediction import Prediction
from scaleopt.fitting.provenance import Provenance
from scaleopt.fitting.ranges import check_level
from scaleopt.fitting.scaling_misfit import independent, lasting, variance_ahead
from scaleopt.fitting.term_sets import (
    SEED,
    TERMS,
    TermSet,
    drawn_curves,
    effects,
    weighed,
)
from scaleopt.models.curve import ScalingTime

_SHOCK_DEGREES = 4.0
"""Of the Student's t of what is ahead: a network that saturates is no normal error."""
_MOST = 4_000_000
"""Residuals of drawn curves held at once."""
_VERDICTS = ((0.99, "very strong"), (0.95, "strong"), (0.75, "some"), (0.25, "undecided"))


@dataclass(frozen=True, repr=False)
class ScalingFit:
    """A scaling curve with its uncertainty; made by `fit_scaling`."""

    model: ScalingTime
    """The average over the sets of terms; as they are linear, it is itself a curve. What the points
    lack of it lasts, and `predict` carries it on."""
    sets: tuple[TermSet, ...]
    """The sets of terms that the data may support, the likeliest first."""
    draws: np.ndarray
    """(draws, terms): curves that the data allow, in seconds."""
    noise: np.ndarray
    """(draws,): the relative noise of a measurement under each of them."""
    rows: pd.DataFrame
    """`devices`, the median `time_s` at each, how many `repeats`, and `predicted_s`."""
    measured: str
    """"time_s" or "throughput": what was given, and what `predict` gives."""

    def __repr__(self) -> str:
        return f"ScalingFit(model={self.model!r}); print(fit.summary()) for more"

    @property
    def provenance(self) -> dict[str, Provenance]:
        """Where each term is from: fitted to the rows, or, where no set has it, left out."""
        present = {name for one in self.sets for name in one.names}
        return {name: "fitted" if name in present else "assumed" for name in TERMS}

    def predict(self, *, devices: Any, level: float = 0.9) -> Prediction:
        """What a measurement on other numbers of devices will give.

        The forecast is the curve times what the last points lack of it, which lasts
        (`scaleopt.fitting.scaling_misfit`). The range joins which terms there are, their sizes, the
        scatter of the points, and how far the misfit wanders beyond them: a curve that bends is not
        seen in advance.

        Args:
            devices: N, one or many.
            level: the share of measurements within the range.

        Returns:
            The time [s], or the throughput where that was fitted, and its range.

        Raises:
            ValueError: a number of devices below 1, or a level that is no share.
        """
        check_level(level)
        count = np.asarray(devices, float)
        if not np.all(np.isfinite(count) & (count >= 1)):
            raise ValueError(f"devices={devices}; numbers of devices are finite and from 1 up")
        asked = count.ravel()
        measured = self.rows["devices"].to_numpy(float)
        average = np.array([[getattr(self.model, name) for name in TERMS]])
        time = np.exp(_log_times(average, self.rows, asked)[0])
        random = np.random.default_rng(SEED)
        # Each draw has residuals of its own: a long table takes fewer of them, for its memory.
        some = slice(None, None, -(-self.draws.shape[0] * len(self.rows) // _MOST))
        noise = self.noise[some, None]
        shock = random.standard_t(_SHOCK_DEGREES, noise.shape) * noise
        logs = _log_times(self.draws[some], self.rows, asked)
        logs += shock * np.sqrt(variance_ahead(measured, asked))
        tail = (1 - level) / 2
        low, high = np.exp(np.quantile(logs, [tail, 1 - tail], axis=0))
        low, high = np.minimum(low, time), np.maximum(high, time)
        if self.measured == "throughput":
            time, low, high = 1 / time, 1 / high, 1 / low
        return Prediction(*(each.reshape(count.shape) for each in (time, low, high)))

    def terms(self, level: float = 0.9) -> pd.DataFrame:
        """Which terms the data support and how strongly, a row each.

        Args:
            level: of the intervals.

        Returns:
            `value_s`, `low_s` and `high_s`, the `probability` that the term is there, what that
            amounts to in words, and the term's `share_at_most` of the time on the most devices.
        """
        check_level(level)
        tail = (1 - level) / 2
        low, high = np.quantile(self.draws, [tail, 1 - tail], axis=0)
        value = np.array([getattr(self.model, name) for name in TERMS])
        present = [sum(s.weight for s in self.sets if name in s.names) for name in TERMS]
        largest = self.rows["devices"].to_numpy(float)[-1:]
        share = effects(largest)[0] * value / (effects(largest)[0] @ value)
        return pd.DataFrame(
            {
                "value_s": value,
                "low_s": np.minimum(low, value),
                "high_s": np.maximum(high, value),
                "probability": np.minimum(present, 1.0),
                "support": ["always", *(_verdict(p) for p in present[1:])],
                "share_at_most": share,
            },
            index=pd.Index(TERMS, name="term"),
        )

    def summary(self, level: float = 0.9) -> str:
        """The terms with their support, the likeliest sets, and the scatter, as plain text."""
        lines = [f"{'term':<16}{'seconds':>11}   {100 * level:g} % interval         support"]
        for name, row in self.terms(level).iterrows():
            bounds = f"{row['low_s']:.3g} … {row['high_s']:.3g}"
            support = f"{row['support']} ({row['probability']:.2f})"
            lines.append(f"{name:<16}{row['value_s']:>11.4g}   {bounds:<22}{support}")
        likely = self.sets[0]
        lines.append(
            f"likeliest of {len(self.sets)} sets: {', '.join(likely.names)} ({likely.weight:.2f})"
        )
        points, last = len(self.rows), self.rows["devices"].iloc[-1]
        lines.append(
            f"{points} numbers of devices up to {last:g}; points scatter about the curve by "
            f"{100 * np.median(self.noise):.2g} %"
        )
        return "\n".join(lines)


def fit_scaling(
    devices: Sequence[float] | np.ndarray | pd.Series,
    *,
    time_s: Sequence[float] | np.ndarray | pd.Series | None = None,
    throughput: Sequence[float] | np.ndarray | pd.Series | None = None,
) -> ScalingFit:
    """Fit a scaling curve to numbers of devices and times, or throughputs.

    T(N) = t_p/N + t_s (1 − 1/N) N^(−2/3) + t_0 + t_l log₂N + t_c (N − 1), averaged over which of
    the terms after the first are there. What the points lack of it lasts along N. A throughput is
    1/T: the same data seen twice.

    Args:
        devices: N of each row, in any order; repeated ones are taken by their median.
        time_s: time of the same work on N devices [s].
        throughput: work done in a second, in any unit of work; instead of `time_s`.

    Returns:
        The curve, its uncertainty, and which terms the data support.

    Raises:
        ValueError: both or neither of time and throughput, lengths that differ, a value that is
            not positive, or fewer than two numbers of devices.

    >>> fit = fit_scaling([1, 2, 4, 8, 16], time_s=[16.9, 9.1, 5.1, 2.9, 1.98])
    >>> time, low, high = fit.predict(devices=32)
    >>> bool(low < 1.5 < high), fit.terms().loc["contention_time", "support"]
    (True, 'little')

    Source: the averaging of `scaleopt.fitting.term_sets`; the misfit of
    `scaleopt.fitting.scaling_misfit`; the curve of `ScalingTime`.
    """
    rows, measured = _checked(devices, time_s, throughput)
    count, time = rows["devices"].to_numpy(float), rows["time_s"].to_numpy(float)
    relative = independent(count, effects(count) / time[:, None])
    sets = weighed(relative, independent(count, np.ones(len(count))))
    average = np.sum([each.weight * each.coefficients for each in sets], axis=0)
    draws, noise = drawn_curves(sets, relative, float(rows["repeat_noise"].iloc[0]))
    return ScalingFit(
        model=ScalingTime(**dict(zip(TERMS, map(float, average), strict=True))),
        sets=sets,
        draws=draws,
        noise=noise,
        rows=rows.assign(predicted_s=np.exp(_log_times(average[None], rows, count)[0])).drop(
            columns="repeat_noise"
        ),
        measured=measured,
    )


def _log_times(curves: np.ndarray, rows: pd.DataFrame, asked: np.ndarray) -> np.ndarray:
    """(curves, asked): log seconds of each curve, and of what the rows say that it lacks."""
    count, time = rows["devices"].to_numpy(float), rows["time_s"].to_numpy(float)
    at_rows, ahead = effects(count).T, effects(asked).T
    # A curve may come to nothing on one device; there the walk has not begun.
    least = np.finfo(float).tiny
    walk = lasting(count, np.log(time)[:, None] - np.log(np.maximum(at_rows.T @ curves.T, least)))
    place = np.interp(np.log2(asked), np.log2(count), np.arange(len(count)))
    below = np.minimum(place.astype(int), len(count) - 2)
    part = (place - below)[:, None]
    carried = (1 - part) * walk[below] + part * walk[below + 1]
    return np.log(np.maximum(curves @ ahead, least)) + carried.T


def _checked(devices: Any, time_s: Any, throughput: Any) -> tuple[pd.DataFrame, str]:
    """The median time at each number of devices, smallest first, and what was given."""
    if (time_s is None) == (throughput is None):
        raise ValueError("give either time_s or throughput, one of them and not both")
    measured = "throughput" if time_s is None else "time_s"
    count = np.asarray(devices, float)
    value = np.asarray(throughput if time_s is None else time_s, float)
    if count.ndim != 1 or count.shape != value.shape:
        raise ValueError(
            f"devices has the shape {count.shape} and {measured} {value.shape}; "
            "give two lists of the same length"
        )
    for name, values, least, rule in (
        ("devices", count, 1.0, "from 1 up"),
        (measured, value, np.finfo(float).tiny, "above 0"),
    ):
        good = np.isfinite(values) & (values >= least)
        if not good.all():
            place = int(np.flatnonzero(~good)[0])
            raise ValueError(
                f"row {place}: {name} is {values[place]}; it must be a finite number {rule}: "
                "drop the row or mend it"
            )
    if len(np.unique(count)) < 2:
        raise ValueError(
            f"{len(np.unique(count))} number of devices was measured; a curve needs two at the "
            "least, and a forecast four: measure on more"
        )
    raw = pd.DataFrame({"devices": count, "time_s": 1 / value if time_s is None else value})
    groups = raw.groupby("devices")["time_s"]
    rows = groups.agg(time_s="median", repeats="size").reset_index()
    logs = np.log(raw["time_s"] / groups.transform("median"))
    spread = np.sqrt(float((logs**2).sum()) / max(len(raw) - len(rows), 1))
    return rows.assign(repeat_noise=spread), measured


def _verdict(probability: float) -> str:
    """What a probability amounts to, after Kass and Raftery's scale of evidence."""
    return next((word for least, word in _VERDICTS if probability >= least), "little")
