"""What datasheets and price lists print of a device: priors and labels, never results.

`catalog.toml` lists each figure under the text it was read in. A figure that no text gave is not
known, and the device says so; a device that is not here is welcome everywhere else, and is never
replaced by another.
"""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal

from scaleopt.units import format_si, hour, parse

DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4")
"""Element types of a peak rate; int8 counts operations."""
_UNITS = {
    **dict.fromkeys(DTYPES, "FLOP/s"),
    "memory": "B",
    "memory_bandwidth": "B/s",
    "link_bandwidth": "B/s",
    "link_alpha": "s",
    "price": "USD/s",
}
QUANTITIES = tuple(_UNITS)
"""Everything that can be asked of a device."""
_MAKERS = ("nvidia", "geforce", "amd", "instinct", "tesla", "google", "cloud", "aws")


class NotKnownError(KeyError):
    """The catalogue holds no such figure."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Figure:
    """One printed number in SI, with the text it was read in."""

    value: float
    unit: str
    source: str
    date: str
    """Of the text; of the day it was read where it has none."""
    provenance: Literal["datasheet", "list price", "assumed"]
    """Assumed: no maker prints it, and a library reckons with it."""

    def __str__(self) -> str:
        return f"{self.said()} ({_text(self)})"

    def said(self) -> str:
        """The number as people write it."""
        if self.unit == "USD/s":
            return f"${self.value * hour:.4g} an hour"
        return format_si(self.value, self.unit, 4)


@dataclass(frozen=True)
class Device:
    """One entry: figures by quantity, of one device; links in one direction, all together."""

    name: str
    figures: Mapping[str, Figure]
    note: str
    """What a figure does not say by itself; mostly empty."""

    def __getitem__(self, quantity: str) -> Figure:
        """A figure.

        Raises:
            NotKnownError: no text gave it.
            ValueError: not one of `QUANTITIES`.
        """
        figure = self.get(quantity)
        if figure is None:
            raise NotKnownError(
                f"{quantity} of {self.name} is not known: no text that was read gives it, and it "
                "is not guessed; measure it, or give your own number"
            )
        return figure

    def get(self, quantity: str) -> Figure | None:
        """A figure, or None where it is not known."""
        if quantity not in _UNITS:
            raise ValueError(f"{quantity!r} is not catalogued; use one of {', '.join(QUANTITIES)}")
        return self.figures.get(quantity)

    def __str__(self) -> str:
        texts = dict.fromkeys(map(_text, self.figures.values()))
        number = {text: place for place, text in enumerate(texts, 1)}
        lines = [self.name + (f": {self.note}" if self.note else "")]
        for quantity in QUANTITIES:
            it = self.get(quantity)
            said = "not known" if it is None else f"{it.said()} [{number[_text(it)]}]"
            lines.append(f"  {quantity:<17}{said}")
        return "\n".join(lines + [f"[{place}] {text}" for text, place in number.items()])


def catalog(name: str) -> Device:
    """What is printed of a device.

    Args:
        name: as in `catalog_names`, or as the device calls itself; capitals, spaces and the
            maker's name do not matter.

    Returns:
        Its figures; what no text gave is not known.

    Raises:
        ValueError: a name that fits several devices, or none.

    >>> h100 = catalog("NVIDIA H100 80GB HBM3")
    >>> h100.name, h100["bf16"].value
    ('H100 SXM', 989000000000000.0)
    >>> print(catalog("T4")["memory"].source)
    RajBhope/gpu-runtime-predictor on Hugging Face, gpu_catalog.json
    >>> catalog("T4")["bf16"]
    Traceback (most recent call last):
    ...
    scaleopt.data.catalog.NotKnownError: bf16 of T4 is not known: no text that was read gives it...
    """
    wanted, known = _plain(name), _names()
    if wanted in known:
        return _devices()[known[wanted]]
    # Part of a name, as H100, may mean several devices with other rates: none is chosen.
    fitting = sorted({known[it] for it in known if wanted and it.startswith(wanted)})
    if fitting:
        raise ValueError(f"device {name!r} may be {' or '.join(fitting)}; say which")
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
    nearest = ", ".join(dict.fromkeys(known[it] for it in near)) or "none"
    raise ValueError(
        f"device {name!r} is not in the catalogue, and no other stands in for it (nearest names: "
        f"{nearest}); measure it instead: a fit needs no entry"
    )


def catalog_names() -> tuple[str, ...]:
    """Every device of the catalogue.

    >>> catalog_names()[3:5]
    ('H100 SXM', 'H100 PCIe')
    """
    return tuple(_devices())


@cache
def _whole() -> dict[str, Any]:
    return tomllib.loads(files("scaleopt.data").joinpath("catalog.toml").read_text("utf-8"))


@cache
def _devices() -> Mapping[str, Device]:
    entries = _whole()["devices"]
    return MappingProxyType({name: _device(name, entry) for name, entry in entries.items()})


@cache
def _names() -> Mapping[str, str]:
    """The catalogue's name by every spelling that means it."""
    entries = _whole()["devices"]
    spelt = [(name, it) for name in entries for it in (name, *entries[name].get("aliases", ()))]
    return MappingProxyType({_plain(it): name for name, it in spelt})


def _text(figure: Figure) -> str:
    return f"{figure.provenance}: {figure.source}; {figure.date}"


def _plain(name: str) -> str:
    words = name.lower().replace("-", " ").split()
    return "".join(word for word in words if word not in _MAKERS)


def _device(name: str, entry: dict[str, Any]) -> Device:
    figures = {}
    for group in entry["figures"]:
        source = _whole()["sources"][group["source"]]
        where = source["text"], source["date"], source.get("provenance", "datasheet")
        for key, printed in group.items():
            if key != "source":
                quantity = key.removesuffix("_per_hour")
                unit = _UNITS[quantity]
                value = printed / hour if quantity == "price" else parse(printed, unit)
                figures[quantity] = Figure(value, unit, *where)
    return Device(name, MappingProxyType(figures), entry.get("note", ""))
