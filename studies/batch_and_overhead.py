"""How much does a larger batch hide communication, and how fast must it grow with the devices?

Command: python studies/batch_and_overhead.py

The claim: with 5 ms of compute and 5 ms of communication at batch 1 the overhead is 50 %, and at
batch 32 about 5 %. The gradients, and so their all-reduce, do not depend on the batch. Then the
rule "double the batch when the devices double": the work that keeps an efficiency E on N devices
is W = r N A(N) E/(1 − E), with A the all-reduce's own time, so the batch grows like N·A(N). Here
the limit 2βM is the claim's 5 ms (25 GB/s, 62.5 MB), E is 95 % and α is 5 µs.

Finding: where compute grows with the batch, the overhead at batch 32 is 5/165 = 3.03 % of the step,
or 5/160 = 3.13 % of the compute. It comes to 5 % of the step at batch 19 and of the compute at 20;
at batch 32 only if 2.10 of the first sample's 5 ms are a fixed cost (1.94, of the compute). The
rule holds as a limit, where bandwidth alone counts: d log batch / d log N is 1 + 1/(N − 1) +
x/(1 + x), with x = αN/(βM). It falls from 2.00 at N = 2 to 1.09 at 24, about 1 + 2 sqrt(α/(βM)), so
to 1.02 with gradients 16 times as large. Then it rises, through 1.50 at N = βM/α = 500, to 1.99 at
50 000: where latency alone counts, twice the devices need four times the batch. At 95 % a device
needs 9.5 samples at N = 2, 19.1 at 24 and 37.9 at 500; with twice the devices the batch grows 3.01,
2.14 and 3.00 times.
"""

from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from frame import BLUE, GREEN, GREY, ORANGE, PURPLE, panels, present
from jax import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import scaleopt as so

SAMPLE, COMMUNICATION = 5 * so.units.ms, 5 * so.units.ms
BATCH, CLAIMED = 32, 0.05

RATE, ALPHA, BETA = 100 * so.units.TFLOP, 5 * so.units.us, 1 / (25 * so.units.GB)
SIZE = COMMUNICATION / (2 * BETA)
CROSSING = BETA * SIZE / ALPHA
LARGER = 16
DEVICES = (2, 4, 8, 24, 64, 256, 500, 1024, 4096, 50_000)


def overhead(batch: np.ndarray | float, fixed: float = 0.0) -> np.ndarray:
    """The share of the step that communicates; `fixed` [s] of a sample's compute do not repeat."""
    return np.asarray(COMMUNICATION / (COMMUNICATION + fixed + batch * (SAMPLE - fixed)))


def readings() -> pd.DataFrame:
    """A row for each reading of the claim: the ms that batch 32 computes, and what follows."""
    linear = BATCH * SAMPLE
    computes = {
        "compute grows with the batch": linear,
        "5 % of the step": COMMUNICATION * (1 - CLAIMED) / CLAIMED,
        "5 % of the compute": COMMUNICATION / CLAIMED,
    }
    rows = {}
    for name, compute in computes.items():
        fixed = (linear - compute) / (BATCH - 1)
        rows[name] = {
            "compute": compute / so.units.ms,
            "of it fixed": fixed / so.units.ms,
            "overhead of the step": float(overhead(BATCH, fixed)),
            "overhead of the compute": COMMUNICATION / compute,
            "all samples alike: batch": compute / SAMPLE,
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def least_batch(devices: Array, size: float = SIZE) -> Array:
    """Samples over all devices that keep the overhead at the claimed share."""
    all_reduce = so.all_reduce_time(size, devices, ALPHA, BETA)
    flops = so.isoefficiency_flops(1 - CLAIMED, devices, all_reduce, RATE)
    return jnp.asarray(flops / (RATE * SAMPLE))


def exponent(devices: np.ndarray, size: float = SIZE) -> np.ndarray:
    """The local exponent d log batch / d log N of the least batch, for each N."""
    slope = jax.grad(lambda log_devices: jnp.log(least_batch(jnp.exp(log_devices), size)))
    with jax.enable_x64(True):
        return np.asarray(jax.vmap(slope)(jnp.log(devices)))


def batches(devices: Iterable[float] = DEVICES) -> pd.DataFrame:
    """A row for each N: the all-reduce in ms, the least batch, its exponent, its growth to 2N."""
    count = np.array(list(devices), float)
    with jax.enable_x64(True):
        all_reduce = np.asarray(so.all_reduce_time(SIZE, count, ALPHA, BETA))
        batch, twice = (np.asarray(least_batch(jnp.asarray(each))) for each in (count, 2 * count))
    columns = {
        "all-reduce": all_reduce / so.units.ms,
        "batch": batch,
        "on each device": batch / count,
        "exponent": exponent(count),
        "batch(2N)/batch(N)": twice / batch,
    }
    return pd.DataFrame(columns, index=pd.Index(count.astype(int), name="N"))


def draw() -> Figure:
    """Overhead against the batch, and the exponent of the least batch against N."""
    figure, (left, right) = panels(2, width=12.0, height=4.8)
    draw_claim(left)
    draw_exponent(right)
    return figure


def draw_claim(axes: Axes) -> None:
    """The overhead against the batch, with and without a fixed cost, and the claim's two points."""
    batch = np.geomspace(1, 64, 200)
    fixed = readings().to_dict("index")["5 % of the step"]["of it fixed"]
    linear, flatter = overhead(batch), overhead(batch, fixed * so.units.ms)
    axes.plot(batch, 100 * flatter, color=ORANGE, lw=1.6)
    axes.plot(batch, 100 * linear, color=BLUE, lw=2)
    right = 100 * float(overhead(BATCH))
    axes.plot(1, 50, "o", color="black", ms=6, clip_on=False)
    axes.plot(BATCH, right, "o", color=BLUE, ms=6)
    axes.plot(BATCH, 100 * CLAIMED, "X", color=ORANGE, ms=8)
    axes.set(xscale="log", yscale="log", xlim=(1, 64), ylim=(1, 70))
    batches, shares = (1, 2, 4, 8, 16, 32, 64), (1, 2, 3, 5, 10, 20, 50)
    axes.set_xticks(batches, [str(tick) for tick in batches])
    axes.set_yticks(shares, [f"{tick} %" for tick in shares])
    axes.minorticks_off()
    axes.set(xlabel="batch", ylabel="communication's share of the step")
    axes.text(1.12, 57, "batch 1: 50 %", va="center")
    axes.text(30, 5.9, "claimed: 5 %", color=ORANGE)
    note = f"if {fixed:.1f} of the 5 ms of compute\nare a fixed cost"
    axes.text(7, 21, note, color=ORANGE)
    axes.text(29, right * 0.88, f"compute ∝ batch: {right:.2f} %", color=BLUE, ha="right", va="top")
    axes.set_title("At batch 32 the overhead is 3 %, not 5 %")


def draw_exponent(axes: Axes) -> None:
    """The local exponent against N for two gradient sizes, between doubling and four times."""
    devices = np.geomspace(2, 100_000, 400)
    axes.plot(devices, exponent(devices, LARGER * SIZE), color=GREEN, lw=1.6)
    axes.plot(devices, exponent(devices), color=PURPLE, lw=2)
    for value in (1, 2):
        axes.axhline(value, color=GREY, lw=0.8, ls="--")
    axes.plot(CROSSING, 1.5, "o", color="black", ms=6)
    axes.set(xscale="log", xlim=(2, 100_000), ylim=(0.85, 2.2))
    axes.set(xlabel="devices N", ylabel="d log batch / d log N")
    axes.text(90_000, 2.04, "latency-bound: four times the batch for twice N", ha="right")
    axes.text(90_000, 0.92, "bandwidth-bound: twice the batch for twice N", ha="right")
    axes.text(380, 1.53, f"N = βM/α = {CROSSING:.0f}", ha="right")
    axes.text(150, 1.32, "gradients of 62.5 MB", color=PURPLE, ha="right")
    axes.text(3_600, 1.22, "of 1 GB", color=GREEN)
    axes.set_title("Twice the devices need more than twice the batch")


if __name__ == "__main__":
    present(__doc__, "batch_and_overhead", batches(), draw)
    print(f"\n{readings().to_string(float_format='{:.6g}'.format)}")
