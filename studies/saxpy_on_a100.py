"""Does SAXPY on an A100 run at about one and a half percent of the chip's peak?

Command: python studies/saxpy_on_a100.py

y ← a x + y does two FLOP for three elements moved, whatever the size, so that the bandwidth sets
its rate. The share of peak follows from the roofline, for the round 2 TB/s, for the bandwidths of
NVIDIA's A100 data sheet (SXM, 40 and 80 GB), for what a streaming kernel measures on an 80 GB card
(triad, 1.759 TB/s; github.com/te42kyfo/gpu-benches, gpu-stream, 2024), and in other types. Peaks
are those of NVIDIA's A100 white paper.

Finding: the intensity is 1/6 FLOP/B and the attainable rate 0.333 TFLOP/s: 1.71 % of 19.5 TFLOP/s,
not 1.5. The data sheets give 1.33 % (1.555 TB/s) and 1.74 % (2.039 TB/s); one and a half percent
is 1.755 TB/s, which the measured stream gives (1.50 %) and no data sheet. The type hardly matters
without matrix units (1.72 % in fp64, 1.71 % in bf16); of their 312 TFLOP/s it is 0.214 %.
"""

import numpy as np
import pandas as pd
from frame import BLUE, GREY, ORANGE, panels, present
from matplotlib.figure import Figure

import scaleopt as so
from scaleopt.units import TB, TFLOP

CASES = (
    ("fp32, 2 TB/s", 4, 19.5, 2.0),
    ("fp32, 40 GB card", 4, 19.5, 1.555),
    ("fp32, 80 GB card", 4, 19.5, 2.039),
    ("fp32, measured stream", 4, 19.5, 1.759),
    ("fp64, 2 TB/s", 8, 9.7, 2.0),
    ("bf16, 2 TB/s", 2, 39.0, 2.0),
    ("bf16, matrix units' peak", 2, 312.0, 2.0),
)
"""Name, bytes of an element, peak [TFLOP/s], bandwidth [TB/s]."""
CLAIM = 0.015


def shares() -> pd.DataFrame:
    """A row for each case: intensity, attainable rate, and its share of the peak."""
    rows = {}
    for name, item, peak, bandwidth in CASES:
        intensity = float(so.saxpy_intensity(item))
        rate = float(so.attainable_rate(intensity, peak * TFLOP, bandwidth * TB)) / TFLOP
        needed = CLAIM * peak / intensity
        rows[name] = [intensity, rate, peak, 100 * rate / peak, bandwidth, needed]
    columns = [
        "FLOP/B",
        "attainable TFLOP/s",
        "peak TFLOP/s",
        "% of peak",
        "TB/s",
        "TB/s for 1.5 %",
    ]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def draw() -> Figure:
    """SAXPY on the fp32 roofline, and the share of peak in each case against the claim."""
    figure, (roof, bars) = panels(2, width=12.0, height=4.6)
    found = shares()
    intensity = np.geomspace(0.01, 200, 400)
    roof.plot(intensity, np.asarray(so.attainable_rate(intensity, 19.5, 2.0)), color=BLUE, lw=2)
    x, y = (float(found[name].iloc[0]) for name in ("FLOP/B", "attainable TFLOP/s"))
    roof.plot(x, y, "o", color=ORANGE, ms=8, zorder=3)
    roof.annotate("", (x, 19.5), (x, y), arrowprops={"arrowstyle": "<->", "color": GREY})
    roof.axhline(19.5, color=GREY, lw=0.8, ls="--")
    below = f"{19.5 / y:.3g} times\nbelow the peak"
    roof.text(x / 1.2, 4.0, below, color=GREY, ha="right", va="center")
    label = f"SAXPY: 1/6 FLOP/B,\n{y:.3f} TFLOP/s"
    roof.text(x * 1.35, y * 0.95, label, color=ORANGE, va="top")
    roof.text(190, 21, "A100, fp32: 19.5 TFLOP/s", color=BLUE, ha="right", va="bottom")
    roof.set(xscale="log", yscale="log", xlim=(0.01, 200), ylim=(0.018, 60))
    roof.set(xlabel="intensity [FLOP/B]", ylabel="attainable rate [TFLOP/s]")
    roof.set_title("SAXPY is held by memory")
    percent = found["% of peak"].to_numpy(float)
    place = np.arange(len(found))[::-1]
    bars.barh(place, percent, color=[ORANGE, *[BLUE] * (len(found) - 1)], height=0.6)
    for at, value in zip(place, percent, strict=True):
        behind = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        bars.text(value + 0.03, at, f"{value:.3g} %", va="center", bbox=behind)
    bars.axvline(100 * CLAIM, color=GREY, lw=1.2, ls="--")
    bars.text(100 * CLAIM + 0.03, 0, "published:\n“about 1.5 %”", color=GREY, va="center")
    bars.set_yticks(place, list(found.index))
    bars.grid(visible=False)
    bars.set(xlabel="attainable rate [% of peak]", xlim=(0, 2.2))
    bars.set_title("1.71 % at 2 TB/s; 1.5 % is what a stream measures")
    return figure


if __name__ == "__main__":
    present(__doc__, "saxpy_on_a100", shares(), draw)
