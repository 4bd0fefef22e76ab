"""Does the same serial time hold back a fixed layout and a growing city alike?

Command: python studies/strong_and_weak.py

One program simulates cells. Its serial time is 10 ms, and a cell takes one device 10 ms more; the
work of a cell is taken to divide too, and communication to be free. Strong scaling keeps a layout
of 19 cells; weak scaling gives each device 20 cells, up to a city of 500 on 25 devices. Both come
from one `StepTime`: only the number of cells differs. Amdahl's fraction is of the time on one
device, Gustafson's of the time on N; `gustafson_fraction` and `amdahl_fraction` lead from one to
the other, and with its own fraction either law gives the speed-up of either run.

Finding: on 25 devices the layout runs 11.36 times as fast as on one (ceiling 20), and the city
23.86 times. The same 10 ms are 5 % of the layout's run on one device and 56.8 % on 25; of the
city's run they stay 4.76 % on any N, and of its work, as one device would do it, they shrink from
4.76 % to 0.2 %. In float64 the laws and the times agree to 1.4e-15 of their value, six units
of rounding, for each N from 1 to 25.
"""

import jax
import numpy as np
import pandas as pd
from frame import BLUE, GREY, ORANGE, PURPLE, panels, present
from matplotlib.figure import Figure

import scaleopt as so
from scaleopt.units import GFLOP, TFLOP, ms

STEP = so.StepTime(rate=1 * TFLOP, alpha=0.0, beta=0.0, serial_time=10 * ms)
CELL = 10 * GFLOP
LAYOUT, SHARE, LAST = 19, 20, 25


def parts(devices: int, cells: int) -> tuple[float, float]:
    """The serial and the parallel seconds of a run."""
    terms = STEP.terms(devices, cells * CELL, 0.0)
    return float(terms.serial), float(terms.compute)


def speedup(devices: int, cells: int) -> float:
    """How many times faster N devices do the cells than one device does them."""
    return sum(parts(1, cells)) / sum(parts(devices, cells))


def serial_share(devices: int, cells: int) -> float:
    """The share of a run's time that is serial."""
    return parts(devices, cells)[0] / sum(parts(devices, cells))


def disagreement(devices: int, cells: int) -> float:
    """The largest relative difference between the times and the two laws with their fractions."""
    measured = speedup(devices, cells)
    on_one, on_all = 1 - serial_share(1, cells), 1 - serial_share(devices, cells)
    pairs = [
        (so.amdahl_speedup(devices, on_one), measured),
        (so.gustafson_speedup(devices, on_all), measured),
        (so.gustafson_fraction(devices, on_one), on_all),
        (so.amdahl_fraction(devices, on_all), on_one),
    ]
    return max(abs(float(law) / time - 1) for law, time in pairs)


def runs() -> pd.DataFrame:
    """A row for each N: speed-ups and serial shares of both runs, in float64."""
    rows = {}
    with jax.enable_x64(True):
        for n in range(1, LAST + 1):
            city = SHARE * n
            rows[n] = {
                "S of layout": speedup(n, LAYOUT),
                "serial on N": serial_share(n, LAYOUT),
                "city's cells": city,
                "S of city": speedup(n, city),
                "city's serial on N": serial_share(n, city),
                "city's serial on 1": serial_share(1, city),
                "laws off by": max(disagreement(n, LAYOUT), disagreement(n, city)),
            }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("N")


def draw() -> Figure:
    """The two speed-ups, and the seconds behind their ends."""
    found = runs()
    figure, (left, right) = panels(2, width=11.0)
    devices = found.index.to_numpy()
    left.plot(devices, devices, color="#999999", lw=1, ls=":", label="perfect")
    for name, color, label in (
        ("S of city", BLUE, "city: 20 cells for each device"),
        ("S of layout", ORANGE, "layout: 19 cells in all"),
    ):
        left.plot(devices, found[name], color=color, lw=2, label=label)
        last = float(found[name].to_numpy()[-1])
        left.plot(LAST, last, "o", color=color)
        left.text(LAST + 0.5, last, f"{last:.1f}", color=color, va="center")
    left.set(xlabel="devices N", ylabel="speed-up S(N)", xlim=(1, LAST + 3), ylim=(0, 26))
    left.set_title("The layout levels off, the city does not")
    left.legend(frameon=False, loc="upper left")
    ends = [(1, LAYOUT), (LAST, LAYOUT), (1, SHARE), (LAST, SHARE * LAST)]
    bars = np.array([parts(*end) for end in ends]) * 1e3
    right.bar(range(4), bars[:, 0], color=PURPLE, width=0.6, label="serial: 10 ms in each")
    right.bar(range(4), bars[:, 1], bottom=bars[:, 0], color=GREY, width=0.6, label="parallel")
    for place, (bar, end) in enumerate(zip(bars, ends, strict=True)):
        text = f"{100 * serial_share(*end):.1f} % serial"
        right.text(place, bar.sum() + 4, text, color=PURPLE, ha="center")
    labels = [f"{cells} cells,\nN = {n}" for n, cells in ends]
    right.set_xticks(range(4), labels)
    right.set(ylabel="time of the run [ms]", ylim=(0, 275))
    right.set_title("The same 10 ms are 57 % of one run, 5 % of the other")
    right.legend(frameon=False, loc="upper left", ncols=2)
    return figure


if __name__ == "__main__":
    present(__doc__, "strong_and_weak", runs(), draw)
