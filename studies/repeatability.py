"""Does a probe that is run again say the same, within the intervals that it states?

Command: python studies/repeatability.py [--quick] [--tables FOLDER]

Default probes one after another on a machine that does nothing else, each fitted by itself. Two
in a row agree in a parameter where they differ by no more than both half-widths of their 95 %
intervals, squared and added. Of the first probes' 90 % intervals it is counted how many hold the
median of what the twenty later ones give: of parameters, and of the time of every operation and
size as the fit predicts it. Tables that FOLDER holds already are not measured again.

Finding: of 23 pairs of default probes in a row 22 agree in every parameter, on a virtual machine of
two cores; one differs in β alone. The 90 % ranges of operations, of each of 29 cells and four
probes that twenty more followed, hold the later median in 97 %, those of parameters in 83 %: the
first probe, on a machine that had just done other work, found half of the later β. The intervals
are wide, since starts of one probe differ as much: β within a factor of 1.5 to 3, the rate within
10 to 30 %.
"""

import argparse
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from frame import BLUE, FIGURES, GREY, panels
from matplotlib.figure import Figure

import scaleopt as so

LATER, PROBES = 20, 24
CELL = ["op", "devices", "flops", "size_bytes", "method"]


def measured(folder: Path, count: int, *options: str) -> list[Path]:
    """So many tables of a probe, measured where they are not there."""
    paths = [folder / f"{number:02d}.csv" for number in range(count)]
    for path in paths:
        if not path.exists():
            command = [sys.executable, "-m", "scaleopt", "probe", "--out", str(path), *options]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                sys.exit(done.stderr)
            print(f"measured {path.name}", file=sys.stderr)
    return paths


def parameters(fits: list[so.Fit]) -> pd.DataFrame:
    """A row for each probe and parameter: value and the ends of two intervals."""
    rows = []
    for number, fit in enumerate(fits):
        (low, high), (low90, high90) = fit.ranges(0.95), fit.ranges(0.9)
        for place, name in enumerate(fit.names):
            if fit.provenance[name] == "fitted":
                ends = low[place], high[place], low90[place], high90[place]
                rows.append((number, name, fit.estimate[place], *ends))
    return pd.DataFrame(rows, columns=["probe", "of", "value", "low", "high", "low90", "high90"])


def cells(fits: list[so.Fit]) -> pd.DataFrame:
    """A row for each probe and operation of a size: its median, and the range of the prediction."""
    rows = []
    for number, fit in enumerate(fits):
        grouped = fit.rows.groupby(CELL, dropna=False, sort=False)["time_s"]
        median = grouped.median().reset_index()
        found = fit.predict(median, level=0.9)
        median["of"] = [" ".join(map(str, cell)) for cell in median[CELL].itertuples(index=False)]
        rows.append(
            median.assign(probe=number, value=median["time_s"], low90=found.low, high90=found.high)
        )
    return pd.concat(rows)


def agreement(told: pd.DataFrame) -> pd.DataFrame:
    """For each parameter in how many pairs of neighbours both tell it and agree; last, in all."""
    told_by = {name: own.set_index("probe") for name, own in told.groupby("of", sort=False)}
    pairs = list(pairwise(range(told["probe"].max() + 1)))
    found = pd.DataFrame(
        {
            name: [_agree(own.loc[list(it)]) if {*it} <= {*own.index} else None for it in pairs]
            for name, own in told_by.items()
        }
    )
    counted = pd.DataFrame({"pairs": found.notna().sum(), "agree": found.eq(True).sum()})
    counted.loc["all of them"] = len(pairs), found.ne(False).all(axis=1).sum()
    return counted


def _agree(pair: pd.DataFrame) -> bool:
    lower, upper = (pair.iloc[place] for place in np.argsort(pair["value"]))
    reach = np.hypot(lower["high"] - lower["value"], upper["value"] - upper["low"])
    return bool(upper["value"] - lower["value"] <= reach)


def coverage(told: pd.DataFrame, later: int = LATER) -> float:
    """The share of 90 % intervals that hold the median of so many later probes."""
    inside = []
    for _, own in told.groupby("of", sort=False):
        by_probe = own.set_index("probe").sort_index()
        for number in by_probe.index[by_probe.index + later <= told["probe"].max()]:
            after = by_probe["value"].loc[number + 1 : number + later].median()
            inside.append(by_probe["low90"][number] <= after <= by_probe["high90"][number])
    return float(np.mean(inside)) if inside else np.nan


def draw(told: pd.DataFrame) -> Figure:
    """Every probe's parameters with their 95 % intervals, over the median of all."""
    names = list(dict.fromkeys(told["of"]))
    figure, axes = panels(len(names), width=3.0 * len(names))
    for panel, name in zip(axes, names, strict=True):
        own = told[told["of"] == name]
        middle = own["value"].median()
        panel.vlines(own["probe"], own["low"] / middle, own["high"] / middle, colors=BLUE)
        panel.scatter(own["probe"], own["value"] / middle, c=BLUE, s=14)
        panel.axhline(1, color=GREY, lw=0.8)
        panel.set(title=name, xlabel="probe, in the order measured")
    axes[0].set_ylabel("value / median of all")
    return figure


def main() -> None:
    """Measure as the command line says, and count."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one pair of quick probes, no figure")
    parser.add_argument("--tables", type=Path, help="keep the tables here")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.tables or Path(scratch)
        folder.mkdir(exist_ok=True)
        options = ("--quick",) if given.quick else ()
        paths = measured(folder, 2 if given.quick else PROBES, *options)
        fits = [so.calibrate(so.read_measurements(path).table) for path in paths]
    told, later = parameters(fits), 1 if given.quick else LATER
    found = agreement(told)
    every = [coverage(told[told["of"] == name], later) for name in found.index[:-1]]
    found["in 90 %"] = [*every, coverage(told, later)]
    print(found.to_string(float_format="{:.3g}".format))
    print(f"90 % ranges of operations that hold later ones: {coverage(cells(fits), later):.2f}")
    if not given.quick:
        draw(told).savefig(FIGURES / "repeatability.png")


if __name__ == "__main__":
    main()
