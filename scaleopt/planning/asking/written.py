"""Tables of a TOML file as numbers and objects; what is wrong is said with its place there."""

import inspect
from typing import Any

from scaleopt.planning.asking.given import is_number
from scaleopt.units import parse


def made(kind: type[Any], sizes: dict[str, Any], where: str) -> Any:
    """An object of the package from a table of the file.

    Args:
        kind: what is made.
        sizes: its arguments.
        where: the table, for a sentence about what does not fit.
    """
    takes = {
        name: argument
        for name, argument in inspect.signature(kind.__init__).parameters.items()
        if name != "self"
    }
    known(sizes, tuple(takes), where)
    for name, argument in takes.items():
        if argument.default is argument.empty and name not in sizes:
            raise ValueError(f"{where} has no {name}")
    return kind(**sizes)


def quantities(written: dict[str, Any], units: dict[str, str], where: str) -> dict[str, Any]:
    """The entries of a table in SI.

    Args:
        written: numbers, or text with a unit.
        units: of each entry that is known; "" for what is taken as it stands.
        where: the table.
    """
    known(written, tuple(units), where)
    return {
        name: quantity(value, units[name], f"{where}: {name}") if units[name] else value
        for name, value in written.items()
    }


def quantity(value: Any, unit: str, where: str) -> float:
    """A number in SI, or text with a unit."""
    if not isinstance(value, str) and not is_number(value):
        raise ValueError(
            f"{where} is {value!r}; give a number in {unit}, or text such as '25 {unit}'"
        )
    try:
        return parse(value, unit) if isinstance(value, str) else float(value)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def above_0(value: float, where: str) -> float:
    """A number that something is divided by."""
    if not value > 0:
        raise ValueError(f"{where} is {value:g}; it must be above 0")
    return value


def table_of(written: Any, where: str) -> dict[str, Any]:
    """A table of the file, or a sentence about what stands in its place."""
    if not isinstance(written, dict):
        raise ValueError(f"{where} is {written!r}; it is a table, with a line for each name")
    return written


def known(table: dict[str, Any], names: tuple[str, ...], where: str) -> None:
    """Refuse an entry that no table of the kind has."""
    unknown = [name for name in table if name not in names]
    if unknown:
        raise ValueError(f"{where} does not know {unknown[0]!r}; it takes {', '.join(names)}")
