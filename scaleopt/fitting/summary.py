"""A fit as plain text: the parameters, how the rows scatter, and what could not be told."""

from typing import TYPE_CHECKING, Any

from scaleopt.units import format_si

if TYPE_CHECKING:
    from scaleopt.fitting.result import Fit


def summary_of(fit: "Fit[Any]", level: float) -> str:
    """The parameters with their intervals, and what could not be told."""
    if fit.failure:
        return f"the fit failed: {fit.failure}"
    lines = [f"{'parameter':<20}{'value':>14}   {100 * level:g} % interval"]
    for name, value, bounds in described_parameters(fit, level):
        lines.append(f"{name:<20}{value:>14}   {bounds}")
    for kind in fit.noise:
        text = f"{kind.name}: {kind.rows} row{'' if kind.rows == 1 else 's'}"
        text += f", {kind.scattered}" if kind.scattered else ""
        if kind.round_shift > 0:
            text += f", rounds shift by {100 * kind.round_shift:.2g} %"
        if kind.run_shift > 0:
            text += f", runs by {100 * kind.run_shift:.2g} %"
        if kind.misfit > 0:
            text += f", the model misses cell means by {100 * kind.misfit:.2g} % more"
        if kind.outliers:
            text += f", {kind.outliers} outliers have no say"
        lines.append(text)
    return "\n".join([*lines, *fit.unidentified, *fit.notes])


def described_parameters(fit: "Fit[Any]", level: float) -> list[tuple[str, str, str]]:
    """Name, value and interval of each parameter, in words."""
    low, high = fit.ranges(level)
    found = []
    for place, (name, unit) in enumerate(zip(fit.names, fit.parameters.units, strict=True)):
        if fit.covariance.unseen[place]:
            found.append((name, "not told", "any"))
            continue
        bounds = f"{format_si(low[place], unit)} … {format_si(high[place], unit)}"
        found.append((name, format_si(fit.estimate[place], unit), bounds))
    return found
