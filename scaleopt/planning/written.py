"""Tables of a TOML file as numbers and objects; what is wrong is said with its place there."""

from collections.abc import Callable
from typing import Any

from scaleopt.units import parse


def made(kind: Callable[..., Any], sizes: dict[str, Any], where: str) -> Any:
    """An object of the package from a table of the file.

    Args:
        kind: what is made.
        sizes: its arguments.
        where: the table, for a sentence about what does not fit.
    """
    try:
        return kind(**sizes)
    except TypeError as error:
        raise ValueError(f"{where}: {str(error).split('__init__() ')[-1]}") from None


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
    try:
        return parse(value, unit) if isinstance(value, str) else float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None


def known(table: dict[str, Any], names: tuple[str, ...], where: str) -> None:
    """Refuse an entry that no table of the kind has."""
    unknown = [name for name in table if name not in names]
    if unknown:
        raise ValueError(f"{where} does not know {unknown[0]!r}; it takes {', '.join(names)}")
