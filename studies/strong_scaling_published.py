"""How far can published strong scaling be forecast from the smaller numbers of nodes?

Command: python studies/strong_scaling_published.py   (--quick: the numbers only, no figure)

Every GROMACS and OpenSBLI series of the published tables with six or more N whose largest is at
least twice the last fitted one: fitted on the smaller 60 % of the N (four at the least), and the
rest predicted. One method for all; the data are medians over the repeats. The throughput tables of
BERT, MXNet, InternEvo and MLPerf are treated alike. Needs the tables: SCALEOPT_DATA names their
folder.

Finding: over the 22 series the mean error of a series is 9.9 % in the median and 15.9 % in the
mean, and 90 % bands hold 88 % of the 58 predicted points. With the same relative least squares
Amdahl's law has 20.2 and 22.3 %. Bands are wide: half of them reach a factor of 1.7 either way. The
worst series (66 %) is flat up to 128 nodes and loses seven eighths of its efficiency by 2048:
nothing in its first seven points says so, and without it the bands hold 94 %. Even whoever knew
beforehand which set of the terms forecasts each series best would miss by 6.8 % in the median and
10.8 % in the mean, with plain least squares. By code: GROMACS 11.8 and 16.5 %, 84 % of 38 points
held; OpenSBLI 9.1 and 15.0 %, 95 % of 20. Throughput: BERT 2.0 and 2.6 %, 8 series; InternEvo 3.5
and 5.0 %, 4; MXNet 7.1 and 34 %, 3. No MLPerf series measured by one submitter in one round has six
N.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from frame import BLUE, DATA, GREY, ORANGE, present
from matplotlib.figure import Figure
from scipy.optimize import nnls

import scaleopt as so

STRONG = {
    "GROMACS": ("scale_gromacs_uk-systems_strong_1-256nodes.csv", "ns_per_day", -1),
    "OpenSBLI": ("scale_opensbli_uk-systems_strong_1-1024nodes.csv", "s_per_iter", 1),
}
THROUGHPUT = {
    "BERT": (
        "scale_bert-large_dgx_1-32nodes.csv",
        "num_gpus",
        "sequences_per_s",
        ["framework", "hardware", "seq_len", "precision"],
    ),
    "MXNet": ("scale_mxnet_p2-k80_1-256gpus.csv", "num_gpus", "images_per_s", ["model"]),
    "InternEvo": (
        "scale_internevo_7b_a100_8-1024gpus.csv",
        "num_gpus",
        "total_tokens_per_s",
        ["tp", "zero1"],
    ),
    "MLPerf": (
        "scale_mlperf_throughput_v1.0-v5.1.half.csv",
        "num_accel",
        "thr_median",
        ["round", "submitter", "benchmark", "accelerator"],
    ),
}


class Series(NamedTuple):
    """Median seconds at each number of devices, smallest first."""

    family: str
    name: str
    devices: np.ndarray
    time: np.ndarray
    fitted: int
    """How many of the N are fitted; the rest is predicted."""


def strong_series() -> list[Series]:
    """The strong-scaling series that are long enough to forecast from."""
    found = []
    for family, (file, column, power) in STRONG.items():
        table = pd.read_csv(DATA / file, comment="#")
        table = table.assign(time=table[column].astype(float) ** power)
        found += _series(table, family, "nodes", ["case", "system"])
    return found


def throughput_series() -> list[Series]:
    """The throughput series that are long enough."""
    found = []
    for family, (file, devices, column, keys) in THROUGHPUT.items():
        table = pd.read_csv(DATA / file, comment="#")
        rate = pd.to_numeric(table[column], errors="coerce")
        table = table.assign(time=1 / rate.where(rate > 0)).dropna(subset=["time"])
        found += _series(table, family, devices, keys)
    return found


def _series(table: pd.DataFrame, family: str, devices: str, keys: list[str]) -> list[Series]:
    found = []
    for key, rows in table.groupby(keys):
        median = rows.groupby(devices)["time"].median()
        count = median.index.to_numpy(float)
        fitted = max(4, int(np.ceil(0.6 * len(count))))
        if len(count) >= 6 and count[-1] >= 2 * count[fitted - 1]:
            name = " ".join(map(str, key if isinstance(key, tuple) else (key,)))
            found.append(Series(family, name, count, median.to_numpy(float), fitted))
    return found


def amdahl(series: Series) -> np.ndarray:
    """What t_0 + t_p/N predicts for the rest, by the same relative least squares."""
    count, time = series.devices[: series.fitted], series.time[: series.fitted]
    solved = nnls(np.stack([1 / time, 1 / (count * time)], axis=1), np.ones(len(count)))[0]
    return solved[0] + solved[1] / series.devices[series.fitted :]


def compared(every: list[Series]) -> pd.DataFrame:
    """For each series the mean error of the predicted points in %, and how many the bands hold."""
    rows = []
    for series in every:
        ahead, measured = series.devices[series.fitted :], series.time[series.fitted :]
        fit = so.fit_scaling(series.devices[: series.fitted], time_s=series.time[: series.fitted])
        found = fit.predict(devices=ahead)
        rows.append(
            {
                "family": series.family,
                "series": series.name,
                "points": len(ahead),
                "held": int(np.sum((found.low <= measured) & (measured <= found.high))),
                "ours_%": 100 * np.mean(np.abs(found.time / measured - 1)),
                "amdahl_%": 100 * np.mean(np.abs(amdahl(series) / measured - 1)),
            }
        )
    return pd.DataFrame(rows)


def totals(table: pd.DataFrame, label: str) -> dict[str, object]:
    """Median and mean over series, and the share of points that the bands hold."""
    return {
        "tables": label,
        "series": len(table),
        "points": int(table["points"].sum()),
        "ours median %": table["ours_%"].median(),
        "ours mean %": table["ours_%"].mean(),
        "Amdahl median %": table["amdahl_%"].median(),
        "Amdahl mean %": table["amdahl_%"].mean(),
        "held": table["held"].sum() / table["points"].sum(),
    }


def summarised() -> pd.DataFrame:
    """A row for the 22 strong series together, each code, and each throughput table."""
    strong, rates = compared(strong_series()), compared(throughput_series())
    rows = [totals(strong, "all strong scaling")]
    for table in (strong, rates):
        rows += [totals(part, str(name)) for name, part in table.groupby("family", sort=False)]
    return pd.DataFrame(rows).set_index("tables")


def draw() -> Figure:
    """Efficiency against nodes for each strong series: fitted, predicted with a band, measured."""
    every = strong_series()
    figure = Figure(figsize=(13, 10), layout="constrained", dpi=90)
    panels = figure.subplots(4, 6).ravel()
    for axes, series in zip(panels, every, strict=False):
        count, time, last = series.devices, series.time, series.fitted
        work = count[0] * time[0]
        fit = so.fit_scaling(count[:last], time_s=time[:last])
        grid = np.geomspace(count[0], count[-1], 60)
        found = fit.predict(devices=grid)
        axes.fill_between(
            grid, work / (grid * found.high), work / (grid * found.low), color=BLUE, alpha=0.15
        )
        axes.plot(grid, work / (grid * found.time), color=BLUE)
        axes.plot(count[:last], work / (count * time)[:last], "o", color=GREY, ms=4)
        axes.plot(count[last:], work / (count * time)[last:], "s", color=ORANGE, ms=4)
        axes.set_xscale("log", base=2)
        axes.set_ylim(0, 1.8)
        axes.set_title(f"{series.family}\n{series.name}", fontsize=7)
        axes.tick_params(labelsize=7)
    key = panels[-1]
    key.plot([], [], "o", color=GREY, label="fitted")
    key.plot([], [], "s", color=ORANGE, label="to be predicted")
    key.plot([], [], color=BLUE, label="fit_scaling, 90 % band")
    key.legend(frameon=False)
    for axes in panels[len(every) :]:
        axes.axis("off")
    figure.supxlabel("nodes")
    figure.supylabel("efficiency against the smallest run")
    return figure


if __name__ == "__main__":
    present(__doc__, "strong_scaling_published", summarised(), draw)
