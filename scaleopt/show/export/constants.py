"""What a fit has to hand over: each constant with its interval, and where it is from."""

import importlib.metadata
import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from scaleopt.fitting.provenance import Provenance, rows_of
from scaleopt.fitting.result import Fit
from scaleopt.models.step import StepTime
from scaleopt.show.origin import origin_of_rows

_UNITS = {"rate": "FLOP/s", "beta": "s/B", "alpha": "s", "serial_time": "s", "launch": "s"}


@dataclass(frozen=True)
class Constant:
    """One number of the model in SI; none where the rows do not tell it."""

    value: float | None
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
    nodes: int | None
    """The most hosts that were measured, where the rows say."""
    per_node: int | None
    """Devices of one host, where the rows say."""
    dtype: str | None
    """Of the steps and matmuls, where they say, and all the same."""
    level: float
    origin: tuple[str, ...]
    """What the constants were fitted to, and where the rows are from."""

    def told(self, name: str) -> bool:
        """Whether a constant can be used: told by the rows, or assumed, and above 0."""
        return (self.named[name].value or 0.0) > 0

    def need(self, *names: str) -> None:
        """Refuse where the rows do not tell a constant that a format cannot do without."""
        for name in names:
            if not self.told(name):
                raise ValueError(
                    f"{name} is not told by these rows, and this format needs it; time "
                    "all-reduces at small and large sizes, on several device counts, then export"
                )

    def comments(self, unsaid: tuple[str, ...], *names: str) -> list[str]:
        """Origin, each constant named, and what is not expressed: the lines of a text's head."""
        return [
            *(f"# {it}" for it in self.origin),
            *(f"# {name}: {self.line(name)}" for name in names),
            *(f"# not expressed: {it}" for it in unsaid),
        ]

    def line(self, name: str) -> str:
        """A constant with its interval and where it is from."""
        it = self.named[name]
        if it.value is None:
            return "not told by these rows"
        ends = ""
        if it.low is not None:
            high = "∞" if it.high is None else f"{it.high:.4g}"
            ends = f", {100 * self.level:g} % {it.low:.4g} … {high}"
        return f"{it.value:.6g} {it.unit}{ends} ({it.provenance})"

    def beside(self, unsaid: tuple[str, ...]) -> dict[str, Any]:
        """The same for a JSON whose reader passes over keys that it does not know."""
        return {
            "origin": list(self.origin),
            "level": self.level,
            "constants": {name: asdict(it) for name, it in self.named.items()},
            "not_expressed": list(unsaid),
        }


class Export(NamedTuple):
    """A file's text, and what it could not express."""

    text: str
    unsaid: tuple[str, ...]


def constants(
    fit: Fit[StepTime], level: float = 0.95, context: dict[str, Any] | None = None
) -> Constants:
    """The constants of a fitted step model.

    Raises:
        TypeError: a fit of another model.
        ValueError: a fit that failed.
    """
    if not isinstance(fit.model, StepTime):
        raise TypeError(
            f"export takes the fit of a StepTime, and this is one of {type(fit.model).__name__}; "
            "so.calibrate gives it from rows of kind matmul, all_reduce and step"
        )
    if fit.failure:
        raise ValueError(f"the fit failed and has no constants to export: {fit.failure}")
    low, high = fit.ranges(level)
    named = {}
    for name, where in fit.provenance.items():
        ends: tuple[float | None, float | None] = (None, None)
        if where == "fitted":
            at = fit.names.index(name)
            ends = float(low[at]), float(high[at]) if math.isfinite(high[at]) else None
        elif where == "not told":
            ends = 0.0, None
        value = None if where == "not told" else float(getattr(fit.model, name))
        named[name] = Constant(value, *ends, _UNITS.get(name, "1"), where)
    rows = fit.rows
    nodes = per_node = None
    if "nodes" in rows and rows["nodes"].notna().any():
        nodes = int(rows["nodes"].max())
        per_node = int((rows["devices"] / rows["nodes"]).max())
    computed = rows[rows["op"].isin(["step", "matmul"])] if "op" in rows else rows
    dtypes = set(computed["dtype"].dropna()) if "dtype" in computed else set()
    dtype = str(dtypes.pop()) if len(dtypes) == 1 else None
    most = int(rows["devices"].max())
    origin = (
        f"scaleopt {importlib.metadata.version('scaleopt')}: fitted to {rows_of(fit)}",
        *origin_of_rows(context or {}),
    )
    return Constants(fit.model, named, most, nodes, per_node, dtype, level, origin)


def compute_rate(found: Constants) -> float | None:
    """What a step's compute reaches [FLOP/s]; None where the rows do not tell it."""
    rate, reached = found.named["rate"].value, found.named["compute_efficiency"].value
    return None if rate is None or reached is None else rate * reached
