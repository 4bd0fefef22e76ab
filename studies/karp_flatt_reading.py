"""What serial fraction is in published speed-ups of 1.85, 3.4 and 6.0 on 2, 4 and 8 devices?

Command: python studies/karp_flatt_reading.py

The serial fraction that each speed-up betrays falls with N, where Amdahl's law keeps it constant.
So other forms are fitted to the logs of the three T(N)/T(1) = 1/S by `so.fit`:

    Amdahl           s + (1 − s)/N
    serial and cost  s + (1 − s)/N + c   for N > 1: c is paid as soon as there is a second device
    cost alone       1/N + c             for N > 1
    power law        N^−k
    USL              (1 + σ (N − 1) + κ N (N − 1)) / N, its λ the rate of one device

Each form but the power law is linear in its parameters for 1/S − 1/N, and that one for log S. A
linear program therefore says exactly which parameters, of any sign, give three speed-ups that round
to the printed figures.

Finding: Karp–Flatt reads 8.11, 5.88 and 4.76 %. Rounding cannot explain the fall: the figures allow
7.82 % and more at N = 2, and 4.92 % and less at N = 8. A cost alone describes the data: any c from
4.03 to 4.20 % of T(1) gives all three figures as printed; the fit, c = 4.205 %, lies just above and
is off by at most 0.7 %. A serial part beside it fits to 0, and can be 1.1 % at most. No other form
gives the figures: the fits are off by up to 2.9 % (Amdahl, s = 5.06 %) and 1.8 % (k = 0.870), and
the USL ends as Amdahl, because every pair of points asks for a negative coherency (−0.011, −0.006,
−0.003). Three points cannot say what the cost is, nor that it stays the same beyond 8.
"""

from itertools import combinations

import numpy as np
import pandas as pd
from frame import BLUE, GREY, ORANGE, PURPLE, panels, present
from jax.tree_util import Partial
from matplotlib.figure import Figure
from scipy.optimize import linprog

import scaleopt as so
from scaleopt.units import Scalar

DEVICES = np.array([2.0, 4.0, 8.0])
SPEEDUP = np.array([1.85, 3.4, 6.0])
ROUNDING = np.array([0.005, 0.05, 0.05])
"""Half a unit of the last digit printed."""


def amdahl(devices: Scalar, *, serial: Scalar) -> Scalar:
    """T(N)/T(1) of a program with a serial part."""
    return 1 / so.amdahl_speedup(devices, 1 - serial)


def serial_and_cost(devices: Scalar, *, serial: Scalar, cost: Scalar) -> Scalar:
    """T(N)/T(1) for N > 1 with a serial part and a cost that a second device brings."""
    return amdahl(devices, serial=serial) + cost


def cost_alone(devices: Scalar, *, cost: Scalar) -> Scalar:
    """T(N)/T(1) for N > 1 with nothing serial, and a cost that a second device brings."""
    return 1 / devices + cost


def power_law(devices: Scalar, *, exponent: Scalar) -> Scalar:
    """T(N)/T(1) where each doubling of N brings the same factor."""
    return devices**-exponent


def usl(devices: Scalar, *, contention: Scalar, coherency: Scalar) -> Scalar:
    """T(N)/T(1) by the universal scalability law."""
    return 1 / so.usl_throughput(devices, 1.0, contention, coherency)


FORMS = {
    "Amdahl": Partial(amdahl, serial=0.05),
    "serial and cost": Partial(serial_and_cost, serial=0.01, cost=0.04),
    "cost alone": Partial(cost_alone, cost=0.04),
    "power law": Partial(power_law, exponent=0.9),
    "USL": Partial(usl, contention=0.05, coherency=0.001),
}
_SERIAL, _PAIRS, _CONSTANT = 1 - 1 / DEVICES, DEVICES - 1, np.ones(3)
LINEAR = {
    "Amdahl": {"serial": _SERIAL},
    "serial and cost": {"serial": _SERIAL, "cost": _CONSTANT},
    "cost alone": {"cost": _CONSTANT},
    "power law": {"exponent": np.log(DEVICES)},
    "USL": {"contention": _SERIAL, "coherency": _PAIRS},
}
"""What each parameter multiplies in 1/S − 1/N; in log S for the power law."""


def readings() -> pd.DataFrame:
    """A row for each N: the serial fraction read, and its range by rounding alone."""
    columns = {
        name: np.asarray(so.karp_flatt(speedup, DEVICES), float)
        for name, speedup in (
            ("read", SPEEDUP),
            ("low", SPEEDUP + ROUNDING),
            ("high", SPEEDUP - ROUNDING),
        )
    }
    return pd.DataFrame(columns, index=pd.Index(DEVICES.astype(int), name="N"))


def allowed(form: str) -> dict[str, tuple[float, float]]:
    """The range of each parameter with which a form rounds to the figures; empty if none does."""

    def response(speedup: np.ndarray) -> np.ndarray:
        return np.log(speedup) if form == "power law" else 1 / speedup - 1 / DEVICES

    ends = np.sort([response(SPEEDUP - ROUNDING), response(SPEEDUP + ROUNDING)], axis=0)
    matrix = np.stack(list(LINEAR[form].values()), axis=1)
    both, limits = np.vstack([matrix, -matrix]), np.concatenate([ends[1], -ends[0]])
    found = {}
    for name, one in zip(LINEAR[form], np.eye(matrix.shape[1]), strict=True):
        low = linprog(one, A_ub=both, b_ub=limits, bounds=(None, None))
        high = linprog(-one, A_ub=both, b_ub=limits, bounds=(None, None))
        if low.x is None or high.x is None:
            return {}
        found[name] = (float(one @ low.x), float(one @ high.x))
    return found


def fits() -> pd.DataFrame:
    """A row for each form: its fitted numbers, its errors in S, and whether S can be as printed."""
    table = pd.DataFrame({"op": "step", "devices": DEVICES, "time_s": 1 / SPEEDUP})
    rows = {}
    for name, form in FORMS.items():
        fit = so.fit(form, table)
        errors = table["time_s"].to_numpy() / fit.rows["predicted_s"].to_numpy() - 1
        fitted = {key: float(f"{value:.6g}") for key, value in fit.model.keywords.items()}
        rows[name] = [*errors, np.abs(errors).max(), bool(allowed(name)), fitted]
    columns = [*(f"N = {n:.0f}" for n in DEVICES), "largest", "as printed", "fitted"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def coherencies() -> dict[tuple[int, int], float]:
    """The USL's coherency κ by each pair of points: what their readings differ by, over ΔN."""
    read = dict(zip((2, 4, 8), readings()["read"].to_numpy(), strict=True))
    # (1/S − 1/N) / (1 − 1/N) = σ + κ N for the USL: the reading is a line in N of slope κ.
    return {(a, b): float(read[b] - read[a]) / (b - a) for a, b in combinations(read, 2)}


def numbers() -> pd.DataFrame:
    """The readings, and below them the errors of the fits."""
    read = readings()["read"].to_numpy()
    head = pd.DataFrame({f"N = {n:.0f}": [e] for n, e in zip(DEVICES, read, strict=True)})
    return pd.concat([head.set_axis(["Karp–Flatt reads"]), fits()])


def draw() -> Figure:
    """The reading against N with what the forms would read, and the errors of the fits."""
    figure, (left, right) = panels(2, width=11.0)
    read, found = readings(), fits().to_dict("index")
    devices = np.linspace(2, 10, 200)
    serial = found["Amdahl"]["fitted"]["serial"]
    left.axhline(100 * serial, color=ORANGE, lw=2, label=f"Amdahl, s = {100 * serial:.2f} %")
    low, high = allowed("cost alone")["cost"]
    below, above = (
        100 * np.asarray(so.karp_flatt(1 / (1 / devices + c), devices)) for c in (low, high)
    )
    label = f"cost alone, c = {100 * low:.2f} to {100 * high:.2f} %"
    left.fill_between(devices, below, above, color=BLUE, alpha=0.55, lw=0, label=label)
    bars = [100 * (read["read"] - read["low"]), 100 * (read["high"] - read["read"])]
    left.errorbar(
        read.index, 100 * read["read"], bars, fmt="ko", capsize=4, label="read, with rounding"
    )
    left.set(xlabel="devices N", ylabel="serial fraction read [%]", xlim=(1.5, 10), ylim=(0, 9.5))
    left.set_xticks([2, 4, 6, 8, 10])
    left.set_title("A cost that stays reads as a falling fraction")
    left.legend(frameon=False, loc="lower right")
    colors = {"Amdahl": ORANGE, "power law": PURPLE, "cost alone": BLUE}
    shown = {"Amdahl": "Amdahl, USL", "cost alone": "cost, with or without a serial part"}
    columns = [f"N = {n:.0f}" for n in DEVICES]
    half = 100 * ROUNDING / SPEEDUP
    right.bar(range(3), 2 * half, 0.85, bottom=-half, color=GREY, alpha=0.3, label="rounding")
    right.axhline(0, color=GREY, lw=0.8)
    for place, (name, color) in enumerate(colors.items()):
        errors = np.array([100 * found[name][column] for column in columns])
        at = np.arange(3) + 0.25 * (place - 1)
        right.bar(at, errors, 0.2, color=color, label=shown.get(name, name))
    right.set_xticks(range(3), [f"N = {n:.0f}" for n in DEVICES])
    right.set(ylabel="error of the fitted speed-up [%]", ylim=(-2.5, 5.2))
    right.set_title("A fixed cost misses by 0.7 % at most")
    right.legend(frameon=False, loc="upper right", fontsize="small")
    return figure


if __name__ == "__main__":
    present(__doc__, "karp_flatt_reading", numbers(), draw)
