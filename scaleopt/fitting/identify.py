"""What the rows cannot tell, in words: blind directions, and parameters that may not be there."""

from collections.abc import Callable

import numpy as np

from scaleopt.fitting.parameters import Coordinate, Parameters, Point
from scaleopt.fitting.uncertainty import INVOLVED, Covariance
from scaleopt.units import format_si

Remedy = Callable[[frozenset[str]], str]
"""Which measurement would tell these parameters apart."""


def unidentified(
    point: Point, spread: Covariance, parameters: Parameters, remedy: Remedy | None
) -> tuple[str, ...]:
    """A sentence for each thing that the rows cannot tell."""
    names, sentences = parameters.names, []
    advise = remedy or (lambda _: "Add rows in which the other columns change.")
    if len(spread.blind) == len(names):
        few = f"no more independent rows than parameters, so none of {', '.join(names)} can be told"
        return (f"There are {few}. Add rows, or fix a parameter that you know.",)
    for group in _joined(spread.blind) if len(spread.blind) else ():
        joined = [names[place] for place in group]
        if len(joined) == 1:
            text = f"{joined[0]} has no effect on these rows, so any value fits."
        else:
            listed = ", ".join(joined[:-1]) + f" and {joined[-1]}"
            text = f"{listed} cannot be told apart: they can change together and no time changes."
        sentences.append(f"{text} {advise(frozenset(joined))}")
    reach = spread.quantile(0.95) * spread.deviation
    for place, (u, kind) in enumerate(zip(point.u, point.coordinate, strict=True)):
        if spread.unseen[place]:
            continue
        if u + reach[place] >= point.highest[place]:
            least = format_si(float(point.scale[place] * max(min(u, 1.0) - reach[place], 0.0)), "1")
            sentences.append(f"{names[place]} is consistent with 1, at least {least} (95 %).")
        if u - reach[place] > 0:
            continue
        most = max(float(u), 0.0) + reach[place]
        unit, scale = parameters.units[place], float(point.scale[place])
        if kind == Coordinate.LINEAR:
            bound = f"consistent with 0, at most {format_si(scale * most, unit)}"
        elif kind == Coordinate.RECIPROCAL:
            bound = f"consistent with no limit, at least {format_si(scale / most, unit)}"
        else:
            continue
        sentences.append(f"{names[place]} is {bound} (95 %).")
    return tuple(sentences)


def _joined(blind: np.ndarray) -> list[list[int]]:
    """Parameters grouped by the blind directions that they share."""
    overlap = np.abs(blind.T @ blind) > INVOLVED**2
    groups: list[list[int]] = []
    for place in np.flatnonzero(np.diag(overlap)):
        home = next((group for group in groups if overlap[place, group].any()), None)
        if home is None:
            groups.append([int(place)])
        else:
            home.append(int(place))
    return groups
