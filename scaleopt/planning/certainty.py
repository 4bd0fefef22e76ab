"""How sure a plan on a fit is: the same choice over machines drawn from the fit's distribution."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from scaleopt.fitting.result import Fit
from scaleopt.models.transformer import RECOMPUTE
from scaleopt.planning.configuration import Configuration
from scaleopt.planning.drawn_layouts import Drawn, drawn_layouts
from scaleopt.planning.searched import Searched
from scaleopt.planning.searched_layouts import SearchedLayouts
from scaleopt.planning.trial import first_trial
from scaleopt.planning.words import counted, dollars, duration, percent

_NOTICED = 0.0005
"""Share of the objective that a trial must save."""


@dataclass(frozen=True)
class Candidate:
    """A configuration that some of the drawn machines are best with."""

    found: Configuration
    probability: float
    """Share of the drawn machines that it is best on."""


@dataclass(frozen=True)
class Certainty:
    """How a choice fares on machines drawn from a fit."""

    candidates: tuple[Candidate, ...]
    """The likeliest first."""
    best: float
    """Probability that the chosen one is best."""
    regret: float
    """By how much the chosen one is expected to be worse than the best, as a share."""
    time: tuple[float, float]
    """[s], range of the run: the fit's uncertainty with what the model misses."""
    cost: tuple[float, float]
    """[USD]; NaN without a price."""
    kept: dict[str, float]
    """Probability that each limit of time or cost holds."""
    level: float
    draws: int
    blind: bool
    """Whether the time hangs on what the fit's rows do not see."""
    trial: Configuration | None
    """What to measure first; None where nothing measured would change the choice."""
    gain: float
    """Share of the objective that knowing it is expected to save."""

    def record(self) -> dict[str, Any]:
        """As numbers for programs; a range that cannot be given is None."""
        told = not self.blind
        return {
            "best": self.best,
            "regret": self.regret,
            "level": self.level,
            "time_s": list(self.time) if told else None,
            "cost": list(self.cost) if told and np.isfinite(self.cost[0]) else None,
            "kept": self.kept,
            "try_first": None if self.trial is None else self.trial.row(),
            "gain": self.gain,
        }

    def sentences(self) -> list[str]:
        """As a person would be told."""
        if self.blind:
            return [
                "the step time hangs on what the fit's rows do not tell (print fit.summary()), "
                "so no range can be given; measure such runs before renting"
            ]
        share = percent(self.level)
        said = [
            f"best in {percent(self.best)} of {self.draws} draws of what the fit leaves open; on "
            f"average {percent(self.regret)} worse than the best of each",
            f"the run takes {duration(self.time[0])} to {duration(self.time[1])} ({share} range)",
        ]
        if np.isfinite(self.cost[0]):
            said.append(f"it costs {dollars(self.cost[0])} to {dollars(self.cost[1])}")
        said += [f"keeps the {name}: {percent(odds)} likely" for name, odds in self.kept.items()]
        for other in self.candidates[:3]:
            said.append(
                f"{percent(other.probability)}: {counted(other.found.devices)}, {other.found}"
            )
        if self.trial is not None:
            said.append(
                f"try first: {counted(self.trial.devices)}, {self.trial}; to know its step time "
                f"saves {percent(self.gain)} on average"
            )
        return said


def certainty(
    fit: Fit[Any], side: SearchedLayouts, best: Configuration, *, draws: int, level: float
) -> Certainty:
    """The choice over machines drawn from the fit, and over what the rows fitted leave open.

    The candidates are the best by the fitted machine: what is not among them is not considered on a
    drawn machine either.

    Args:
        fit: of the machine.
        side: the offer that the best is on.
        best: the choice.
        draws: how many machines.
        level: of the ranges.
    """
    drawn = drawn_layouts(fit, side, best, draws)
    return judged(side, best, drawn, 0, _range(fit, side, best, level), level)


def judged(
    side: Searched,
    best: Configuration,
    drawn: Drawn,
    ours: int,
    span: tuple[float, float, bool],
    level: float,
) -> Certainty:
    """How a choice fares among the candidates on the drawn machines.

    Args:
        side: the offer that the best is on.
        best: the choice.
        drawn: the candidates.
        ours: which of them the choice is.
        span: the range of a step's seconds, and whether it hangs on what no row tells.
        level: of the range.
    """
    seconds, devices, batch = drawn.seconds, drawn.devices, drawn.batch
    goal, draws = side.goal, len(seconds)
    values = goal.value(seconds, devices, batch)
    allowed = goal.within(seconds, devices, batch)
    # A machine on which nothing keeps the limits still has a best one.
    none = ~np.isfinite(allowed).any(axis=1, keepdims=True)
    values_or_none = np.where(none, values, allowed)
    winners = values_or_none.argmin(axis=1)
    regret = np.maximum(values[:, ours] / values_or_none[np.arange(draws), winners] - 1, 0)
    counts = np.bincount(winners, minlength=len(devices))
    likely = [place for place in np.argsort(-counts, kind="stable")[:10].tolist() if counts[place]]
    nominal = np.median(seconds, axis=0)

    def configured(place: int) -> Configuration:
        option, held = int(drawn.option[place]), float(drawn.held[place])
        return side.configured(drawn.rows[:, place], option, float(nominal[place]), held)

    found = tuple(Candidate(configured(place), float(counts[place] / draws)) for place in likely)
    trial, gain = _trial(values, allowed)
    time = goal.time(seconds[:, ours], devices[ours], batch[ours])
    price = np.nan if side.offer.price is None else side.offer.price * best.devices
    limits, kept = goal.limits, {}
    if limits.deadline < np.inf:
        kept["deadline"] = float(np.mean(time <= limits.deadline))
    if limits.budget < np.inf:
        kept["budget"] = float(np.mean(time * price <= limits.budget))
    low, high, blind = span
    run = (low * best.time / best.step_time, high * best.time / best.step_time)
    return Certainty(
        candidates=found,
        best=float(counts[ours] / draws),
        regret=float(regret.mean()),
        time=run,
        cost=(run[0] * price, run[1] * price),
        kept=kept,
        level=level,
        draws=draws,
        blind=blind,
        trial=None if trial is None else configured(trial),
        gain=gain,
    )


def _trial(values: np.ndarray, allowed: np.ndarray) -> tuple[int | None, float]:
    """Which candidate to measure first and what that saves; none where it is not worth a word."""
    keeps = np.isfinite(allowed).mean(axis=0) > 0.5
    kept = np.flatnonzero(keeps if keeps.any() else np.isfinite(values).all(axis=0))
    place, gain = first_trial(np.log(values[:, kept]))
    return (int(kept[place]), gain) if gain > _NOTICED else (None, 0.0)


def _range(
    fit: Fit[Any], side: SearchedLayouts, best: Configuration, level: float
) -> tuple[float, float, bool]:
    """The range of a step that the fit predicts, and whether it hangs on what no row tells."""
    model, split = side.problem.model, best.split
    sizes = ("hidden", "heads", "layers", "seq_len", "vocab", "kv_heads", "feed_forward")
    columns = {name: float(np.asarray(getattr(model, name))) for name in sizes}
    told = ("data", "tensor", "pipeline", "context", "micro_batch", "interleave")
    told += ("sequence_parallel",)
    columns |= {name: float(getattr(split, name)) for name in told}
    columns |= {
        "gated": float(model.gated),
        "fused_attention": float(model.fused_attention),
        "devices": best.devices,
        "nodes": max(1.0, best.devices / side.offer.node_size),
        "global_batch": best.global_batch,
        "recompute": RECOMPUTE[int(split.recompute)],
        "zero": float(best.zero),
    }
    predicted = fit.predict(pd.DataFrame([columns]), level=level)
    time, low, high = (float(part[0]) for part in predicted)
    if np.asarray(model.experts) > 1:
        # Rows know of no experts: their model's range, about this one's time.
        low, high = (best.step_time * end / time for end in (low, high))
    return low, high, not np.isfinite(high)
