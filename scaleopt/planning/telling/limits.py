"""Which limits a plan runs into: what each costs the best, and what must give if nothing is left.

Lifting a limit and asking again is a question to what the search has kept, not another search; but
for the leanest of all where nothing is fast enough, of which a search keeps none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scaleopt.planning.asking.goal import Limits
from scaleopt.planning.searching.configuration import Configuration
from scaleopt.planning.searching.searched import Searched, Value, least, side_of

LIMITS = ("budget", "deadline", "min_mfu", "min_efficiency")
_NOTICED = 5e-4
"""Share by which the objective must improve before a limit is said to bind."""


@dataclass(frozen=True)
class Binding:
    """A limit without which the plan would be better."""

    limit: str
    """"memory", or one of `LIMITS`."""
    value: float
    """The objective without it."""


@dataclass(frozen=True)
class Shortfall:
    """The best candidate of a kind, and the limits that it breaks."""

    kind: str
    found: Configuration
    breaks: dict[str, tuple[float, float]]
    """Of each limit broken: what the candidate takes, and what is allowed."""


@dataclass(frozen=True)
class Infeasible:
    """Why nothing keeps every limit, and what would have to give."""

    shortfalls: tuple[Shortfall, ...]
    relaxed: dict[str, float]
    """The least that a limit would have to be, all others kept: bytes of a device for "memory"."""
    counts: tuple[int, ...]
    """Numbers of devices on which there are splits at all; empty where that is not the trouble."""


def binding(sides: Sequence[Searched], best: Configuration) -> tuple[Binding, ...]:
    """The limits without which the plan would be better, the costliest first."""
    found = []
    reached = side_of(sides, best).objective(best)
    for limit in ("memory", *LIMITS):
        lifted = "fastest" if limit == "memory" else "fits"
        if limit != "memory" and not _set(sides[0], limit):
            continue
        values = [
            side.values(
                (side.goal if limit == "memory" else side.goal.without(limit)).within,
                getattr(side.found, lifted),
            )
            for side in sides
        ]
        value = least(values)[0]
        if sides[0].goal.objective == "devices":
            better = round(min(value, best.devices)) < best.devices
        else:
            better = value < reached * (1 - _NOTICED)
        if better:
            found.append(Binding(limit, value))
    return tuple(sorted(found, key=lambda bound: bound.value))


def infeasible(sides: Sequence[Searched]) -> Infeasible:
    """Why nothing keeps every limit."""
    if all(side.found.configurations == 0 for side in sides):
        return Infeasible((), {}, tuple(np.unique(np.concatenate([s.possible() for s in sides]))))
    relaxed = {}
    held, which, _ = least([side.found.leanest.value for side in sides])
    side = sides[which]
    if held < np.inf:
        relaxed["memory"] = held * side.offer.memory / side.memory
    for limit in LIMITS:
        if _set(side, limit):
            needed = _needed(sides, limit)
            if needed is not None:
                relaxed[limit] = needed
    return Infeasible(tuple(_shortfalls(sides)), relaxed, ())


def _shortfalls(sides: Sequence[Searched]) -> list[Shortfall]:
    """The fastest and the cheapest that fit in memory, or the leanest where none does."""
    found = []
    kinds: dict[str, str] = {"fastest": "time"}
    if all(side.offer.price is not None for side in sides):
        kinds["cheapest"] = "cost"
    for kind, quantity in kinds.items():
        value, which, cell = least(
            [side.values(_quantity(side, quantity), side.found.fits) for side in sides]
        )
        if value < np.inf:
            candidate = sides[which].fastest_fit(cell)
            found.append(
                Shortfall(f"the {kind} that fits", candidate, _broken(sides[which], candidate))
            )
    return found or [_leanest(sides)]


def _leanest(sides: Sequence[Searched]) -> Shortfall:
    """The leanest of those that are fast enough, or of all where none is."""
    value, which, cell = least([side.found.leanest.value for side in sides])
    searched = sides[which]
    if value == np.inf:
        free = [side.again(replace(side.goal, limits=Limits())) for side in sides]
        _, which, cell = least([side.found.leanest.value for side in free])
        searched = free[which]
    candidate = searched.leanest(cell)
    return Shortfall("the leanest", candidate, _broken(sides[which], candidate))


def _broken(side: Searched, candidate: Configuration) -> dict[str, tuple[float, float]]:
    limits, broken = side.goal.limits, {}
    if candidate.memory > side.memory:
        broken["memory"] = (candidate.memory, side.memory)
    if candidate.cost > limits.budget:
        broken["budget"] = (candidate.cost, limits.budget)
    if candidate.time > limits.deadline:
        broken["deadline"] = (candidate.time, limits.deadline)
    if candidate.mfu < limits.min_mfu:
        broken["min_mfu"] = (candidate.mfu, limits.min_mfu)
    efficiency = side.goal.device_seconds / (candidate.devices * candidate.time)
    if efficiency < limits.min_efficiency:
        broken["min_efficiency"] = (efficiency, limits.min_efficiency)
    return broken


def _needed(sides: Sequence[Searched], limit: str) -> float | None:
    """What a limit would have to be for something to keep it and all others."""
    values = []
    for side in sides:
        kept = side.values(side.goal.without(limit).within, side.found.fits) < np.inf
        quantity = side.values(_quantity(side, _MEASURE[limit]), side.found.fits)
        values.append(np.where(kept, quantity, np.inf))
    needed = least(values)[0]
    if needed == np.inf:
        return None
    return 1 / needed if limit.startswith("min_") else needed


_MEASURE = {
    "budget": "cost",
    "deadline": "time",
    "min_mfu": "inverse_mfu",
    "min_efficiency": "inverse_efficiency",
}


def _quantity(side: Searched, name: str) -> Value:
    goal = side.goal
    if name == "time":
        return goal.time
    if name == "cost":
        return goal.cost
    if name == "inverse_mfu":
        return lambda seconds, devices, batch: seconds / goal.mfu(1.0, devices, batch)
    fewest = goal.device_seconds
    return lambda seconds, devices, batch: devices * goal.time(seconds, devices, batch) / fewest


def _set(side: Searched, limit: str) -> bool:
    """Whether a limit was asked for."""
    return getattr(side.goal.limits, limit) != getattr(side.goal.without(limit).limits, limit)
