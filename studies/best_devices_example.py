"""How sharp is the best number of devices, and what does stopping short of it save?

Command: python studies/best_devices_example.py

A worked example of N* = sqrt((W/r − 2βM) / (2α)): W = 1e15 FLOP at r = 1e14 FLOP/s, all-reduce of
M = 1 GB with α = 5 µs at 25 GB/s. Where W/r is far above 2βM, N* is close to sqrt(W / (2rα)).

Finding: N* = 995.99 (the short form says 1000) with T = 99.91 ms, of which 79.92 ms are the
bandwidth term, the same on any large N. T(2N*) and T(N*/2) are both 104.89 ms. So 498 to 1994
devices are within 5 % of the best time. The 498 take 52.2 device-seconds a step and N* 99.5: 5 %
more time for 47.5 % fewer device-seconds. At N* a device computes during 10 % of the step.
"""

import jax
import numpy as np
import pandas as pd
from frame import BLUE, GREEN, GREY, ORANGE, PURPLE, panels, present
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

import scaleopt as so

FLOPS, SIZE = 1 * so.units.PFLOP, 1 * so.units.GB
STEP = so.StepTime(rate=100 * so.units.TFLOP, alpha=5 * so.units.us, beta=1 / (25 * so.units.GB))
NEAR = 1.05


def optimum() -> float:
    """N* as a real number."""
    with jax.enable_x64(True):
        return float(so.optimal_devices(STEP, FLOPS, SIZE))


def short_form() -> float:
    """N* if the all-reduce had no bandwidth term: sqrt(W / (2rα))."""
    with jax.enable_x64(True):
        return float(so.optimal_devices(STEP, FLOPS, 0.0))


def nearly_best() -> tuple[int, int]:
    """The fewest and the most devices within 5 % of the best time, out of every N up to 4096."""
    devices = np.arange(1, 4097)
    seconds = times(devices)["T"].to_numpy()
    near = devices[seconds <= NEAR * seconds.min()]
    return int(near.min()), int(near.max())


def times(devices: np.ndarray) -> pd.DataFrame:
    """A row for each N: the terms of T in ms, T, device-seconds, and the share that computes."""
    with jax.enable_x64(True):
        compute = np.asarray(STEP.terms(devices, FLOPS, SIZE).compute)
        latency = np.asarray(so.all_reduce_time(SIZE, devices, STEP.alpha, 0.0))
        bandwidth = np.asarray(so.all_reduce_time(SIZE, devices, 0.0, STEP.beta))
        total = np.asarray(STEP(devices, FLOPS, SIZE))
    columns = {
        "compute": compute / so.units.ms,
        "latency": latency / so.units.ms,
        "bandwidth": bandwidth / so.units.ms,
        "T": total / so.units.ms,
        "device-seconds": devices * total,
        "efficiency": compute / total,
    }
    return pd.DataFrame(columns, index=pd.Index(devices, name="N"))


def example() -> pd.DataFrame:
    """A row for each N that the example names, and T and device-seconds over those at N*."""
    best = optimum()
    fewest, most = nearly_best()
    named = {
        "one device": 1.0,
        "N*/2": best / 2,
        "fewest within 5 %": fewest,
        "N*": best,
        "best whole N": so.best_devices(STEP, FLOPS, SIZE),
        "sqrt(W/(2rα))": short_form(),
        "2N*": 2 * best,
        "most within 5 %": most,
    }
    found = times(np.array(list(named.values()), float)).reset_index()
    found.index = pd.Index(list(named))
    reference = found.loc["N*"]
    return found.assign(
        slower=found["T"] / reference["T"] - 1,
        saved=1 - found["device-seconds"] / reference["device-seconds"],
    )


def draw() -> Figure:
    """T and its terms against N, and time and device-seconds relative to those at N*."""
    figure, (left, right) = panels(2, width=12.0, height=4.8)
    draw_terms(left)
    draw_flatness(right)
    return figure


def draw_terms(axes: Axes) -> None:
    """T(N) and its three terms, with N*."""
    found = times(np.geomspace(10, 20_000, 400))
    best = example().to_dict("index")["N*"]
    for column, color in (("compute", BLUE), ("latency", ORANGE), ("bandwidth", PURPLE)):
        axes.plot(found.index, found[column], color=color, lw=1.4)
    axes.plot(found.index, found["T"], color="black", lw=2.2)
    axes.axvline(best["N"], ymax=0.64, color=GREY, lw=0.8, ls="--")
    axes.plot(best["N"], best["T"], "o", color="black", ms=6)
    axes.set(xscale="log", yscale="log", xlim=(10, 20_000), ylim=(1, 2_000))
    axes.set(xlabel="devices N", ylabel="ms")
    axes.text(best["N"], 165, f"N* = {best['N']:.2f}\nT = {best['T']:.2f} ms", ha="center")
    axes.text(24, 620, "T(N)")
    axes.text(12, 52, "bandwidth, to 2βM", color=PURPLE)
    axes.text(330, 24, "compute W/(Nr)", color=BLUE, ha="right")
    axes.text(2_600, 17, "latency 2(N − 1) α", color=ORANGE)
    axes.set_title("N* balances compute against latency; the bandwidth term stays")


def draw_flatness(axes: Axes) -> None:
    """Time and device-seconds as a share of those at N*."""
    found, named = times(np.geomspace(200, 4_000, 300)), example().to_dict("index")
    best, few = named["N*"], named["fewest within 5 %"]
    spread = (few["N"], named["most within 5 %"]["N"])
    axes.axvspan(*spread, color=GREEN, alpha=0.12, lw=0)
    axes.plot(found.index, found["T"] / best["T"], color="black", lw=2.2)
    axes.plot(found.index, found["device-seconds"] / best["device-seconds"], color=ORANGE, lw=2)
    axes.plot(few["N"], few["T"] / best["T"], "o", color="black", ms=6)
    axes.plot(few["N"], 1 - few["saved"], "o", color=ORANGE, ms=6)
    axes.plot(best["N"], 1, "o", color="black", ms=6)
    axes.set(xscale="log", xlim=(200, 4_000), ylim=(0, 2.5))
    axes.set(xlabel="devices N", ylabel="share of the value at N*")
    ticks = (250, 500, 1000, 2000, 4000)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    within = f"T within 5 % of the best:\n{spread[0]:.0f} to {spread[1]:.0f} devices"
    axes.text(best["N"], 2.2, within, color=GREEN, ha="center")
    axes.text(best["N"] * 1.02, 0.87, "N*", ha="left")
    axes.text(300, 1.24, "time T")
    axes.text(1_450, 1.75, "device-seconds N·T", color=ORANGE, ha="right")
    axes.text(few["N"] * 1.05, 0.42, f"{100 * few['saved']:.1f} % saved", color=ORANGE)
    axes.set_title("Half of N*: 5 % more time, 47.5 % fewer device-seconds")


if __name__ == "__main__":
    present(__doc__, "best_devices_example", example(), draw)
