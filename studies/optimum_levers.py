"""What moves the best number of devices: faster links, another topology, compression or overlap?

Command: python studies/optimum_levers.py

One workload, W = 10¹⁵ FLOP with 1 GB of gradients on devices of 10¹⁴ FLOP/s, over a network of
α = 5 µs and 25 GB/s for each device. One thing is changed at a time, and N*, the least time and the
time at 256 devices are found anew: with nodes of eight devices joined by fast links inside
(α = 1 µs, 300 GB/s) the all-reduce goes by levels and only an eighth of the array crosses the
network; with a double binary tree latency grows like log N; compression by four makes β a quarter,
with and without what coding costs; overlap hides communication behind half of the compute.

Finding: at 256 devices the step is bound by bandwidth (W/(N r) is 39 ms, 2βM 80 ms), so what cuts
bandwidth helps: nodes take it from 121 to 55 ms, free compression to 62, twice the bandwidth or
compression that costs 10 ps/B to 81, overlap to 102. N* is set by latency, and those hardly move it
(from 996 to 998 or 999): halving α takes it to 1409, nodes to 2817, since only every eighth hop is
slow, and two trees to the foot of their next level, just below 16 384, though at 256 devices they
are slower than the ring (126 ms). Overlap lowers it, to 701: what is hidden need not be shortened.
Bandwidth pays at the devices one has, latency in how many one can use.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from frame import BLUE, GREEN, GREY, ORANGE, PURPLE, panels, present
from jax import Array
from matplotlib.figure import Figure

import scaleopt as so

STEP = so.StepTime(rate=1e14, alpha=5e-6, beta=1 / 25e9)
WORK, SIZE, HERE, MOST = 1e15, 1e9, 256, 2.0**22
NODE, INSIDE_ALPHA, INSIDE_BETA = 8, 1e-6, 1 / 300e9

Time = Callable[..., Any]


def changed(**numbers: float) -> Time:
    """The same step with other numbers."""
    fields = {name: getattr(STEP, name) for name in ("rate", "alpha", "beta")} | numbers
    return so.StepTime(**fields)


def by_nodes(devices: Array, flops: float, size: float) -> Array:
    """The all-reduce by levels: inside nodes of eight, then across."""
    inside = jnp.minimum(devices, NODE)
    parts = jnp.stack([inside, devices / inside], axis=-1)
    alpha = jnp.array([INSIDE_ALPHA, float(STEP.alpha)])
    beta = jnp.array([INSIDE_BETA, float(STEP.beta)])
    reduced = so.hierarchical_all_reduce_time(size, parts, alpha, beta)
    return jnp.asarray(STEP(devices, flops, size, all_reduce=reduced))


def by_tree(devices: Array, flops: float, size: float) -> Array:
    """The all-reduce by two trees."""
    reduced = so.all_reduce_time(
        size, devices, STEP.alpha, STEP.beta, algorithm="double_binary_tree"
    )
    return jnp.asarray(STEP(devices, flops, size, all_reduce=reduced))


def levers() -> dict[str, Time]:
    """Each change by its name."""
    beta = float(STEP.beta)
    return {
        "flat ring": STEP,
        "twice the bandwidth": changed(beta=beta / 2),
        "half the latency": changed(alpha=2.5e-6),
        "nodes of 8, fast inside": by_nodes,
        "double binary tree": by_tree,
        "4 × compressed, free": changed(beta=float(so.compressed_beta(beta, 4.0))),
        "4 × compressed, 10 ps/B": changed(beta=float(so.compressed_beta(beta, 4.0, 1e-11))),
        "half of compute hides": changed(overlap=0.5),
    }


def optima() -> pd.DataFrame:
    """A row for each lever: N*, the least time, and the time at 256 devices."""
    rows = {}
    with jax.enable_x64(True):
        for name, time in levers().items():
            best = float(so.optimal_devices(time, WORK, SIZE, max_devices=MOST))
            at = [float(time(jnp.asarray(n), WORK, SIZE)) * 1e3 for n in (best, float(HERE))]
            rows[name] = [best, *at]
    columns = pd.Index(["N*", "T(N*) ms", f"T({HERE}) ms"])
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def draw() -> Figure:
    """T(N) with each lever, N* marked."""
    figure, (axes,) = panels(width=10.0, height=5.2)
    devices = jnp.asarray(np.geomspace(16, 65_536, 400))
    shown = {
        "flat ring": GREY,
        "half the latency": PURPLE,
        "double binary tree": GREEN,
        "nodes of 8, fast inside": BLUE,
        "4 × compressed, free": ORANGE,
        "half of compute hides": "#b03030",
    }
    found = optima()["N*"].to_dict()
    for name, color in shown.items():
        time = levers()[name]
        axes.plot(devices, np.asarray(time(devices, WORK, SIZE)) * 1e3, color=color, lw=2)
        if found[name] < 65_536:
            at = float(time(jnp.asarray(found[name]), WORK, SIZE)) * 1e3
            axes.plot(found[name], at, "o", color=color, ms=7)
        label = f"{name}: N* = {found[name]:,.0f}"
        axes.plot([], [], color=color, marker="o", label=label)
    axes.set(xscale="log", yscale="log", ylim=(15, 900), xlim=(16, 65_536))
    axes.set(xlabel="devices N", ylabel="T(N) [ms]")
    axes.set_title("Bandwidth lowers the curve, latency moves its minimum")
    axes.legend(frameon=False, ncols=2, loc="upper center")
    return figure


if __name__ == "__main__":
    present(__doc__, "optimum_levers", optima(), draw)
