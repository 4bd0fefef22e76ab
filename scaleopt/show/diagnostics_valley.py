"""Two parameters that pull against each other: the valley in which the rows leave them."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from scaleopt.fitting.result import Fit
from scaleopt.fitting.valley import Valley, valley
from scaleopt.show.diagnostics_rows import refuse
from scaleopt.units import format_si

_LEVELS = (0.5, 0.9, 0.95)
_SHADES = ("#0b5fa5", "#6aa1d0", "#c3dbf0")
_DARK, _SQUARE = "#1b1b1b", "#d1780f"
_CLOSE, _FAINT = 0.7, 0.3
"""The correlations from which two parameters are confounded, and below which they are not."""
_DIFFERENT = 0.2
"""The share of an area by which two regions may differ and be called alike."""
_MARGIN = 0.12
_DECADE = 3.0
"""The ratio of its ends from which an axis of a positive parameter is logarithmic."""


def draw_valley(fit: Fit[Any], first: str | None = None, second: str | None = None) -> Figure:
    """The regions that hold two parameters with 50, 90 and 95 %, the others solved anew.

    The loss of the rows is followed, at each pair of values with all other parameters at their
    best; its square, from which the fit's intervals are, is drawn beside it in dashes, so that one
    sees whether the intervals can be believed. With priors or weights, where the rows alone are
    not what was fitted, the square is drawn alone: near the best point it is the same.

    Args:
        fit: from `fit` or `calibrate`.
        first: a parameter; the two that are most confounded unless given.
        second: another one; what confounds the first most unless given.

    Returns:
        The figure. A parameter that may be 0 is drawn as it enters the time, on to below 0; a
        rate that may have no limit as its inverse. With a direction that no row sees, the valley
        is open, and the title says so.

    Raises:
        ValueError: a fit that failed, one with a single free parameter, or an unknown name.
        TypeError: a fit without a covariance of its parameters.

    Source: `scaleopt.fitting.valley`.
    """
    figure = Figure(figsize=(7.4, 5.4), layout="constrained", dpi=130)
    valley_panel(figure, fit, first, second)
    return figure


def valley_panel(
    figure: FigureBase, fit: Fit[Any], first: str | None = None, second: str | None = None
) -> None:
    """Draw the valley into a figure or a part of one."""
    if not isinstance(fit, Fit):
        raise TypeError(
            f"{type(fit).__name__} has no covariance of its parameters; draw_residuals and "
            "draw_predicted take a CollectiveFit and its table"
        )
    refuse(fit)
    found = valley(fit, first, second)
    axes = figure.subplots()
    across, up = found.grid
    axes.contourf(
        across, up, found.share, levels=[0.0, *_LEVELS], colors=_SHADES, alpha=0.85, zorder=1
    )
    handles: list[Any] = [
        Patch(color=shade, alpha=0.85, label=f"{100 * level:g} %")
        for level, shade in zip(_LEVELS, _SHADES, strict=True)
    ]
    if found.square is not None and found.followed:
        axes.contour(
            across,
            up,
            found.square,
            levels=[_LEVELS[-1]],
            colors=_SQUARE,
            linestyles="--",
            linewidths=1.2,
            zorder=2,
        )
        handles.append(
            Line2D([], [], color=_SQUARE, ls="--", label="95 %, as the intervals see it")
        )
    axes.plot(*found.possible, "D", color="white", mec=_DARK, ms=6, zorder=4)
    handles.append(Line2D([], [], ls="", marker="D", color="white", mec=_DARK, label="the model"))
    if not np.allclose(found.best, found.possible, rtol=1e-6):
        axes.plot(*found.best, "x", color=_DARK, ms=7, zorder=4)
        handles.append(Line2D([], [], ls="", marker="x", color=_DARK, label="best without bounds"))
    for place, axis in enumerate((axes.xaxis, axes.yaxis)):
        _label(axes, axis, found, place)
    if _impossible(axes, found):
        handles.append(Patch(facecolor="#000000", alpha=0.12, label="below 0: not possible"))
    figure.suptitle(_finding(found), fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, alpha=0.25)
    figure.legend(
        handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize="small"
    )


def _finding(found: Valley) -> str:
    """What the valley says."""
    one, other = found.names
    if found.open:
        return f"{one} and {other}: the valley is open;\nalong it no time changes, any value fits"
    size = abs(found.correlation)
    if size > _CLOSE:
        pull = "rise together" if found.correlation > 0 else "stand in for each other"
    else:
        pull = "are told apart" if size < _FAINT else "are somewhat confounded"
    first = f"{one} and {other} {pull}\n(correlation {found.correlation:.2f})"
    if not found.followed:
        return f"{first}; regions of the covariance"
    differs = departure(found)
    if differs > _DIFFERENT:
        return f"{first}; the intervals' view (dashed) differs by {100 * differs:.0f} %"
    return f"{first}; the intervals' view (dashed) holds"


def departure(found: Valley) -> float:
    """How much of the two 95 % regions is in one alone, as a share of the square's."""
    assert found.square is not None
    followed, square = found.share < _LEVELS[-1], found.square < _LEVELS[-1]
    return float(np.sum(followed ^ square) / max(np.sum(square), 1))


def _label(axes: Axes, axis: Any, found: Valley, place: int) -> None:
    """Name, unit, scale and ticks of one parameter."""
    name, unit = found.names[place], found.units[place]
    if found.inverse[place]:
        name, unit = f"1 / {name}", _inverted(unit)
    ends = _ends(found, place)
    (axes.set_xlim if place == 0 else axes.set_ylim)(*ends)
    if found.logarithmic[place] and ends[1] > _DECADE * ends[0]:
        (axes.set_xscale if place == 0 else axes.set_yscale)("log")
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_locator(MaxNLocator(6))
    axis.set_major_formatter(FuncFormatter(lambda value, _: format_si(value, unit)))
    axis.set_label_text(name)


def _ends(found: Valley, place: int) -> tuple[float, float]:
    """What an axis spans: the widest regions, and a margin."""
    values = found.grid[place]
    if not found.open:
        inside = found.share < _LEVELS[-1]
        values = values[inside if found.square is None else inside | (found.square < _LEVELS[-1])]
    low, high = float(values.min()), float(values.max())
    if found.open:
        return low, high
    if found.logarithmic[place]:
        return low * (low / high) ** _MARGIN, high * (high / low) ** _MARGIN
    return low - _MARGIN * (high - low), high + _MARGIN * (high - low)


def _inverted(unit: str) -> str:
    """The unit of 1/θ."""
    above, _, below = unit.partition("/")
    return unit if unit == "1" else f"{below or '1'}/{above}"


def _impossible(axes: Axes, found: Valley) -> bool:
    """Shade what is below 0; whether anything is."""
    left, bottom = axes.get_xlim()[0], axes.get_ylim()[0]
    if left < 0:
        axes.axvspan(left, 0, color="#000000", alpha=0.12, lw=0, zorder=3)
    if bottom < 0:
        axes.axhspan(bottom, 0, color="#000000", alpha=0.12, lw=0, zorder=3)
    return left < 0 or bottom < 0
