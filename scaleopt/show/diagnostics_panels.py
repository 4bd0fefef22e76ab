"""The panels of residuals and of predictions: rows, cell medians, and the range of a fit."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from scaleopt.show.diagnostics_rows import WORK, varied, worst_cell
from scaleopt.units import format_si

_DARK, _BAND, _OUTLIER = "#1b1b1b", "#0b5fa5", "#c0392b"
_COLOURS = ("#0b5fa5", "#d1780f", "#8a2f7c", "#4c7a34", "#6b6b6b")
_ABOVE = (1.005, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 30, 100, 1000)
_BELOW = (0.995, 0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.2, 0.1, 0.03, 0.01, 0.001)
_FEW = 6
"""So many distinct values or fewer have a tick each."""
_SHOWN_REACH = 1.8
"""Rows further off than this many times the stated range are drawn at the edge."""


def residual_strips(figure: FigureBase, rows: pd.DataFrame, level: float) -> None:
    """A strip of panels for each kind: against what is done in a row, and against N."""
    kinds = list(rows.groupby("op", sort=False))
    strips = np.atleast_1d(np.asarray(figure.subfigures(len(kinds), 1)))
    handles: dict[str, Any] = {}
    for place, (strip, (kind, part)) in enumerate(zip(strips, kinds, strict=True)):
        columns = [*(varied(part) or ["predicted_s"]), "devices"]
        panels = strip.subplots(1, len(columns), sharey=True)
        for axes, column in zip(panels, columns, strict=True):
            _residual_panel(axes, part, column, level, _COLOURS[place % len(_COLOURS)])
            legend = zip(*axes.get_legend_handles_labels(), strict=True)
            handles |= {label: handle for handle, label in legend}
        panels[0].set_ylabel("measured / predicted")
        strip.suptitle(_finding(str(kind), part, level), fontsize="medium")
    share = 100 * rows["inside"].mean()
    figure.suptitle(
        f"{share:.3g} % of {len(rows)} rows lie in the range that the fit states for "
        f"{100 * level:g} %"
    )
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=len(handles),
        frameon=False,
        fontsize="small",
    )


def _finding(kind: str, rows: pd.DataFrame, level: float) -> str:
    """What the residuals of a kind say."""
    reach = float((rows["high_s"] / rows["predicted_s"]).median())
    said = f"×/÷ {reach:.2f}" if np.isfinite(reach) else "any time"
    return (
        f"{kind}: {100 * rows['inside'].mean():.3g} % of {len(rows)} rows in their "
        f"{100 * level:g} % range ({said}); furthest cell {worst_cell(rows)}"
    )


def _edge(rows: pd.DataFrame) -> float:
    """The |log| ratio that the axis reaches to."""
    furthest = float(np.abs(np.log(rows["ratio"].to_numpy(float))).max())
    reach = float(np.log((rows["high_s"] / rows["predicted_s"]).median()))
    if not np.isfinite(reach):
        reach = furthest
    return max(1.25 * reach, min(1.1 * furthest, _SHOWN_REACH * reach), 1e-3)


def _residual_panel(axes: Axes, rows: pd.DataFrame, column: str, level: float, colour: str) -> None:
    """Rows, cell medians and the stated range against one column."""
    edge = _edge(rows)
    rows = rows[rows[column] > 0]
    low, high = np.exp(-edge), np.exp(edge)
    shown = rows["ratio"].between(low, high)
    near, far = rows[shown], rows[~shown]
    axes.set(xscale="log", yscale="log", ylim=(low, high))
    _label_abscissa(axes, rows[column], column)
    _shade(axes, rows, column, f"{100 * level:g} % range of the fit")
    axes.axhline(1.0, color=_BAND, lw=1, zorder=1)
    plain, wild = near[~near["outlier"]], near[near["outlier"]]
    if len(plain):
        axes.plot(
            plain[column],
            plain["ratio"],
            "o",
            color=colour,
            ms=3.5,
            mew=0,
            alpha=max(0.2, min(0.7, 60 / len(rows))),
            zorder=2,
        )
    if len(wild):
        axes.plot(
            wild[column],
            wild["ratio"],
            "x",
            color=_OUTLIER,
            ms=5,
            zorder=3,
            label="outlier, no say in the fit",
        )
    if len(far):
        axes.plot(
            far[column],
            far["ratio"].clip(low, high),
            "s",
            color=_OUTLIER,
            ms=4,
            mew=0,
            zorder=3,
            clip_on=False,
            label="further off than shown",
        )
    medians = rows.drop_duplicates([column, "cell_ratio"])
    axes.plot(
        medians[column],
        medians["cell_ratio"],
        "D",
        color="white",
        mec=_DARK,
        mew=0.8,
        ms=4.5,
        zorder=4,
        label="median of a cell",
    )
    _label_ratios(axes, edge)


def _shade(axes: Axes, rows: pd.DataFrame, column: str, label: str) -> None:
    """The stated range at each abscissa, carried on to the edges of the panel."""
    stated = pd.DataFrame(
        {
            "low": rows["low_s"] / rows["predicted_s"],
            "high": rows["high_s"] / rows["predicted_s"],
            "at": rows[column],
        }
    )
    # No bound is drawn far outside the panel, since nothing is drawn at infinity.
    bounds = stated.groupby("at").median().clip(1e-8, 1e8)
    left, right = axes.get_xlim()
    at = np.concatenate([[left], bounds.index.to_numpy(float), [right]])
    low, high = (np.pad(bounds[name].to_numpy(), 1, mode="edge") for name in ("low", "high"))
    axes.fill_between(at, low, high, color=_BAND, alpha=0.15, lw=0, zorder=0, label=label)


def _label_abscissa(axes: Axes, values: pd.Series, column: str) -> None:
    """Name, unit and ticks of what is drawn to the right."""
    name, unit = {**WORK, "devices": ("devices N", "1"), "predicted_s": ("predicted time", "s")}[
        column
    ]
    least, most = float(values.min()), float(values.max())
    margin = max((most / least) ** 0.09, 1.05) if most > least else 1.5
    axes.set(xlabel=name, xlim=(least / margin, most * margin))
    distinct = np.sort(values.unique().astype(float))
    if len(distinct) <= _FEW or column == "devices":
        ticks = _apart(distinct, 0.12 if column == "devices" else 0.22)
        axes.set_xticks(ticks, [format_si(it, unit) for it in ticks])
    else:
        axes.xaxis.set_major_locator(LogLocator(numticks=7))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda it, _: format_si(it, unit)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(visible=True, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def _apart(values: np.ndarray, share: float) -> list[float]:
    """Those of the sorted values that leave each other room on a log axis: a share of it."""
    kept, room = [float(values[0])], share * np.log(values[-1] / values[0])
    for value in values[1:]:
        if np.log(value / kept[-1]) >= room:
            kept.append(float(value))
    return kept


def _label_ratios(axes: Axes, edge: float) -> None:
    """A few round ratios on both sides of 1."""
    above = [
        max(filter(lambda it: np.log(it) <= part, _ABOVE), default=1.0) for part in (edge, edge / 2)
    ]
    below = [
        min(filter(lambda it: np.log(it) >= -part, _BELOW), default=1.0)
        for part in (edge, edge / 2)
    ]
    ticks = sorted({1.0, *above, *below})
    axes.set_yticks(ticks, [f"{it:.4g}" for it in ticks])
    axes.yaxis.set_minor_locator(NullLocator())


def predicted_panels(figure: FigureBase, rows: pd.DataFrame, level: float) -> None:
    """A panel for each kind: measured upwards, predicted to the right."""
    kinds = list(rows.groupby("op", sort=False))
    panels = figure.subplots(1, len(kinds), squeeze=False)[0]
    for place, ((kind, part), axes) in enumerate(zip(kinds, panels, strict=True)):
        part = part.sort_values("predicted_s")
        axes.fill_between(
            part["predicted_s"],
            part["low_s"].clip(1e-15),
            part["high_s"].clip(upper=1e15),
            color=_BAND,
            alpha=0.15,
            lw=0,
            label=f"{100 * level:g} % range",
        )
        times = part[["predicted_s", "time_s"]].to_numpy(float)
        ends = np.array([times.min() / 1.1, times.max() * 1.1])
        axes.plot(ends, ends, color=_BAND, lw=1)
        plain, wild = part[~part["outlier"]], part[part["outlier"]]
        colour = _COLOURS[place % len(_COLOURS)]
        axes.plot(
            plain["predicted_s"], plain["time_s"], "o", color=colour, ms=3.5, mew=0, alpha=0.4
        )
        if len(wild):
            axes.plot(
                wild["predicted_s"], wild["time_s"], "x", color=_OUTLIER, ms=5, label="outlier"
            )
        axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="predicted")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(numticks=5))
            axis.set_major_formatter(FuncFormatter(lambda it, _: format_si(it, "s")))
            axis.set_minor_locator(NullLocator())
        axes.set_title(f"{kind}: half within ±{_typical(part)}", fontsize="medium")
        axes.grid(visible=True, alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize="small", loc="upper left", frameon=False)
    panels[0].set_ylabel("measured")


def _typical(rows: pd.DataFrame) -> str:
    """The deviation that half of the rows stay within."""
    off = np.abs(np.log(rows["ratio"].to_numpy(float)))
    return f"{100 * np.expm1(np.median(off)):.2g} %"
