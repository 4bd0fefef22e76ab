"""How much of each device is left when a tenth of the program is serial?

Command: python studies/amdahl_efficiency.py

Amdahl's law with the work held fixed. The efficiency E = S/N may be written without the speed-up,
E(N) = 1 / ((1 − p) N + p): both numerator and denominator of S/N = (1/N) / ((1 − p) + p/N) are
multiplied by N. It falls to one half where (1 − p) N + p = 2, so at N = 1 + 1/(1 − p), one device
more than the ceiling 1/(1 − p) of the speed-up.

Finding: at p = 0.9 the speed-ups on 1, 2, 4 and 8 devices are 1, 1.818, 3.077 and 4.706, and the
efficiencies 1, 0.909, 0.769 and 0.588. Half is left on 11 devices; at p = 0.5 on 3, at 0.95 on 21,
at 0.99 on 101. In float64 the two forms differ by no more than 4.5e-16 of their value, two
units of rounding, for 1001 p from 0 to 1 and 121 N from 1 to a million.
"""

import jax
import numpy as np
import pandas as pd
from frame import BLUE, GREEN, GREY, ORANGE, PURPLE, panels, present
from matplotlib.figure import Figure

import scaleopt as so

DEVICES = (1, 2, 4, 8)
PARALLEL = (0.5, 0.9, 0.95, 0.99)


def direct_efficiency(devices: so.units.Scalar, p: so.units.Scalar) -> so.units.Scalar:
    """E(N) = 1 / ((1 − p) N + p), without the speed-up."""
    return 1 / ((1 - p) * devices + p)


def half_devices(p: float) -> float:
    """The N on which half the efficiency is left: 1 + 1/(1 − p), one above the ceiling of S."""
    return 1 + float(so.amdahl_limit(p))


def largest_difference(p: np.ndarray, devices: np.ndarray) -> float:
    """The largest relative difference of the two forms over a grid, in float64."""
    with jax.enable_x64(True):
        p, devices = p[:, None], devices[None, :]
        ours = np.asarray(so.efficiency(so.amdahl_speedup(devices, p), devices))
    return float(np.max(np.abs(ours / np.asarray(direct_efficiency(devices, p)) - 1)))


def grid() -> tuple[np.ndarray, np.ndarray]:
    """The p and N over which the two forms are compared."""
    return np.linspace(0, 1, 1001), np.geomspace(1, 1e6, 121)


def efficiencies() -> pd.DataFrame:
    """A row for each p: S and E on a few devices, and the N on which E is one half."""
    rows = {}
    for p in PARALLEL:
        half = half_devices(p)
        at = np.array([*DEVICES, half])
        speedup = np.asarray(so.amdahl_speedup(at, p))
        share = np.asarray(so.efficiency(speedup, at))
        differ = largest_difference(np.array([p]), grid()[1])
        rows[p] = [*speedup[1:4], *share[1:4], half, share[4], differ]
    columns = [*(f"S({n})" for n in DEVICES[1:]), *(f"E({n})" for n in DEVICES[1:])]
    columns += ["N of half", "E there", "forms differ by"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("p")


def draw() -> Figure:
    """Efficiency against N, with the N of one half marked on each curve."""
    figure, (axes,) = panels()
    devices = np.geomspace(1, 1000, 400)
    axes.axhline(0.5, color=GREY, lw=0.8, ls="--")
    for p, color in zip(PARALLEL, (PURPLE, GREEN, ORANGE, BLUE), strict=True):
        half = half_devices(p)
        share = np.asarray(so.efficiency(so.amdahl_speedup(devices, p), devices))
        axes.plot(devices, share, color=color, lw=2, label=f"p = {p}")
        axes.plot(half, 0.5, "o", color=color, ms=7)
        axes.text(half * 1.06, 0.52, f"N = {half:.0f}", color=color)
    for n in DEVICES[1:]:
        share = float(so.efficiency(so.amdahl_speedup(n, 0.9), n))
        axes.plot(n, share, "o", color=GREEN, ms=4)
        axes.annotate(
            f"{share:.3f}",
            (n, share),
            (-6, -12),
            textcoords="offset points",
            color=GREEN,
            ha="right",
        )
    axes.set(xscale="log", xlim=(1, 1000), ylim=(0, 1.04))
    axes.set(xlabel="devices N", ylabel="efficiency E(N) = S/N")
    axes.set_title("Half of each device is lost at N = 1 + 1/(1 − p)")
    axes.legend(frameon=False, loc="upper right")
    return figure


if __name__ == "__main__":
    present(__doc__, "amdahl_efficiency", efficiencies(), draw)
