"""How fast can any number of devices make a program that is partly serial?

Command: python studies/amdahl_ceiling.py

Amdahl's law with the work held fixed, for the parallel fractions that textbooks print, and the
ceiling 1 / (1 − p) that no number of devices passes.

Finding: with 95 % parallel the ceiling is 20; with 40 % serial it is 2.5. At p = 0.5 two devices
give 1.333 and a thousand 1.998; at p = 0.99 a thousand give 90.99 of the 100 possible. There nine
tenths of the ceiling take 891 devices, one half of it 99.
"""

import numpy as np
import pandas as pd
from frame import BLUE, GREEN, ORANGE, PURPLE, panels, present
from matplotlib.figure import Figure

import scaleopt as so

DEVICES = (1, 2, 4, 8, 1000)
PARALLEL = (0.5, 0.6, 0.9, 0.95, 0.99)


def speedups() -> pd.DataFrame:
    """A row for each parallel fraction: the speed-up at each N, and the ceiling."""
    rows = {
        p: [float(so.amdahl_speedup(n, p)) for n in DEVICES] + [float(so.amdahl_limit(p))]
        for p in PARALLEL
    }
    columns = [*(f"N = {n}" for n in DEVICES), "ceiling"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("p")


def draw() -> Figure:
    """Speed-up against N, each curve under its ceiling."""
    figure, (axes,) = panels()
    devices = np.geomspace(1, 10_000, 400)
    axes.plot(devices, devices, color="#999999", lw=1, ls=":", label="perfect")
    for p, color in zip((0.5, 0.9, 0.95, 0.99), (PURPLE, GREEN, ORANGE, BLUE), strict=True):
        ceiling = float(so.amdahl_limit(p))
        axes.plot(devices, np.asarray(so.amdahl_speedup(devices, p)), color=color, lw=2)
        axes.axhline(ceiling, color=color, lw=0.8, ls="--")
        label = f"p = {p}: at most {ceiling:.3g}"
        axes.text(9_500, ceiling * 1.05, label, color=color, ha="right")
    axes.set(xscale="log", yscale="log", xlim=(1, 10_000), ylim=(0.9, 200))
    axes.set(xlabel="devices N", ylabel="speed-up S(N)")
    axes.set_title("The serial part sets the ceiling, not the number of devices")
    axes.legend(frameon=False, loc="upper left")
    return figure


if __name__ == "__main__":
    present(__doc__, "amdahl_ceiling", speedups(), draw)
