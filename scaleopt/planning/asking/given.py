"""Numbers as a user gives them: each is one, or refused with a sentence."""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from scaleopt.units import MB, million

if TYPE_CHECKING:
    from scaleopt.fitting.result import Fit

_FEWEST = "a whole number above 0"


def number(name: str, value: Any, unit: str = "") -> float:
    """A single number.

    Raises:
        TypeError: text, a list, None, or anything else that is none.

    >>> number("deadline", 3600, "s")
    3600.0
    >>> number("deadline", "1 h", "s")
    Traceback (most recent call last):
    ...
    TypeError: deadline is '1 h'; give a number, in s
    """
    if not is_number(value):
        raise TypeError(f"{name} is {value!r}; give a number{f', in {unit}' if unit else ''}")
    return float(value)


def above_0(name: str, value: Any) -> float:
    """How much of something a run takes.

    Raises:
        TypeError: no number.
        ValueError: one that is not above 0, or has no end.
    """
    if not 0 < number(name, value) < np.inf:
        raise ValueError(f"{name} of the run: {value}; give above 0")
    return float(value)


def whole_number(name: str, value: Any) -> int:
    """A whole number above 0.

    Raises:
        TypeError: no number.
        ValueError: a part of one, or one below 1.
    """
    if not 1 <= number(name, value) < np.inf or value % 1 != 0:
        raise ValueError(f"{name} is {value}; give {_FEWEST}")
    return int(value)


def whole_numbers(name: str, given: int | Iterable[int]) -> np.ndarray:
    """One whole number above 0 or several of them, ascending, each once.

    Raises:
        TypeError: what is no number.
        ValueError: no number at all, a part of one, or one below 1.

    >>> whole_numbers("devices", [16, 8, 8]).tolist(), whole_numbers("devices", 4.0).tolist()
    ([8, 16], [4])
    """
    if is_number(given):
        return np.array([whole_number(name, given)])
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise TypeError(f"{name} is {given!r}; give {_FEWEST}, or several in a list")
    listed = list(given)
    if not listed:
        raise ValueError(f"{name} is empty; give {_FEWEST}, or several")
    for value in listed:
        if not is_number(value) or not 1 <= value < np.inf or value % 1 != 0:
            raise ValueError(f"{name} holds {value!r}; every one must be {_FEWEST}")
    return np.unique(np.array(listed, np.int64))


def check_constants(machine: Any) -> None:
    """Refuse a machine whose constants are no numbers, or that never comes to an end.

    Raises:
        TypeError: a constant that is no single number.
        ValueError: no number, none at all, or a rate or bandwidth that is not above 0.
    """
    kind = type(machine).__name__
    for name, value in vars(machine).items():
        if value is None:
            continue
        constant = number(f"{kind}: {name}", value)
        least = "above 0" if name in ("rate", "bandwidth") else "0 or more"
        if not 0 <= constant < np.inf or (least == "above 0" and constant == 0):
            raise ValueError(f"{kind}: {name} is {value}; a plan needs a finite number, {least}")


_BOUNDS = {
    "rate": ("below", million, "FLOP/s", "100 TFLOP/s are 100 * TFLOP"),
    "bandwidth": ("below", MB, "B/s", "2 TB/s are 2 * TB"),
    "alpha": ("above", 1.0, "s", "8 µs are 8 * us"),
    "network_alpha": ("above", 1.0, "s", "20 µs are 20 * us"),
    "beta": ("above", 1 / MB, "s/B", "a link of 200 GB/s is 1 / (200 * GB)"),
    "network_beta": ("above", 1 / MB, "s/B", "a link of 20 GB/s is 1 / (20 * GB)"),
}
"""What no machine has: such a number was written in another unit."""


def check_scale(machine: Any) -> None:
    """Refuse constants of a machine that are text, or in another unit than SI.

    Raises:
        TypeError: no number.
        ValueError: one that no machine has.
    """
    kind = type(machine).__name__
    for name, value in vars(machine).items():
        if value is not None:
            number(f"{kind}: {name}", value)
    for name, (side, bound, unit, meant) in _BOUNDS.items():
        if not hasattr(machine, name):
            continue
        value = float(getattr(machine, name))
        if 0 < value < bound if side == "below" else bound < value < np.inf:
            raise ValueError(
                f"{kind}: {name} is {value:g} {unit}, as no machine has it; it is in SI, so that "
                f"{meant} of scaleopt.units"
            )


def check_told(fit: "Fit[Any]", needed: tuple[str, ...]) -> None:
    """Refuse a fit whose rows leave open what a plan rests on.

    Args:
        fit: of a machine or a step.
        needed: constants without which no step has a time.

    Raises:
        ValueError: those that are not told, and which rows would tell them.
    """
    where = fit.provenance
    missing = [name for name in needed if where.get(name) == "not told"]
    if missing:
        named = re.compile(rf"\b({'|'.join(missing)})\b")
        about = [said for said in fit.unidentified if named.search(said)]
        raise ValueError(
            f"the fit's rows do not tell {' and '.join(missing)}, which a plan rests on. "
            f"{' '.join(about)}".rstrip()
        )


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a real number, be it in an array of JAX or NumPy without axes."""
    if isinstance(value, (bool, str, bytes)):
        return False
    return np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iuf"
