"""Numbers of a model as they are written down: refused where they cannot be."""

from typing import Any


def check_numbers(owner: Any, least: dict[str, float], *, above: bool = False) -> None:
    """Refuse text, and numbers that are too small, as they are written; traced values pass.

    Args:
        owner: the model.
        least: by name the least that a number may be; whole for counts.
        above: whether the least is itself too small.

    Raises:
        TypeError: a text.
        ValueError: a number that is too small, or none.
    """
    for name, low in least.items():
        value = getattr(owner, name)
        if isinstance(value, str):
            raise TypeError(
                f"{type(owner).__name__}: {name} is {value!r}; give a number in SI, such as "
                "so.units.parse gives of such text"
            )
        if isinstance(value, (int, float)) and not (value > low if above else value >= low):
            rule = f"above {low:g}" if above else f"{low:g} or more"
            unit = "" if isinstance(low, int) else " (SI)"
            raise ValueError(f"{type(owner).__name__}: {name} is {value}; it must be {rule}{unit}")
