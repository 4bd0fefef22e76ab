"""From how many FLOP for each byte does a chip compute at its peak, and what does the corner cost?

Command: python studies/ridge_points.py

The ridge points of a server CPU and three GPUs from their fp32 peaks without matrix units, as the
usual tables print them, and of the same GPUs from their dense bf16 peaks. The rates are rounded
from NVIDIA's data sheets (A100, H100 SXM) and its Ada white paper (RTX 4090); the CPU is an
example. Beside them the lowest share of the sharp roof that the smooth one keeps.

Finding: in fp32 the ridges are 8.57 (CPU), 82 (RTX 4090), 9.75 (A100) and 20.3 FLOP/B (H100). In
bf16 the same GPUs have theirs at 165, 156 and 300: the type moves the A100's by 16, more than any
two of these chips differ in fp32. The smooth roof lies lowest at the ridge, on every chip alike:
at 0.5 of the sharp one for s = 1, at 0.841 for s = 4 (the default) and 0.958 for s = 16.
"""

import numpy as np
import pandas as pd
from frame import BLUE, GREEN, GREY, ORANGE, PURPLE, panels, present
from matplotlib.figure import Figure

import scaleopt as so
from scaleopt.units import TB, TFLOP

SINGLE = (("CPU", 3.0, 0.35), ("RTX 4090", 82.0, 1.0), ("A100", 19.5, 2.0), ("H100", 67.0, 3.3))
"""Each chip's fp32 peak [TFLOP/s], without matrix units, and bandwidth [TB/s]."""
HALF = (("RTX 4090", 165.2, 1.0), ("A100", 312.0, 2.0), ("H100", 989.5, 3.3))
"""The same with the dense bf16 peak of the matrix units."""
SHARPNESS = (1, 4, 16)
RELATIVE = np.geomspace(1 / 64, 64, 241)
"""Intensities as multiples of the ridge point, which is the middle one."""


def kept(peak: float, bandwidth: float, sharpness: float) -> np.ndarray:
    """The share of the sharp roof that the smooth one keeps, at each of `RELATIVE`."""
    intensity = RELATIVE * float(so.ridge_point(peak, bandwidth))
    smooth = so.smooth_rate(intensity, peak, bandwidth, sharpness)
    return np.asarray(smooth / so.attainable_rate(intensity, peak, bandwidth))


def ridges() -> pd.DataFrame:
    """A row for each chip and type: its roofs, its ridge, and the least that rounding leaves."""
    rows = {}
    for dtype, chips in (("fp32", SINGLE), ("bf16", HALF)):
        for chip, peak, bandwidth in chips:
            roofs = peak * TFLOP, bandwidth * TB
            lowest = [float(kept(*roofs, s).min()) for s in SHARPNESS]
            ridge = float(so.ridge_point(*roofs))
            rows[f"{chip} {dtype}"] = [peak, bandwidth, ridge, *lowest]
    columns = ["TFLOP/s", "TB/s", "ridge FLOP/B", *(f"kept, s = {s}" for s in SHARPNESS)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def draw() -> Figure:
    """Four rooflines with their ridges, and one corner rounded more and less."""
    figure, (roofs, corner) = panels(2, width=12.0, height=4.8)
    intensity = np.geomspace(0.25, 4096, 600)
    for (chip, peak, bandwidth), color in zip(SINGLE, (GREY, PURPLE, ORANGE, BLUE), strict=True):
        rate = np.asarray(so.attainable_rate(intensity, peak, bandwidth))
        ridge = float(so.ridge_point(peak, bandwidth))
        roofs.plot(intensity, rate, color=color, lw=2)
        roofs.plot(ridge, peak, "o", color=color, ms=7)
        above = chip != "H100"  # its roof lies close under the RTX 4090's
        place = peak * (1.08 if above else 0.93)
        label = f"{chip}: ridge {ridge:.3g}"
        roofs.text(3_700, place, label, color=color, ha="right", va="bottom" if above else "top")
    chip, peak, bandwidth = HALF[1]
    ridge = float(so.ridge_point(peak, bandwidth))
    rate = np.asarray(so.attainable_rate(intensity, peak, bandwidth))
    roofs.plot(intensity, rate, color=ORANGE, lw=1.3, ls="--", zorder=1)
    roofs.plot(ridge, peak, "o", color=ORANGE, ms=7, mfc="white")
    label = f"{chip} in bf16: ridge {ridge:.3g}"
    roofs.text(3_700, peak * 1.08, label, color=ORANGE, ha="right", va="bottom")
    roofs.set(xscale="log", yscale="log", xlim=(0.25, 4096), ylim=(0.08, 900))
    roofs.set(xlabel="intensity [FLOP/B]", ylabel="attainable rate [TFLOP/s]")
    roofs.set_title("The ridge belongs to a chip in a type (solid: fp32)")
    sharp = np.minimum(1.0, RELATIVE)
    corner.plot(RELATIVE, sharp, color=GREY, lw=1.2, ls="--", label="sharp: overlapped fully")
    for s, color in zip(SHARPNESS, (PURPLE, BLUE, GREEN), strict=True):
        share = kept(1.0, 1.0, s)
        lowest = float(share.min())
        corner.plot(RELATIVE, sharp * share, color=color, lw=2, label=f"s = {s}: {lowest:.3f}")
        corner.plot(1.0, lowest, "o", color=color, ms=6)
    corner.set(xscale="log", yscale="log", xlim=(1 / 16, 16), ylim=(0.05, 1.3))
    corner.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
    corner.set_yticks([0.1, 0.5, 1], ["0.1", "0.5", "1"])
    corner.set(xlabel="intensity / ridge point", ylabel="rate / peak")
    corner.set_title("A rounded corner costs most at the ridge: 1 − 2^(−1/s)")
    corner.legend(frameon=False, loc="lower right", title="share kept at the ridge")
    return figure


if __name__ == "__main__":
    present(__doc__, "ridge_points", ridges(), draw)
