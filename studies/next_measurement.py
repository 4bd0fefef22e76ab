"""How many device-seconds does a sharp N* need when each measurement is chosen for it?

Command: python studies/next_measurement.py   (40 tables; --quick: 12 tables, a minute)

A machine with known constants is measured with 3 % noise. Every table starts with the same pilot
of 20 rows. Then either plain sweeps go over all of the plan's 48 cells, again and again, or sweeps
over the 16 cells nearest to the question (steps of the wanted work, and all-reduces), or batches
of 16 rows are chosen by `so.next_measurement` with N* of the workload as the target. A row costs
its devices for its time and 20 ms more to set it up, so that rows of microseconds are not free.
What counts is the spread of log N* over tables (the median absolute deviation from the truth, as a
standard deviation), against all device-seconds spent.

Finding: from 12 tables a point, which place a spread only to a fifth: after one batch and 14
device-seconds the spread of N* was 0.68 %, after one plain sweep and 157 device-seconds 0.86 %.
Four plain sweeps (591 device-seconds) reached 0.45 %, four batches (21) 0.32 %, four sweeps near
the question (36) 0.59 %. Between batches the spread of so few tables goes up as well as down.
"""

import argparse
from pathlib import Path

import jax
import numpy as np
import pandas as pd
from frame import BLUE, FIGURES, GREY, ORANGE, panels
from matplotlib.figure import Figure

import scaleopt as so

TRUTH = so.StepTime(rate=120e12, alpha=8e-6, beta=1 / 25e9, serial_time=0.0167)
FLOPS, SIZE = 1e14, 1e8
NOISE, SET_UP = 0.03, 0.02
ROUNDS, BATCH = 4, 16
KEYS = pd.Index(["op", "devices", "flops", "size_bytes"])
NORMAL_MAD = 0.6745
WAYS = ("plain sweeps", "sweeps near the question", "chosen")


def cells(works: tuple[float, ...], sizes: tuple[float, ...]) -> pd.DataFrame:
    """Steps of every work and size, and all-reduces, on up to eight devices, with their cost."""
    steps = [("step", n, w, m) for w in works for m in sizes for n in (1, 2, 4, 8)]
    reduced = [("all_reduce", n, 0.0, m) for m in (1e3, 1e5, 1e7, 1e9) for n in (2, 4, 8)]
    plan = pd.DataFrame(steps + reduced, columns=KEYS)
    return plan.assign(cost_s=plan["devices"] * (seconds(plan) + SET_UP))


def seconds(rows: pd.DataFrame) -> np.ndarray:
    """What the rows truly take."""
    devices, size = rows["devices"].to_numpy(float), rows["size_bytes"].to_numpy(float)
    step = np.asarray(TRUTH(devices, rows["flops"].to_numpy(float), size))
    alone = np.asarray(so.all_reduce_time(size, devices, TRUTH.alpha, TRUTH.beta))
    return np.where(rows["op"] == "step", step, alone)


PLAN = cells((1e13, 1e14, 1e15), (1e6, 1e8, 1e10))
NEAR = PLAN[
    (PLAN["op"] == "all_reduce") | ((PLAN["flops"] == FLOPS) & (PLAN["size_bytes"] == SIZE))
]
PILOT = NEAR.iloc[[0, 1, 2, 3, 0, 1, 2, 3, 4, 6, 13, 15, 4, 6, 13, 15, 0, 3, 4, 6]]


def measured(rows: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
    """The rows with a noisy time."""
    return rows.assign(time_s=seconds(rows) * np.exp(random.normal(0, NOISE, len(rows))))


def best(step: so.StepTime) -> jax.Array:
    """N* of the workload."""
    return jax.numpy.asarray(so.optimal_devices(step, FLOPS, SIZE))


def course(way: str, seed: int) -> np.ndarray:
    """(rounds, 2): device-seconds spent and the error of log N* after each round of one table."""
    random = np.random.default_rng(seed)
    table = measured(PILOT, random)
    truth, course = float(best(TRUTH)), []
    for _ in range(ROUNDS):
        if way == "chosen":
            fit = so.calibrate(table)
            rows = so.next_measurement(fit, PLAN, target=best, count=BATCH)
            rows = rows[PLAN.columns]
        else:
            rows = PLAN if way == "plain sweeps" else NEAR
        table = pd.concat([table, measured(rows, random)], ignore_index=True)
        found = float(best(so.calibrate(table).model))
        course.append((table["cost_s"].sum(), np.log(found / truth)))
    return np.array(course)


def courses(tables: int, ways: tuple[str, ...] = WAYS) -> pd.DataFrame:
    """Device-seconds and spread of log N* after each round, for each way."""
    found = []
    for way in ways:
        runs = np.array([course(way, seed) for seed in range(tables)])
        cost = np.median(runs[..., 0], axis=0)
        spread = np.median(np.abs(runs[..., 1]), axis=0) / NORMAL_MAD
        found += [(way, k + 1, c, s) for k, (c, s) in enumerate(zip(cost, spread, strict=True))]
    return pd.DataFrame(found, columns=pd.Index(["way", "round", "device_seconds", "spread"]))


def saving(numbers: pd.DataFrame, against: str = "plain sweeps") -> float:
    """Device-seconds of the last sweep over those of the first batch that is as sharp."""
    sweep = numbers[numbers["way"] == against].iloc[-1]
    chosen = numbers[numbers["way"] == "chosen"]
    as_sharp = chosen[chosen["spread"] <= sweep["spread"]]
    if as_sharp.empty:
        return 0.0
    return float(sweep["device_seconds"] / as_sharp["device_seconds"].iloc[0])


def draw(numbers: pd.DataFrame) -> Figure:
    """Spread of N* against device-seconds, a line for each way."""
    figure, (axes,) = panels(width=7.5)
    for (way, rows), color, marker in zip(
        numbers.groupby("way", sort=False), (GREY, ORANGE, BLUE), "os^", strict=True
    ):
        axes.plot(
            rows["device_seconds"], 100 * rows["spread"], color=color, marker=marker, label=str(way)
        )
    axes.set(xscale="log", yscale="log", xlabel="device-seconds, with the pilot")
    axes.set_ylabel("standard deviation of N* over tables (%)")
    axes.set_xticks([20, 50, 100, 200, 500], ["20", "50", "100", "200", "500"])
    axes.set_yticks([0.3, 0.5, 1.0, 1.5], ["0.3", "0.5", "1", "1.5"])
    axes.minorticks_off()
    axes.legend(frameon=False)
    return figure


def main() -> None:
    """Run, print and draw."""
    question = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--quick", action="store_true", help="12 tables a point, no figure")
    quick = parser.parse_args().quick
    numbers = courses(12 if quick else 40)
    print(f"{question}\n\n{numbers.to_string(float_format='{:.4g}'.format)}")
    for way in ("plain sweeps", "sweeps near the question"):
        print(f"as sharp as {way} at 1/{saving(numbers, way):.3g} of the device-seconds")
    if not quick:
        Path(FIGURES).mkdir(exist_ok=True)
        draw(numbers).savefig(FIGURES / "next_measurement.png")


if __name__ == "__main__":
    main()
