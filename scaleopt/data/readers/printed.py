"""Numbers as a log prints them: a value, and the range that the printed digits leave open."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from scaleopt.units import GB, MB, GiB, KiB, MiB, TiB, kB, million, ms, ns, us

_NUMBER = re.compile(
    r"[-+]?(?:[1-9]\d{0,2}(?:,\d{3})+|0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([-+]?\d{1,3}))?"
)
_LARGEST_EXPONENT, _LONGEST = 99, 40
"""Beyond these a cell is damaged: no time or bandwidth is printed so."""
_WHOLE = re.compile(r"[1-9]\d{0,2}(?:[,_]\d{3})+|0|[1-9]\d{0,17}")
_SUFFIXED = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?i?B?|[KMGT])", re.IGNORECASE)
_BINARY = {"": 1.0, "K": KiB, "M": MiB, "G": GiB, "T": TiB}

SECONDS = {
    **dict.fromkeys(("us", "usec", "µs", "μs", "microseconds"), us),
    **dict.fromkeys(("ms", "msec", "milliseconds"), ms),
    **dict.fromkeys(("s", "sec", "secs", "seconds"), 1.0),
    **dict.fromkeys(("ns", "nsec"), ns),
}
"""Units of time that logs write."""
RATES = {
    **dict.fromkeys(("gb/s", "gbps", "gb/sec"), GB),
    **dict.fromkeys(("mb/s", "mbytes/sec", "mb/sec"), MB),
    "gib/s": GiB,
    "kb/s": kB,
    "tb/s": million * million,
}
"""Units of bandwidth that logs write; a `Gbps` that means bits is its reader's to know."""


class Printed(NamedTuple):
    """A printed number, and the least and the most it can have been before it was rounded."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> "Printed":
        """The same in another unit; the factor is positive."""
        return Printed(self.value * factor, self.low * factor, self.high * factor)


def printed(text: str) -> Printed | None:
    """The number that a cell holds, None where it holds none; `nan` and `inf` are none.

    >>> printed("16.5")
    Printed(value=16.5, low=16.45, high=16.55)
    >>> printed("1,048,576").value, printed("12x"), printed("nan"), printed("016")
    (1048576.0, None, None, None)
    """
    match = _NUMBER.fullmatch(text) if text.isascii() else None
    if match is None:
        return None
    if abs(int(match[2] or 0)) > _LARGEST_EXPONENT or len(text) > _LONGEST:
        return None
    value = float(text.replace(",", ""))
    half = 0.5 * 10.0 ** (int(match[2] or 0) - len(match[1] or ""))
    return Printed(value, value - half, value + half)


def all_printed(cells: Sequence[str]) -> list[Printed] | None:
    """The numbers that cells hold; None where one is no number or below 0.

    >>> all_printed(["1", "x"]) is None, [number.value for number in all_printed(["1", "2.5"])]
    (True, [1.0, 2.5])
    """
    numbers = [number for cell in cells if (number := printed(cell)) and number.value >= 0]
    return numbers if len(numbers) == len(cells) else None


def whole(text: str) -> int | None:
    """The whole number that a cell holds, with thousands marked, or not.

    >>> whole("1048576"), whole("1,024"), whole("10.5"), whole("-1")
    (1048576, 1024, None, None)
    """
    plain = _WHOLE.fullmatch(text) if text.isascii() else None
    return int(text.replace(",", "").replace("_", "")) if plain else None


def byte_count(text: str) -> float | None:
    """Bytes as a size column holds them: a whole number, or one with K, M, G meaning 2¹⁰ and up.

    >>> byte_count("65536"), byte_count("64K"), byte_count("1.5 MB"), byte_count("big")
    (65536.0, 65536.0, 1572864.0, None)
    """
    plain = whole(text)
    if plain is not None:
        return float(plain)
    match = _SUFFIXED.fullmatch(text) if text.isascii() else None
    if match is None:
        return None
    if len(text) > _LONGEST:
        return None
    return float(match[1]) * _BINARY[match[2].upper().removesuffix("B").removesuffix("I")]


def overlap(one: Printed, low: float, high: float) -> bool:
    """Whether a printed number can be one between the bounds; the last bit is forgiven."""
    slack = 1e-9 * max(abs(high), abs(one.high))
    return one.low <= high + slack and low <= one.high + slack
