"""What datasheets promise of a device: priors and labels, never results.

`catalog.toml` ties each rate to its element type, dense (a "sparse" rate counts twice what is
computed), and each entry to its source. What is not certain is left out and reads as None; a
device that is not here is refused by name, never replaced by another.
"""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from scaleopt.units import hour, parse


@dataclass(frozen=True)
class Price:
    """What an hour of one device costs by list, with its share of the host."""

    dollars_per_second: float
    source: str
    date: str


@dataclass(frozen=True)
class Device:
    """One entry of the catalogue, in SI; None where no certain figure is known."""

    name: str
    rates: Mapping[str, float]
    """Dense peak rate [FLOP/s] by element type; int8 counts operations."""
    memory: float | None
    """Bytes of its own memory [B]."""
    memory_bandwidth: float
    """[B/s]."""
    link_bandwidth: float | None
    """To other devices, all links together, in one direction [B/s]."""
    power: float | None
    """Thermal design power [W]."""
    price: Price | None
    source: str
    date: str


@cache
def catalog() -> Mapping[str, Device]:
    """Every device that is known, by name.

    >>> sorted(catalog())[0]
    'A100 40GB SXM'
    """
    text = files("scaleopt.data").joinpath("catalog.toml").read_text(encoding="utf-8")
    return MappingProxyType({name: _device(name, e) for name, e in tomllib.loads(text).items()})


def device(name: str) -> Device:
    """The entry of a device by its name.

    Args:
        name: as in `catalog()`; capitals and spaces do not matter.

    Raises:
        ValueError: a name that is not in the catalogue, with the nearest that are.

    >>> device("h100 sxm").rates["bf16"]
    989000000000000.0
    """
    known = {_plain(known): entry for known, entry in catalog().items()}
    if _plain(name) in known:
        return known[_plain(name)]
    near = difflib.get_close_matches(_plain(name), known, n=3, cutoff=0.3)
    names = ", ".join(known[match].name for match in near) or "none"
    raise ValueError(
        f"device {name!r} is not in the catalogue and is not replaced by another; nearest names: "
        f"{names}. Measure it instead: a fit needs no entry"
    )


def _plain(name: str) -> str:
    return "".join(name.lower().split())


def _device(name: str, entry: dict[str, Any]) -> Device:
    def quantity(key: str, unit: str) -> float | None:
        return parse(entry[key], unit) if key in entry else None

    price = entry.get("price")
    return Device(
        name=name,
        rates=MappingProxyType({t: parse(r, "FLOP/s") for t, r in entry["rates"].items()}),
        memory=quantity("memory", "B"),
        memory_bandwidth=parse(entry["memory_bandwidth"], "B/s"),
        link_bandwidth=quantity("link_bandwidth", "B/s"),
        power=entry.get("power_w"),
        price=None
        if price is None
        else Price(price["dollars_per_hour"] / hour, price["source"], price["date"]),
        source=entry["source"],
        date=entry["date"],
    )
