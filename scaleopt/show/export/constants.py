"""What a fit has to hand over: each constant with its interval and where it is from."""

import json
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

import numpy as np

from scaleopt.fitting.result import Fit
from scaleopt.models.step import StepTime

Provenance = Literal["fitted", "assumed", "not told"]
"""Fitted to the rows; held fixed; or fitted, and the rows do not tell it."""
_UNITS = {"rate": "FLOP/s", "beta": "s/B", "alpha": "s", "serial_time": "s", "launch": "s"}


@dataclass(frozen=True)
class Constant:
    """One number of the model in SI; without ends where nothing bounds it."""

    value: float
    low: float | None
    high: float | None
    unit: str
    provenance: Provenance


class Constants(NamedTuple):
    """Everything that a format can draw on."""

    model: StepTime
    named: dict[str, Constant]
    devices: int
    """The most that were measured."""
    per_node: int | None
    """Devices of one host, where the rows say."""
    level: float

    def need(self, *names: str) -> None:
        """Refuse where the rows do not tell a constant that a format cannot do without."""
        for name in names:
            if self.named[name].provenance == "not told" or self.named[name].value <= 0:
                raise ValueError(
                    f"{name} is not told by these rows, and this format needs it; time "
                    "all-reduces at small and large sizes, on several device counts, then export"
                )

    def comments(self, *names: str) -> list[str]:
        """A line for each constant named, as a comment of a text format would hold it."""
        return [f"{name}: {self._line(name)}" for name in names]

    def _line(self, name: str) -> str:
        it = self.named[name]
        if it.provenance == "not told":
            return "not told by these rows"
        range_ = "" if it.low is None else f", {100 * self.level:g} % {it.low:.4g} … {_end(it)}"
        return f"{it.value:.6g} {it.unit}{range_} ({it.provenance})"

    def sidecar(self) -> str:
        """All constants as JSON, for formats without comments."""
        return json.dumps({name: asdict(it) for name, it in self.named.items()}, indent=2) + "\n"


class Export(NamedTuple):
    """A file's text, what it could not express, and the JSON to lie beside it, if any."""

    text: str
    unsaid: tuple[str, ...]
    sidecar: str | None = None


def constants(fit: Fit[StepTime], level: float = 0.95) -> Constants:
    """The constants of a fitted step model.

    Raises:
        ValueError: a fit that failed.
    """
    if fit.failure:
        raise ValueError(f"the fit failed and has no constants to export: {fit.failure}")
    low, high = fit.ranges(level)
    named = {}
    for name in ("rate", "alpha", "beta", "serial_time", "launch", "compute_efficiency"):
        value = float(getattr(fit.model, name))
        if name not in fit.names:
            named[name] = Constant(value, None, None, _UNITS.get(name, "1"), "assumed")
            continue
        at = fit.names.index(name)
        told = not fit.covariance.unseen[at]
        ends = (float(low[at]), float(high[at])) if told else (0.0, float("inf"))
        upper = ends[1] if np.isfinite(ends[1]) else None
        where: Provenance = "fitted" if told else "not told"
        named[name] = Constant(value, ends[0], upper, _UNITS.get(name, "1"), where)
    rows = fit.rows
    per_node = None
    if "nodes" in rows and rows["nodes"].notna().any():
        per_node = int((rows["devices"] / rows["nodes"]).max())
    return Constants(fit.model, named, int(rows["devices"].max()), per_node, level)


def compute_rate(found: Constants) -> float | None:
    """What a step's compute reaches [FLOP/s]; None where the rows do not tell it."""
    parts = (found.named["rate"], found.named["compute_efficiency"])
    if any(part.provenance == "not told" for part in parts):
        return None
    return parts[0].value * parts[1].value


def _end(it: Constant) -> str:
    return "∞" if it.high is None else f"{it.high:.4g}"
