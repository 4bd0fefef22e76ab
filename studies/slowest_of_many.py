"""How long does a step wait for the slowest of N devices?

Command: python studies/slowest_of_many.py

Each device's compute time varies from step to step about the same mean with standard deviation σ;
the step ends with the slowest. Its expected time is t (1 + σ m(N)), m(N) the expected largest of N
standard normal numbers. The closed form of `slowest_time` is compared with the integral
m(N) = ∫ (1 − Φ(x)^N) dx − ∫ Φ(−x)^N dx, and with Blom's older one, in which c is 5/8 instead of a
function of N.

Finding: at these N from 1 to 10⁹ the closed form is within 0.15 % of the integral, Blom's within
4.5 %. A spread of 5 % costs 7.1 % of the compute at 8 devices, 14.1 % at 256 and 18.1 % at 4096, of
which half is paid at 18 already. It moves N* little, and outwards, since waiting is in proportion
to compute, which more devices shorten: for W = 10¹⁵ FLOP, r = 10¹⁴ FLOP/s, α = 5 µs, β = 1/25 ns/B
and M = 1 GB from 996 to 1068 devices.
"""

import jax
import numpy as np
import pandas as pd
from frame import BLUE, GREY, ORANGE, PURPLE, panels, present
from matplotlib.figure import Figure
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtri

import scaleopt as so

DEVICES = (1, 2, 4, 8, 64, 256, 1024, 4096, 10**6, 10**9)
SPREAD = 0.05
STEP = {"rate": 1e14, "alpha": 5e-6, "beta": 1 / 25e9}
WORK = (1e15, 1e9)


def exact(devices: float) -> float:
    """m(N) by quadrature, to ten digits."""
    split = np.sqrt(2 * np.log(devices))
    above = sum(
        quad(lambda x: -np.expm1(devices * log_ndtr(x)), *ends, epsabs=1e-12, limit=200)[0]
        for ends in ((0.0, split), (split, split + 12))
    )
    return above - quad(lambda x: np.exp(devices * log_ndtr(-x)), 0, 12, epsabs=1e-12)[0]


def blom(devices: float) -> float:
    """m(N) = −Φ⁻¹((5/8) / (N + 1/4))."""
    return float(-ndtri(0.625 / (devices + 0.25)))


def closed(devices: float) -> float:
    """m(N) as `slowest_time` has it."""
    with jax.enable_x64(True):
        return float(so.slowest_time(1.0, 1.0, devices)) - 1


def waits() -> pd.DataFrame:
    """A row for each N: m(N), the errors of both forms, and what a spread of 5 % costs."""
    rows = []
    for devices in DEVICES:
        true = exact(devices)
        error = [
            100 * (form(devices) / true - 1) if devices > 1 else 0.0 for form in (closed, blom)
        ]
        rows.append([devices, true, *error, 100 * SPREAD * true])
    columns = ["N", "m(N)", "closed form off %", "Blom off %", "5 % spread costs %"]
    return pd.DataFrame(rows, columns=pd.Index(columns)).set_index("N")


def optima() -> pd.DataFrame:
    """N* for each spread."""
    with jax.enable_x64(True):
        found = {
            spread: float(so.optimal_devices(so.StepTime(**STEP, spread=spread), *WORK))
            for spread in (None, 0.01, 0.05, 0.1, 0.2)
        }
    return pd.DataFrame({"spread": [s or 0.0 for s in found], "N*": list(found.values())})


def draw() -> Figure:
    """What waiting costs against N, and how far off each closed form is."""
    figure, (cost, error) = panels(2, width=11.0)
    devices = np.unique(np.geomspace(1, 1e6, 121).round())
    true = np.array([exact(n) for n in devices])
    for spread, color in ((0.02, GREY), (0.05, BLUE), (0.1, ORANGE)):
        cost.plot(devices, 100 * spread * true, color=color, lw=2)
        cost.text(
            1.1e6, 100 * spread * true[-1], f"σ = {100 * spread:g} %", color=color, va="center"
        )
    cost.set(xscale="log", xlabel="devices N", ylabel="compute takes longer by [%]", ylim=(0, None))
    cost.set_title("Waiting grows with N, ever more slowly")
    several = devices > 1
    for form, color, name in ((blom, PURPLE, "Blom, c = 5/8"), (closed, BLUE, "slowest_time")):
        off = np.array([form(n) for n in devices[several]]) / true[several] - 1
        error.plot(devices[several], 100 * np.abs(off), color=color, lw=2, label=name)
    error.axhline(0.16, color=GREY, lw=0.8, ls="--")
    error.text(1e6, 0.17, "0.16 %", color=GREY, ha="right")
    error.set(xscale="log", yscale="log", ylim=(1e-3, 10), xlabel="devices N")
    error.set_ylabel("m(N) off by [%]")
    error.set_title("The closed form against the integral")
    error.legend(frameon=False)
    return figure


if __name__ == "__main__":
    present(__doc__, "slowest_of_many", waits(), draw)
    print(f"\n{optima().to_string(index=False)}")
