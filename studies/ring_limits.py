"""What limits a ring all-reduce on many devices, and what do other algorithms save there?

Command: python studies/ring_limits.py

A ring sends 2(N − 1) messages of M/N. Its bandwidth term 2((N − 1)/N) βM rises to 2βM and stays;
its latency term 2(N − 1) α rises towards 2Nα and does not. Their ratio is αN/(βM), so they are
equal at N = βM/α. Here α = 5 µs, 25 GB/s and M = 128 MB make that 1024 devices.

Finding: the bandwidth term is at half of its limit 2βM = 10.24 ms on 2 devices, at 98.4 % of it on
64 and at 99.9 % on 1024; the latency term is 0.63 ms on 64, 10.23 on 1024 and 163.8 on 16 384. At
N = 1024 the ring takes 20.46 ms and Rabenseifner's algorithm 10.33: it saves 49.5 %, nearly all of
the latency. On 1025 devices the two messages that fold the odd device in cost all of that again:
20.58 ms against the ring's 20.47. Between powers of two the ring is the faster up to N = 1035, just
beyond βM/α. Recursive doubling sends all of M each time: 51.25 ms on 1024 devices, where it is the
fastest of the three below 156 kB only.
"""

from collections.abc import Iterable

import jax
import numpy as np
import pandas as pd
from frame import BLUE, GREEN, GREY, ORANGE, PURPLE, panels, present
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import scaleopt as so

ALPHA, BETA, SIZE = 5 * so.units.us, 1 / (25 * so.units.GB), 128 * so.units.MB
CROSSING = BETA * SIZE / ALPHA
DEVICES = (2, 8, 64, 512, 1024, 1025, 2048, 16_384)


def terms(devices: Iterable[float] = DEVICES) -> pd.DataFrame:
    """A row for each N: the ring's two terms in ms, each as a share of its limit, and their sum."""
    count = np.array(list(devices), float)
    with jax.enable_x64(True):
        bandwidth = np.asarray(so.all_reduce_time(SIZE, count, 0.0, BETA))
        latency = np.asarray(so.all_reduce_time(SIZE, count, ALPHA, 0.0))
        ring = np.asarray(so.all_reduce_time(SIZE, count, ALPHA, BETA))
    columns = {
        "bandwidth": bandwidth / so.units.ms,
        "of 2βM": bandwidth / (2 * BETA * SIZE),
        "latency": latency / so.units.ms,
        "of 2Nα": latency / (2 * count * ALPHA),
        "ratio": latency / bandwidth,
        "ring": ring / so.units.ms,
    }
    return pd.DataFrame(columns, index=pd.Index(count.astype(int), name="N"))


def compared(devices: Iterable[float] = DEVICES) -> pd.DataFrame:
    """The ring's terms, the ms of the other two, and the share that Rabenseifner's saves."""
    found = terms(devices)
    count = found.index.to_numpy(float)
    with jax.enable_x64(True):
        doubling = so.all_reduce_time(SIZE, count, ALPHA, BETA, algorithm="recursive_doubling")
        halving = so.all_reduce_time(SIZE, count, ALPHA, BETA, algorithm="rabenseifner")
    found["recursive doubling"] = np.asarray(doubling) / so.units.ms
    found["Rabenseifner"] = np.asarray(halving) / so.units.ms
    return found.assign(saved=1 - found["Rabenseifner"] / found["ring"])


def doubling_pays_below() -> float:
    """The size in bytes up to which recursive doubling beats Rabenseifner's on 1024 devices."""
    with jax.enable_x64(True):
        return so.crossover_size("recursive_doubling", "rabenseifner", CROSSING, ALPHA, BETA)


def draw() -> Figure:
    """The ring's terms against their limits, and the three algorithms about the crossing."""
    figure, (left, right) = panels(2, width=12.0, height=4.8)
    draw_terms(left)
    draw_algorithms(right)
    return figure


def draw_terms(axes: Axes) -> None:
    """Bandwidth and latency term against N, each with its limit."""
    devices = np.geomspace(2, 20_000, 300).round()
    found = terms(devices)
    limit = 2 * BETA * SIZE / so.units.ms
    slope = 2 * devices * ALPHA / so.units.ms
    axes.plot(devices, found["ring"], color=GREY, lw=1.2)
    axes.plot(devices, found["bandwidth"], color=BLUE, lw=2)
    axes.plot(devices, found["latency"], color=ORANGE, lw=2)
    axes.axhline(limit, color=BLUE, lw=0.8, ls="--")
    axes.plot(devices, slope, color=ORANGE, lw=0.8, ls="--")
    axes.plot(CROSSING, limit, "o", color="black", ms=5, zorder=3)
    axes.set(xscale="log", yscale="log", xlim=(2, 20_000), ylim=(0.008, 400))
    axes.set(xlabel="devices N", ylabel="ms")
    axes.text(2.4, limit * 1.12, "limit 2βM", color=BLUE)
    axes.text(40, limit * 0.62, "bandwidth term", color=BLUE)
    axes.text(70, 0.25, "latency term, limit 2Nα", color=ORANGE)
    axes.text(2_600, 60, "ring", color=GREY, ha="right")
    axes.text(1_300, 5.2, f"N = βM/α = {CROSSING:.0f}", va="center")
    axes.set_title("A ring's bandwidth term saturates, its latency term does not")


def draw_algorithms(axes: Axes) -> None:
    """Ring, recursive doubling and Rabenseifner's on every N about the crossing."""
    devices = np.arange(16, 4097)
    found = compared(devices)
    axes.plot(devices, found["recursive doubling"], color=PURPLE, lw=1.2)
    axes.plot(devices, found["Rabenseifner"], color=GREEN, lw=1.2)
    axes.plot(devices, found["ring"], color=GREY, lw=2)
    powers = 2 ** np.arange(4, 13)
    axes.plot(powers, found.loc[powers, "recursive doubling"], "o", color=PURPLE, ms=5)
    axes.plot(powers, found.loc[powers, "Rabenseifner"], "o", color=GREEN, ms=5)
    axes.set(xscale="log", yscale="log", xlim=(14, 4_800), ylim=(7, 110))
    axes.set(xlabel="devices N (dots: powers of two)", ylabel="ms")
    axes.text(60, 60, "recursive doubling", color=PURPLE)
    axes.text(60, 22.6, "Rabenseifner between powers of two", color=GREEN)
    axes.text(60, 8.6, "Rabenseifner at powers of two", color=GREEN)
    axes.text(2_450, 27, "ring", color=GREY)
    axes.set_title("Between powers of two the ring wins up to N ≈ βM/α")


if __name__ == "__main__":
    present(__doc__, "ring_limits", compared(), draw)
