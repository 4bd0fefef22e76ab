"""How sure a plan on a fit is: the same choice over machines drawn from the fit's distribution."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scaleopt.planning.odds.drawn import Drawn, Span
from scaleopt.planning.odds.drawn_offer import drawn_offer, offer_span
from scaleopt.planning.odds.trial import first_trial
from scaleopt.planning.searching.configuration import Configuration
from scaleopt.planning.searching.searched import Searched, least, side_of
from scaleopt.planning.words import AIMS, dollars, duration, percent

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
    """By how much more the chosen one is expected to take than the best of each machine, as a share
    of the objective; NaN where numbers of devices are compared."""
    time: tuple[float, float]
    """[s], range of the run: the fit's uncertainty with what the model misses; no width on a
    machine that was given."""
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
    objective: str
    """What is to be small."""

    def record(self) -> dict[str, Any]:
        """As numbers for programs; a range that cannot be given is None."""
        told = not self.blind
        return {
            "best": self.best,
            "candidates": [
                it.found.row() | {"probability": it.probability} for it in self.candidates
            ],
            "regret": None if np.isnan(self.regret) else self.regret,
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
        aim, share = AIMS[self.objective], percent(self.level)
        said = [f"the best on {percent(self.best)} of {self.draws} machines that fit the rows"]
        if np.isfinite(self.regret):
            said[0] += f"; on average {percent(self.regret)} more {aim} than the best on each"
        if self.time[0] < self.time[1]:
            low, high = map(duration, self.time)
            said.append(f"the run takes {low} to {high} ({share} range)")
        if self.cost[0] < self.cost[1]:
            said.append(f"it costs {dollars(self.cost[0])} to {dollars(self.cost[1])}")
        said += [f"keeps the {name}: {percent(odds)} likely" for name, odds in self.kept.items()]
        for other in self.candidates[:3]:
            said.append(f"{percent(other.probability)} likely the best: {other.found.headline}")
        if self.trial is not None:
            said.append(
                f"try first: {self.trial.headline}; to know its step time saves "
                f"{percent(self.gain)} of {aim} on average"
            )
        return said


def certainty(
    sides: Sequence[Searched], best: Configuration, *, draws: int, level: float
) -> Certainty:
    """The choice over machines drawn from the fits, and over what the rows fitted leave open.

    The candidates are the best of each offer by its fitted machine: what is not among them is not
    considered on a drawn machine either. An offer whose machine was given has its best alone.

    Args:
        sides: what was found on every offer.
        best: the choice.
        draws: how many machines.
        level: of the ranges.

    Returns:
        How the choice fares among them.
    """
    mine = side_of(sides, best)
    sides = [mine, *(side for side in sides if side is not mine)]
    every = [(side, part) for side in sides if (part := _drawn(side, best, draws)) is not None]
    values, allowed = (
        np.concatenate([of(side, part) for side, part in every], axis=1) for of in (_value, _within)
    )
    counts, winners = _winners(values, allowed)
    places = [(side, part, at) for side, part in every for at in range(len(part.nominal))]

    def configured(place: int) -> Configuration:
        side, part, at = places[place]
        numbers = int(part.option[at]), float(part.nominal[at]), float(part.held[at])
        return side.configured(part.rows[:, at], *numbers)

    likely = [place for place in np.argsort(-counts, kind="stable")[:10].tolist() if counts[place]]
    counted_alone = mine.goal.objective == "devices"
    trial, gain = (None, 0.0) if counted_alone else _trial(values, allowed)
    low, high, blind = _span(mine, best, every[0][1].seconds[:, 0], level)
    run = (low * best.time / best.step_time, high * best.time / best.step_time)
    price = np.nan if best.offer.price is None else best.offer.price * best.devices
    return Certainty(
        candidates=tuple(Candidate(configured(at), float(counts[at] / draws)) for at in likely),
        best=float(counts[0] / draws),
        regret=np.nan if counted_alone else _regret(values, allowed, winners),
        time=run,
        cost=(run[0] * price, run[1] * price),
        kept=_kept(mine, best, every[0][1]),
        level=level,
        draws=draws,
        blind=blind,
        trial=None if trial is None else configured(trial),
        gain=gain,
        objective=mine.goal.objective,
    )


def _drawn(side: Searched, best: Configuration, draws: int) -> Drawn | None:
    """The candidates of an offer, its own best first; None where nothing on it keeps the limits."""
    value = side.values(side.goal.within, side.found.fits)
    _, _, cell = least([value])
    if value[cell] == np.inf:
        return None
    ours = best if side.offer is best.offer else side.fastest_fit(cell)
    if side.offer.fit is None:
        return _given(side, ours, cell, draws)
    found = drawn_offer(side, ours, draws)
    if side.offer.fit is best.offer.fit:
        return found
    # Another fit's machines are not drawn together with these.
    apart = np.random.default_rng(len(found.nominal)).permutation(draws)
    return found._replace(seconds=found.seconds[apart])


def _given(side: Searched, ours: Configuration, cell: int, draws: int) -> Drawn:
    """The best of an offer whose machine was given: it takes what it takes."""
    fits = side.found.fits
    return Drawn(
        seconds=np.full((draws, 1), ours.step_time),
        nominal=np.array([ours.step_time]),
        held=np.array([ours.memory]),
        rows=fits.rows[:, [cell]],
        option=fits.option[[cell]],
        devices=np.array([ours.devices]),
        batch=np.array([ours.global_batch]),
    )


def _value(side: Searched, part: Drawn) -> np.ndarray:
    return side.goal.value(part.seconds, part.devices, part.batch)


def _within(side: Searched, part: Drawn) -> np.ndarray:
    return side.goal.within(part.seconds, part.devices, part.batch)


def _winners(values: np.ndarray, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How often each candidate is the best, and which is in each draw."""
    # A machine on which nothing keeps the limits still has a best one.
    none = ~np.isfinite(allowed).any(axis=1, keepdims=True)
    winners = np.where(none, values, allowed).argmin(axis=1)
    return np.bincount(winners, minlength=values.shape[1]), winners


def _regret(values: np.ndarray, allowed: np.ndarray, winners: np.ndarray) -> float:
    """By how much the choice is worse than the best of each draw, where it keeps the limits."""
    keeps = np.isfinite(allowed[:, 0])
    keeps = keeps if keeps.any() else np.ones(len(values), bool)
    fewest = values[np.arange(len(values)), winners]
    return float(np.maximum(values[:, 0] / fewest - 1, 0)[keeps].mean())


def _kept(side: Searched, best: Configuration, part: Drawn) -> dict[str, float]:
    """The share of draws in which each limit of time or cost holds."""
    time = side.goal.time(part.seconds[:, 0], part.devices[0], part.batch[0])
    limits, kept = side.goal.limits, {}
    if limits.deadline < np.inf:
        kept["deadline"] = float(np.mean(time <= limits.deadline))
    if limits.budget < np.inf:
        cost = time * best.devices * (best.offer.price or 0.0)
        kept["budget"] = float(np.mean(cost <= limits.budget))
    return kept


def _span(side: Searched, best: Configuration, seconds: np.ndarray, level: float) -> Span:
    """The range of a step of the choice; of a machine that was given there is none."""
    if side.offer.fit is None:
        return Span(best.step_time, best.step_time, blind=False)
    return offer_span(side, best, seconds, level)


def _trial(values: np.ndarray, allowed: np.ndarray) -> tuple[int | None, float]:
    """Which candidate to measure first and what that saves; none where it is not worth a word."""
    keeps = np.isfinite(allowed).mean(axis=0) > 0.5
    kept = np.flatnonzero(keeps if keeps.any() else np.isfinite(values).all(axis=0))
    place, gain = first_trial(np.log(values[:, kept]))
    return (int(kept[place]), gain) if gain > _NOTICED else (None, 0.0)
