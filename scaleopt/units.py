"""Units live in annotations; numbers inside are SI; text and multipliers are for the boundary.

A formula says what it takes and gives: ``def f(size: Bytes, beta: SecondsPerByte) -> Seconds``.
The annotation is the only place where the unit stands, and the contract tests read it there to
prove the formula dimensionally homogeneous. Values enter as ``5 * us``, ``300 * GB`` or
``parse("25 GB/s")`` and leave through `format_si`.
"""

import math
import re
from typing import Annotated, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array

Scalar: TypeAlias = Array | np.ndarray | float
"""A number or an array of numbers; every formula broadcasts over its arguments."""

Seconds = Annotated[Scalar, "s"]
Bytes = Annotated[Scalar, "B"]
Flops = Annotated[Scalar, "FLOP"]
FlopsPerSecond = Annotated[Scalar, "FLOP/s"]
BytesPerSecond = Annotated[Scalar, "B/s"]
SecondsPerByte = Annotated[Scalar, "s/B"]
FlopsPerByte = Annotated[Scalar, "FLOP/B"]
PerSecond = Annotated[Scalar, "1/s"]
"""Whatever is counted, each second: steps, tokens, transactions."""
Dollars = Annotated[Scalar, "USD"]
DollarsPerSecond = Annotated[Scalar, "USD/s"]
CountedFlops = Annotated[Scalar, "FLOP", "counted"]
"""FLOP counted from sizes without a unit: two for each multiply-add."""
CountedIntensity = Annotated[Scalar, "FLOP/B", "counted"]
Count = Annotated[Scalar, "1", "count"]
"""How many of something, from 1 up: devices, processes."""
Fraction = Annotated[Scalar, "1", "fraction"]
"""A share between 0 and 1."""
Share = Annotated[Scalar, "1", "share"]
"""How much of a reference is reached: 1 is all of it, and a measured one may come out above."""
Excess = Annotated[Scalar, "1", "excess"]
"""By how much something exceeds a mean, as a share of it: 0 where it does not."""
Ratio = Annotated[Scalar, "1", "ratio"]
"""A positive number without a unit: a speed-up, an efficiency."""

ns, us, ms = 1e-9, 1e-6, 1e-3
kB, MB, GB, TB, PB = 1e3, 1e6, 1e9, 1e12, 1e15
KiB, MiB, GiB, TiB = 2.0**10, 2.0**20, 2.0**30, 2.0**40
GFLOP, TFLOP, PFLOP = 1e9, 1e12, 1e15
minute, hour = 60.0, 3600.0
million = 1e6

_PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_SMALL = {"m": ms, "u": us, "µ": us, "μ": us, "n": ns, "p": 1e-12, "f": 1e-15}
_UNITS: dict[str, tuple[float, str]] = {
    "s": (1.0, "s"),
    **{prefix + "s": (factor, "s") for prefix, factor in _SMALL.items()},
    "min": (60.0, "s"),
    "h": (3600.0, "s"),
    "B": (1.0, "B"),
    **{prefix + "B": (factor, "B") for prefix, factor in _PREFIXES.items()},
    **{"KiB": (KiB, "B"), "MiB": (MiB, "B"), "GiB": (GiB, "B"), "TiB": (TiB, "B")},
    "bit": (1 / 8, "B"),
    **{prefix + "bit": (factor / 8, "B") for prefix, factor in _PREFIXES.items()},
    "FLOP": (1.0, "FLOP"),
    **{prefix + "FLOP": (factor, "FLOP") for prefix, factor in _PREFIXES.items()},
}
_AMBIGUOUS = {
    "b": "write bit or B: 'b' is read as either",
    "FLOPS": "write FLOP for a count or FLOP/s for a rate: 'FLOPS' is read as either",
    "FLOPs": "write FLOP for a count or FLOP/s for a rate: 'FLOPs' is read as either",
}
_QUANTITY = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*?)\s*")


def real(*values: Scalar) -> tuple[Array, ...]:
    """Floating-point arrays of the given numbers.

    A Python integer beyond 2³¹ does not fit JAX's default integer, and Python's own division
    raises where JAX gives an infinity; as floats from the start, 10**14 FLOP and a division by
    zero behave alike in every formula.

    >>> [f"{value:.3g}" for value in real(10**14, 8)]
    ['1e+14', '8']
    """
    return tuple(jnp.asarray(value, float) for value in values)


def parse(text: str, unit: str) -> float:
    """The SI value of a quantity written with its unit.

    Args:
        text: a number and a unit, such as "25 GB/s", "8 µs", "80 GiB", "100 Gbit/s".
        unit: the SI unit it must come out in: "s", "B", "FLOP", or a quotient of two of them.

    Returns:
        The value in that unit.

    Raises:
        ValueError: no number, no unit, an unknown or ambiguous unit, or another dimension.

    >>> parse("25 GB/s", "B/s")
    25000000000.0
    >>> parse("1 GiB", "B")
    1073741824.0
    >>> parse("25", "B/s")
    Traceback (most recent call last):
    ...
    ValueError: '25' has no unit; write it with one, such as '25 B/s'
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a number with a unit; write for example '25 {unit}'")
    number, written = match.groups()
    if not written:
        raise ValueError(f"{text!r} has no unit; write it with one, such as '{number} {unit}'")
    factor, dimension = 1.0, []
    for place, symbol in enumerate(written.split("/")):
        scale, base = _unit(symbol.strip(), text)
        factor = factor * scale if place == 0 else factor / scale
        dimension.append(base)
    if "/".join(dimension) != unit:
        found = "/".join(dimension)
        raise ValueError(f"{text!r} is in {found}, and a quantity in {unit} is needed")
    return float(number) * factor


def _unit(symbol: str, text: str) -> tuple[float, str]:
    """The factor to SI and the SI unit of one symbol."""
    if symbol in _UNITS:
        return _UNITS[symbol]
    for ending, remedy in _AMBIGUOUS.items():
        if symbol == ending or (symbol[1:] == ending and symbol[0] in _PREFIXES):
            raise ValueError(f"the unit {symbol!r} in {text!r} is ambiguous; {remedy}")
    known = "s (ms µs ns ps), min, h, B, bit and FLOP (k M G T P E), KiB to TiB, and quotients"
    raise ValueError(f"the unit {symbol!r} in {text!r} is unknown; known: {known}")


def format_si(value: float, unit: str, digits: int = 3) -> str:
    """A value with the SI prefix that a person would choose.

    Args:
        value: the number in SI.
        unit: its unit; "1" or "" for a bare number, which gets no prefix.
        digits: significant digits.

    Returns:
        Number, prefix and unit; times take the small prefixes, everything else the large ones.

    >>> format_si(8e-6, "s"), format_si(25e9, "B/s"), format_si(4e-11, "s/B")
    ('8 µs', '25 GB/s', '40 ps/B')
    >>> format_si(0.0, "s"), format_si(float("inf"), "B"), format_si(0.8312, "1")
    ('0 s', '∞ B', '0.831')
    """
    suffix = "" if unit in ("", "1") else f" {unit}"
    if math.isnan(value):
        return f"unknown{suffix}"
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}∞{suffix}"
    if value == 0:
        return f"0{suffix}"
    rounded = float(f"{value:.{digits}g}")
    if not suffix:
        return _plain(rounded, digits)
    # Nobody says kiloseconds or millibytes: time takes the small prefixes, all else the large.
    prefixes = (
        ["", "m", "µ", "n", "p", "f"] if unit[0] == "s" else ["", "k", "M", "G", "T", "P", "E"]
    )
    place = math.floor(math.log10(abs(rounded)) / 3) * (-1 if unit[0] == "s" else 1)
    place = max(0, min(place, len(prefixes) - 1))
    shown = rounded * 1000.0**place if unit[0] == "s" else rounded / 1000.0**place
    return f"{_plain(shown, digits)} {prefixes[place]}{unit}"


def _plain(value: float, digits: int) -> str:
    """Significant digits, no trailing zeros, and no exponent where a person needs none."""
    if 1e-4 <= abs(value) < 1e6:
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        text = f"{value:.{decimals}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.{digits}g}"
