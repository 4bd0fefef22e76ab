"""The report that a person reads in ten seconds: the answer first, then why to believe it."""

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from scaleopt.fitting.propagate import Estimate
from scaleopt.fitting.result import Fit
from scaleopt.models.step import StepTime
from scaleopt.planning.devices.choice import DeviceChoice
from scaleopt.show.diagnostics_rows import rows_against
from scaleopt.show.origin import origin
from scaleopt.show.remarks import any_row, contradicted, remarks
from scaleopt.units import format_si

if TYPE_CHECKING:
    from scaleopt.models.machine import Machine

_WIDTH = 100
_SYMBOLS = {"rate": "r", "alpha": "α", "beta": "β"}


def report(
    fit: "Fit[StepTime] | Fit[Machine]",
    choice: DeviceChoice | None,
    context: dict[str, Any],
    level: float = 0.95,
) -> str:
    """The whole report as text.

    Args:
        fit: from `calibrate`.
        choice: what was decided, where there was a workload to decide for.
        context: of the table that was fitted.
        level: of the intervals.

    Returns:
        Lines without colour, at most as wide as a terminal where tables are concerned.
    """
    parts = [heading(context)]
    if fit.failure:
        return "\n\n".join([*parts, f"The fit failed: {fit.failure}."])
    unasked = _NO_WORKLOAD if isinstance(fit.model, StepTime) else _TRAINING
    parts += [decision(choice)] if choice else [unasked]
    rows = rows_against(fit, None, level)
    parts += [parameters(fit, level), measured_against_predicted(rows, level)]
    said = remarks(fit, choice, context)
    parts += [listing(title, lines) for title, lines in said.items() if lines]
    parts.append(origins(fit, choice, context))
    return "\n\n".join(parts)


_NO_WORKLOAD = "No step was measured: give --flops and --size to be told how many devices to use."
_TRAINING = (
    "Training runs: 'scaleopt plan RUN.TOML' with table = this one chooses devices, batch and "
    "sharding."
)


def heading(context: dict[str, Any]) -> str:
    """Which machine, how much of it, and when."""
    devices, kind = context.get("devices", "?"), context.get("device_kind", "unknown devices")
    where = f"{devices} x {kind}" if "devices" in context else kind
    if context.get("platform") == "cpu":
        cores = context.get("physical_cores", "?")
        where = f"{devices} CPU device{_s(devices)} on {cores} physical core{_s(cores)}"
    words = ["scaleopt", where, context.get("processor"), context.get("date")]
    return " · ".join(str(word) for word in words if word)


def decision(choice: DeviceChoice) -> str:
    """How many devices, how sure, what double costs, and what limits."""
    work, bytes_ = format_si(choice.flops, "FLOP"), format_si(choice.size, "B")
    if choice.open:
        return (
            f"For steps of {work} with {bytes_} of gradients these rows do not tell how many "
            "devices are best:\n  any number may be; what could not be told is listed below."
        )
    best, limit = int(choice.best.value), choice.limit
    seconds = f"{format_si(float(choice.time.time), 's')} a step"
    scatter = (
        f"{format_si(float(choice.time.low), 's')} … {format_si(float(choice.time.high), 's')}"
    )
    lines = [
        f"For steps of {work} with {bytes_} of gradients:",
        *(f"  {said}" for said in contradicted(choice)),
        f"  best of up to {choice.max_devices}: {best} {_range(choice.best)}, {seconds} "
        f"({scatter} for a measurement), {choice.speedup:.2f} times as fast as one",
        f"  without a limit: N* = {_count(choice.optimal.value)} {_range(choice.optimal)}"
        + _double(choice),
        f"  what limits at {best}: {limit}, {100 * choice.shares[limit]:.0f} % of the step",
    ]
    if len(choice.measured) > 1:
        times = ", ".join(f"{n}: {format_si(t, 's')}" for n, t in choice.measured.items())
        lines.append(f"  measured medians of this step by devices: {times}")
    return "\n".join(lines)


def parameters(fit: Fit[Any], level: float) -> str:
    """Each parameter with value and interval."""
    table = _table("parameter", "", "value", f"{100 * level:g} % interval", "from")
    where = fit.provenance
    for name, value, bounds in fit.described(level):
        table.add_row(name, _SYMBOLS.get(name, ""), value, bounds, where[name])
    return _render(table)


def measured_against_predicted(rows: pd.DataFrame, level: float) -> str:
    """Median ratio of measured to predicted time, the range of a measurement, and who is in it.

    Args:
        rows: as `rows_against` gives them.
        level: of their ranges.
    """
    table = _table("rows", "devices", "count", "measured", "measured / predicted", "range", "in it")
    for (op, devices), group in rows.groupby(["op", "devices"]):
        ratio = group["time_s"] / group["predicted_s"]
        shortest, longest = group["time_s"].min(), group["time_s"].max()
        reach = (group["high_s"] / group["predicted_s"]).median()
        told = group[np.isfinite(group["high_s"])]
        table.add_row(
            str(op),
            f"{devices}{' (oversubscribed)' if any_row(group, 'oversubscribed') else ''}",
            str(len(group)),
            f"{format_si(shortest, 's', 2)} … {format_si(longest, 's', 2)}",
            f"{ratio.median():.2f}  ({ratio.quantile(0.05):.2f} … {ratio.quantile(0.95):.2f})",
            "open" if reach == np.inf else f"×/÷ {reach:.2f}",
            f"{100 * told['inside'].mean():.0f} %" if len(told) else "–",
        )
    within, ranges = rows[np.isfinite(rows["high_s"])], f"{100 * level:g} % range"
    if within.empty:
        return f"{_render(table)}\nThe {ranges} of every row is open: nothing bounds it."
    share = f"{100 * within['inside'].mean():.1f} % within their {ranges}"
    if len(within) == len(rows):
        return f"{_render(table)}\nAll rows: {share}."
    left = len(rows) - len(within)
    return f"{_render(table)}\n{len(within)} rows: {share}; that of the other {left} is open."


def origins(fit: Fit[Any], choice: DeviceChoice | None, context: dict[str, Any]) -> str:
    """Which numbers were measured, which fitted, which assumed, a line each."""
    found = origin(fit, choice, context).items()
    lines = [f"{where}: {'; '.join(words)}" for where, words in found if words]
    return listing("Where the numbers are from:", lines)


def _count(value: float) -> str:
    if np.isinf(value):
        return "∞"
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _s(count: Any) -> str:
    return "" if count == 1 else "s"


def _range(estimate: Estimate) -> str:
    return f"({_count(estimate.low)} … {_count(estimate.high)})"


def _double(choice: DeviceChoice) -> str:
    if np.isnan(choice.slowdown_at_double):
        return "; latency is consistent with 0, so every further device may help"
    return f"; 2N* is {100 * choice.slowdown_at_double:.2g} % slower"


def listing(title: str, lines: list[str]) -> str:
    """A title with a line for each of what it is about."""
    return "\n".join([title, *(f"  - {line}" for line in lines)])


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place == 0 else "right", no_wrap=True)
    return table


def _render(table: Table) -> str:
    """The table as plain text, whatever the terminal."""
    out = io.StringIO()
    Console(file=out, width=_WIDTH, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())
