"""A plan in words: what is best, where its time goes, what binds, what nearly was, how sure."""

import itertools
from typing import TYPE_CHECKING

import numpy as np

from scaleopt.planning.searching.configuration import Configuration
from scaleopt.planning.searching.searched import Searched, side_of
from scaleopt.planning.searching.upgrade import LINKS, NAMES
from scaleopt.planning.telling.extrapolation import extrapolations
from scaleopt.planning.telling.limits import Infeasible, binding, infeasible
from scaleopt.planning.telling.origin import beyond_peak, origin
from scaleopt.planning.words import AIMS, amount, counted, dollars, duration, gigabytes, percent

if TYPE_CHECKING:
    from scaleopt.planning.result import Plan

_ALTERNATIVES = 3
_WORTH = 0.001
"""Share of a step that a better constant must save to be named."""
_SAID = 0.0005
"""Share of the whole below which a part of it is not spelt out."""


def explain(plan: "Plan") -> str:
    """The whole plan as text."""
    if plan.best is None:
        return _unfeasible(plan, infeasible(plan.searched))
    best = plan.best
    goal = _side(plan, best).goal
    parts = [
        f"Best for {AIMS[goal.objective]}, of {plan.configurations:,} configurations:",
        *_indent(best.headline, _takes(plan, best), *beyond_peak(best.offer)),
        "",
        "Where a step goes:",
        *_indent(*_step(plan, best)),
        "",
        "What binds:",
        *_indent(*_binding(plan, best)),
        "",
        "What a tenth better would save:",
        *_indent(*_upgrades(plan, best)),
        "",
        "What nearly was:",
        *_indent(*_alternatives(plan, best)),
    ]
    said = extrapolations(best)
    if best.offer.fit is not None:
        said = _side(plan, best).unlike(best) + said
    if said:
        parts += ["", "Beyond what was measured:", *_indent(*said)]
    if plan.certainty is not None:
        parts += ["", "How sure:", *_indent(*plan.certainty.sentences())]
    parts += ["", "Where the numbers are from:", *_indent(*origin(plan))]
    return "\n".join(parts)


def alternatives(plan: "Plan") -> list[Configuration]:
    """The best that split the devices otherwise, or are on another number of them."""
    found, seen = [], {plan.best.kind} if plan.best else set()
    for other in plan.ranked(None):
        if other.kind not in seen:
            seen.add(other.kind)
            found.append(other)
        if len(found) == _ALTERNATIVES:
            break
    return found


def _side(plan: "Plan", found: Configuration) -> Searched:
    return side_of(plan.searched, found)


def _indent(*lines: str) -> list[str]:
    return [f"  {line}" for line in lines]


def _takes(plan: "Plan", found: Configuration) -> str:
    side = _side(plan, found)
    parts = [f"{duration(found.step_time)} a step"]
    if found.steps > 1:
        parts.append(f"{amount(found.steps)} steps in {duration(found.time)}")
    if found.offer.interruptions > 0:
        lost = 1 - found.steps * found.step_time / found.time
        often = duration(found.offer.interval(found.devices))
        parts.append(f"{percent(lost)} of it interruptions, with a checkpoint every {often}")
    if found.offer.price is not None:
        parts.append(dollars(found.cost))
    if found.offer.power is not None:
        parts.append(f"{found.energy / 3.6e6:,.0f} kWh")
    parts.append(f"{gigabytes(found.memory)} of {gigabytes(side.memory)} a device")
    peak = "MFU" if found.offer.peak_rate is not None else "MFU (of the machine's own rate)"
    return ", ".join([*parts, f"{peak} {percent(found.mfu)}"])


def _step(plan: "Plan", best: Configuration) -> list[str]:
    terms, memory = _side(plan, best).breakdown(best)
    total, width = sum(terms.values()), max(10, *map(len, terms))
    lines = [
        f"{name:<{width}} {percent(part / total):>5}   {duration(part)}"
        for name, part in terms.items()
        if abs(part) > _SAID * total
    ]
    held = ", ".join(f"{name} {gigabytes(part)}" for name, part in memory.items() if part > 0)
    return [*lines, f"memory: {held}"]


def _upgrades(plan: "Plan", best: Configuration) -> list[str]:
    saved = _side(plan, best).upgrades(best)
    names = NAMES if "network_beta" in saved else NAMES | LINKS
    said = [f"{names[name]} {percent(share)}" for name, share in saved.items() if share > _WORTH]
    return [", ".join(said) + " of a step"] if said else ["nothing of note"]


def _binding(plan: "Plan", best: Configuration) -> list[str]:
    side, lines = _side(plan, best), []
    goal, reached = side.goal, side.objective(best)
    for bound in binding(plan.searched, best):
        if goal.objective == "devices":
            gain = f"{counted(round(bound.value))} would do"
        else:
            gain = f"{percent(1 - bound.value / reached)} less {AIMS[goal.objective]}"
        lines.append(f"{_LIMIT_NAMES[bound.limit]}: without it {gain}")
    most = max(int(side.devices.max()) for side in plan.searched)
    if best.devices == most and goal.objective == "time":
        lines.append(f"devices: it uses all {most} that can be had")
    return lines or ["nothing: no limit makes the plan worse"]


_LIMIT_NAMES = {
    "memory": "memory of a device",
    "budget": "budget",
    "deadline": "deadline",
    "min_mfu": "least MFU",
    "min_efficiency": "least efficiency",
}


def _alternatives(plan: "Plan", best: Configuration) -> list[str]:
    others = alternatives(plan)
    if not others:
        return ["nothing: no other split of devices keeps the limits"]
    side, lines = _side(plan, best), []
    goal, reached = side.goal, side.objective(best)
    for other in others:
        lines.append(other.headline)
        if goal.objective == "devices":
            more = other.devices - best.devices
            lines.append(f"    {counted(more)} more" if more else "    as many devices, but slower")
        else:
            worse = percent(_side(plan, other).objective(other) / reached - 1)
            lines.append(
                f"    {worse} more {AIMS[goal.objective]}: {_difference(plan, best, other)}"
            )
    return lines


def _difference(plan: "Plan", best: Configuration, other: Configuration) -> str:
    """Which terms make the other worse, as shares of the best one's run."""
    first, second = (_side(plan, it).breakdown(it)[0] for it in (best, other))
    by_device = _side(plan, best).goal.objective in ("cost", "energy")
    weights = [it.steps * (it.devices if by_device else 1) for it in (best, other)]
    total = weights[0] * sum(first.values())
    change = {
        name: (weights[1] * second.get(name, 0.0) - weights[0] * first.get(name, 0.0)) / total
        for name in first | second
    }
    said = sorted(change.items(), key=lambda item: -abs(item[1]))
    words = [f"{name} {100 * share:+.1f} %" for name, share in said if abs(share) > _SAID]
    return ", ".join(words) or "all terms alike"


def _unfeasible(plan: "Plan", why: Infeasible) -> str:
    if not why.shortfalls:
        return _no_split(plan, why)
    lines = ["Nothing keeps every limit."]
    for short in why.shortfalls:
        said = short.found.headline, _takes(plan, short.found), *beyond_peak(short.found.offer)
        lines += ["", f"{short.kind}:", *_indent(*said)]
        for limit, (found, allowed) in short.breaks.items():
            lines.append(f"  breaks the {_LIMIT_NAMES[limit]}: {_beyond(limit, found, allowed)}")
    lines += ["", "What would do, everything else kept:"]
    for limit, needed in why.relaxed.items():
        lines.append(f"  {_LIMIT_NAMES[limit]}: {_amount(limit, needed)}")
    if not why.relaxed:
        lines.append("  no single limit: at least two must give")
    return "\n".join(lines)


def _beyond(limit: str, found: float, allowed: float) -> str:
    if limit.startswith("min_"):
        return f"{_amount(limit, found)}, and {_amount(limit, allowed)} is asked for"
    more = percent(found / allowed - 1)
    return f"{_amount(limit, found)} against {_amount(limit, allowed)}, {more} too much"


def _amount(limit: str, value: float) -> str:
    if limit == "memory":
        return f"{gigabytes(value)} a device"
    if limit == "budget":
        return dollars(value)
    return duration(value) if limit == "deadline" else percent(value)


def _no_split(plan: "Plan", why: Infeasible) -> str:
    asked = np.unique(np.concatenate([side.devices for side in plan.searched]))
    middle = float(np.median(asked))
    near = sorted(sorted(why.counts, key=lambda count: abs(count - middle))[:6])
    listed = ", ".join(map(str, itertools.islice(asked.tolist(), 6)))
    return (
        f"The {plan.searched[0].subject} cannot be split evenly over {listed}"
        f"{' …' if len(asked) > 6 else ''} device{'' if listed == '1' else 's'}: "
        f"{plan.searched[0].undivided} do not divide.\n"
        f"Numbers of devices that would do: {', '.join(map(str, near))}."
    )
