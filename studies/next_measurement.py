"""How many device-seconds does a sharp N* need when each measurement is chosen for it?

Command: python studies/next_measurement.py   (24 tables; --quick: 12 tables, a minute)

A machine with known constants is measured with 3 % noise. Every table starts with the same pilot
of 20 rows. Then either plain sweeps go over all of the plan's 48 cells, again and again, or sweeps
over the 16 cells nearest to the question (steps of the wanted work, and all-reduces), or batches
of 16 rows are chosen by `so.next_measurement` with N* of the workload as the target. A row costs
its devices for its time and 20 ms more to set it up, so that rows of microseconds are not free.
What counts is the spread of log N* over tables (the median absolute deviation from the truth, as a
standard deviation), against all device-seconds spent.

Finding: from 24 tables a point, which place a spread to a seventh: after one batch of 16 rows and
14.6 device-seconds, pilot and all, the spread of N* was 0.60 %; after one plain sweep and 157
device-seconds 0.66 %, after two and 302 0.58 %. Most of that is saved by leaving out what is far
from the question: two sweeps near it took 24.3 device-seconds to 0.72 %, one took 18.3 to 1.11 %.
A second batch (16.7 device-seconds, 0.69 %) cannot be told from the first with so few tables.
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
ROUNDS, BATCH = 2, 16
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


def swept(rows: pd.DataFrame, tables: int, rounds: int) -> np.ndarray:
    """(tables, rounds, 2): device-seconds and N* after each sweep; all tables have one design."""
    found = []
    for sweeps in range(1, rounds + 1):
        design = pd.concat([PILOT, *[rows] * sweeps], ignore_index=True)
        shape = (tables, len(design))
        times = seconds(design) * np.exp(np.random.default_rng(0).normal(0, NOISE, shape))
        fits = so.fit_many(so.calibrate(design.assign(time_s=times[0])), times)
        cost = float(design["cost_s"].sum())
        found.append([(cost, float(best(fits.model(table)))) for table in range(tables)])
    return np.swapaxes(np.array(found), 0, 1)


def chosen(seed: int, rounds: int) -> np.ndarray:
    """(rounds, 2): device-seconds and N* of one table, each batch chosen for what is known."""
    random = np.random.default_rng(seed)
    table, found = measured(PILOT, random), []
    fit = so.calibrate(table)
    for _ in range(rounds):
        if fit.failure:  # nothing follows from it, so the next rows are taken in the plan's order
            rows = NEAR
        else:
            rows = so.next_measurement(fit, PLAN, target=best, count=BATCH)[PLAN.columns]
        table = pd.concat([table, measured(rows, random)], ignore_index=True)
        fit = so.calibrate(table)
        found.append((float(table["cost_s"].sum()), float(best(fit.model))))
    return np.array(found)


def courses(tables: int, ways: tuple[str, ...] = WAYS, rounds: int = ROUNDS) -> pd.DataFrame:
    """Device-seconds and spread of log N* after each round, for each way."""
    truth, found = float(best(TRUTH)), []
    plans = {"plain sweeps": PLAN, "sweeps near the question": NEAR}
    for way in ways:
        if way in plans:
            runs = swept(plans[way], tables, rounds)
        else:
            runs = np.array([chosen(seed, rounds) for seed in range(tables)])
        cost = np.median(runs[..., 0], axis=0)
        spread = np.median(np.abs(np.log(runs[..., 1] / truth)), axis=0) / NORMAL_MAD
        found += [(way, k + 1, c, s) for k, (c, s) in enumerate(zip(cost, spread, strict=True))]
    return pd.DataFrame(found, columns=pd.Index(["way", "round", "device_seconds", "spread"]))


def saving(numbers: pd.DataFrame, against: str = "plain sweeps") -> float:
    """Device-seconds of one sweep over those of the first batch that is as sharp; 0 if none is."""
    sweep = numbers[numbers["way"] == against].iloc[0]
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
    axes.set_yticks([0.5, 0.7, 1.0], ["0.5", "0.7", "1"])
    axes.minorticks_off()
    axes.legend(frameon=False)
    return figure


def main() -> None:
    """Run, print and draw."""
    question = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--quick", action="store_true", help="12 tables a point, no figure")
    quick = parser.parse_args().quick
    numbers = courses(12 if quick else 24)
    print(f"{question}\n\n{numbers.to_string(float_format='{:.4g}'.format)}")
    for way in ("plain sweeps", "sweeps near the question"):
        print(f"device-seconds of one of the {way} over chosen: {saving(numbers, way):.3g}")
    if not quick:
        Path(FIGURES).mkdir(exist_ok=True)
        draw(numbers).savefig(FIGURES / "next_measurement.png")


if __name__ == "__main__":
    main()
