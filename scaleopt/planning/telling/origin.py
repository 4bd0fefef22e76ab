"""Where the numbers of a plan are from: measured, fitted, printed by a maker, or assumed."""

from dataclasses import fields
from typing import TYPE_CHECKING

from scaleopt.fitting.provenance import Provenance, rows_of
from scaleopt.planning.asking.offer import Offer
from scaleopt.units import format_si, hour

if TYPE_CHECKING:
    from scaleopt.planning.result import Plan

_OFFERED = {
    "memory": "B",
    "price": "USD/s",
    "power": "W",
    "peak_rate": "FLOP/s",
    "interruptions": "1/s",
    "checkpoint": "s",
    "restart": "s",
}
"""The numbers of an offer beside its machine's, with their units."""


def provenance(plan: "Plan") -> dict[str, Provenance]:
    """Where each number is from that a plan rests on.

    Args:
        plan: from `so.plan`.

    Returns:
        By name, after the offer's name where there are several: "fitted" to rows, or "not told" by
        them; "datasheet" where the catalogue gave it; "assumed" where it was given, or is what
        leaves a term out. What the plan reckons, as `step_time`, is no surer than its machine:
        "fitted" where every machine is, else "assumed".
    """
    offers = [side.offer for side in plan.searched]
    found: dict[str, Provenance] = {}
    for place, offer in enumerate(offers, 1):
        prefix = f"{offer.name or place}." if len(offers) > 1 else ""
        found |= {prefix + name: it for name, it in _of_offer(offer).items()}
    reckoned = "assumed" if any(offer.fit is None for offer in offers) else "fitted"
    found |= dict.fromkeys(("step_time", "time", "cost", "memory_needed", "mfu"), reckoned)
    return found


def _of_offer(offer: Offer) -> dict[str, Provenance]:
    found: dict[str, Provenance] = {}
    if offer.fit is None:
        found |= dict.fromkeys((it.name for it in fields(offer.model)), "assumed")
    else:
        found |= offer.fit.provenance
    for name in _given(offer):
        found[name] = "datasheet" if name in offer.sources else "assumed"
    return found


def _given(offer: Offer) -> list[str]:
    """The numbers that an offer has beside its machine's."""
    return [name for name in _OFFERED if getattr(offer, name)]


def origin(plan: "Plan") -> list[str]:
    """A sentence for each kind of origin and offer."""
    lines = []
    for side in plan.searched:
        offer = side.offer
        named = f"{offer.name}: " if offer.name and len(plan.searched) > 1 else ""
        lines += [f"{named}{line}" for line in _sentences(offer)]
    return lines


def beyond_peak(offer: Offer) -> list[str]:
    """A sentence where a machine is faster than its devices can be."""
    rate = float(offer.model.rate)
    if rate <= offer.peak:
        return []
    reached, peak = (format_si(it, "FLOP/s") for it in (rate, offer.peak))
    return [
        f"rate {reached} is above the peak rate {peak}: one of them is wrong, and so is the MFU"
    ]


def _sentences(offer: Offer) -> list[str]:
    lines = []
    if offer.fit is None:
        lines.append("assumed: the machine's constants, as you gave them")
    else:
        where = offer.fit.provenance
        lines.append(f"measured: {rows_of(offer.fit)}")
        for kind, said in (("fitted", "to these rows"), ("assumed", "given, or a prior")):
            names = [name for name, it in where.items() if it == kind]
            if names:
                lines.append(f"{kind}: {', '.join(names)}, {said}")
    printed: dict[str, list[str]] = {}
    for name in _given(offer):
        if name in offer.sources:
            printed.setdefault(offer.sources[name], []).append(_said(offer, name))
    lines += [f"{source}: {', '.join(said)}" for source, said in printed.items()]
    told = [_said(offer, name) for name in _given(offer) if name not in offer.sources]
    if told:
        lines.append(
            f"assumed: {', '.join(told)}, as you gave {'it' if len(told) == 1 else 'them'}"
        )
    return lines


def _said(offer: Offer, name: str) -> str:
    value = getattr(offer, name)
    if name == "price":
        return f"price ${value * hour:.4g} an hour"
    return f"{name.replace('_', ' ')} {format_si(value, _OFFERED[name])}"
