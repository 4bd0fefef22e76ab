"""One picture of a decision: measured times on the curve T(N), and what the curve is made of."""

from pathlib import Path

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scaleopt.fitting.result import Fit
from scaleopt.models.step import StepTime
from scaleopt.planning.devices.choice import DeviceChoice
from scaleopt.units import format_si

_POINTS = 200
_MEASURED, _MODEL, _COMPUTE = "#1b1b1b", "#0b5fa5", "#d1780f"
_COMMUNICATION, _SERIAL = "#8a2f7c", "#4c7a34"


def save_step_time(
    fit: Fit[StepTime], choice: DeviceChoice, path: str | Path, level: float = 0.95
) -> None:
    """Draw `step_time` and write it; the ending of the path chooses the format.

    Args:
        fit: from `calibrate`.
        choice: which workload, and what was decided for it.
        path: such as "step_time.png" or "step_time.svg".
        level: the share of measurements within the band.
    """
    figure = Figure(figsize=(9.0, 5.0), layout="constrained", dpi=150)
    step_time(figure.subplots(), fit, choice, level)
    figure.savefig(path)


def step_time(axes: Axes, fit: Fit[StepTime], choice: DeviceChoice, level: float = 0.95) -> None:
    """Measured step times against N, T(N) with the range of a measurement, its terms, and N*.

    Args:
        axes: where to draw.
        fit: from `calibrate`.
        choice: which workload, and what was decided for it.
        level: the share of measurements within the band.
    """
    shown_optimum = choice.optimal.value if np.isfinite(choice.optimal.value) else 1.0
    most = max(4.0 * choice.measured_devices, 2.0 * shown_optimum, 2.0 * choice.best.value)
    devices = np.geomspace(1.0, most, _POINTS)
    predicted = fit.predict(devices=devices, flops=choice.flops, size=choice.size, level=level)
    with jax.enable_x64(True):
        terms = jax.jit(StepTime.terms)(fit.model, devices, choice.flops, choice.size)
    axes.axvspan(
        1.0, choice.measured_devices, color="#000000", alpha=0.06, lw=0, label="measured range"
    )
    if np.all(np.isfinite(predicted.high)):
        band = f"{100 * level:g} % of measurements"
        axes.fill_between(
            devices, predicted.low, predicted.high, color=_MODEL, alpha=0.18, lw=0, label=band
        )
    axes.plot(devices, predicted.time, color=_MODEL, lw=2, label="T(N)")
    axes.plot(devices, np.asarray(terms.compute), color=_COMPUTE, ls="--", label="compute")
    if float(terms.serial[0]) > 0:
        axes.plot(devices, np.asarray(terms.serial), color=_SERIAL, ls=(0, (1, 1)), label="serial")
    communication = np.asarray(terms.communication)
    told = dict(zip(fit.names, ~fit.covariance.unseen, strict=True))
    if np.any(communication > 0) and told.get("alpha", True):
        axes.plot(devices, communication, color=_COMMUNICATION, ls=":", label="communication")
    _measured(axes, fit, choice)
    _medians(axes, choice)
    if np.isfinite(choice.optimal.value):
        label = f"N* = {choice.optimal.value:.3g}"
        axes.axvline(choice.optimal.value, color=_MODEL, lw=1, ls="-.", label=label)
    work, size = format_si(choice.flops, "FLOP"), format_si(choice.size, "B")
    axes.set(
        xscale="log",
        yscale="log",
        xlim=(0.9, most),
        ylim=(predicted.time.min() / 30, predicted.time.max() * 3),
        xlabel="devices N",
        ylabel="seconds a step",
        title=f"Steps of {work} with {size} of gradients",
    )
    _whole_ticks(axes, most)
    axes.yaxis.set_major_formatter(lambda seconds, _: format_si(seconds, "s"))
    axes.grid(visible=True, which="major", alpha=0.25)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def _measured(axes: Axes, fit: Fit[StepTime], choice: DeviceChoice) -> None:
    """The rows of this workload, hollow where devices outnumbered cores."""
    rows = fit.rows[(fit.rows["op"] == "step")]
    rows = rows[
        np.isclose(rows["flops"], choice.flops, rtol=0.05) & (rows["size_bytes"] == choice.size)
    ]
    if rows.empty:
        return
    injected = rows["injected_s"].fillna(0.0) if "injected_s" in rows else 0.0
    crowded = (
        rows["oversubscribed"].astype(bool) if "oversubscribed" in rows else rows["devices"] < 0
    )
    for mask, face, label in (
        (~crowded, _MEASURED, "measured"),
        (crowded, "none", "oversubscribed"),
    ):
        if mask.any():
            axes.scatter(
                rows["devices"][mask],
                (rows["time_s"] - injected)[mask],
                s=14,
                facecolors=face,
                edgecolors=_MEASURED,
                linewidths=0.7,
                alpha=0.35,
                zorder=3,
                label=label,
            )


def _medians(axes: Axes, choice: DeviceChoice) -> None:
    """The median of what was measured, which overplotted points do not show."""
    if choice.measured:
        devices, seconds = zip(*choice.measured.items(), strict=True)
        axes.plot(
            devices, seconds, "D", color="white", mec=_MEASURED, ms=6, zorder=4, label="median"
        )


def _whole_ticks(axes: Axes, most: float) -> None:
    """Powers of two on the axis of devices."""
    ticks = 2.0 ** np.arange(0, np.log2(most) + 1, max(1, int(np.log2(most) // 8)))
    axes.set_xticks(ticks, [f"{int(tick)}" for tick in ticks])
    axes.xaxis.minorticks_off()
