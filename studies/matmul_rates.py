"""Where did a 4096³ product in bf16 run that took 4.6 ms, and where one that took 2.1 s?

Command: python studies/matmul_rates.py

Two times that are told of the same product. The FLOP come from the shapes, 2 m k n, and from XLA's
own analysis of the operation; the bytes likewise. A rate above a roof rules that roof out, and its
share of another says how well it would have gone there. Peaks are dense, rounded from NVIDIA's data
sheets (A100, H100 SXM) and Ada white paper (RTX 4090); the CPU is an example, in fp32.

Finding: 1.374e11 FLOP and 101 MB, by both counts to the last digit. 4.6 ms is 29.9 TFLOP/s, more
than the CPU's peak (996 %) and an A100's in fp32 (153 % of 19.5): an accelerator ran it, with much
to spare, at 9.58 % of an A100's bf16 peak, 3.02 % of an H100's, 18.1 % of an RTX 4090's. 2.1 s is
0.0654 TFLOP/s: 0.021 % of the A100's peak and 2.18 % of the CPU's, so either a CPU that is hardly
used, or a time that is not the product's alone: compilation, copies. The product is bound by
arithmetic on all of them; an A100 needs at least 0.441 ms, a tenth of the shorter time. Compiled
for a CPU, where it converts to fp32 and back, XLA (of JAX 0.10.2) counts 0.037 % more FLOP and five
times the bytes.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from frame import BLUE, GREEN, GREY, ORANGE, panels, present
from matplotlib.figure import Figure

import scaleopt as so
from scaleopt.units import TB, TFLOP, ms

SIDE, ITEM = 4096, 2
TIMES = {"4.6 ms": 4.6 * ms, "2.1 s": 2.1}
ROOFS = (
    ("H100, bf16", 989.5, 3.3),
    ("A100, bf16", 312.0, 2.0),
    ("RTX 4090, bf16", 165.2, 1.0),
    ("A100, fp32", 19.5, 2.0),
    ("CPU, fp32", 3.0, 0.35),
)
"""Name, peak [TFLOP/s] and bandwidth [TB/s]."""


def counted_by_xla(dtype: jnp.dtype, *, compiled: bool = False) -> Mapping[str, float]:
    """FLOP and bytes of the product as XLA counts them, without running it."""
    matrix = jax.ShapeDtypeStruct((SIDE, SIDE), dtype)
    with jax.default_device(jax.devices("cpu")[0]):
        lowered = jax.jit(jnp.matmul).lower(matrix, matrix)
        counts = (lowered.compile() if compiled else lowered).cost_analysis() or {}
    return {"FLOP": counts["flops"], "bytes": counts["bytes accessed"]}


def counts() -> pd.DataFrame:
    """A row for each way to count the product's FLOP and bytes."""
    flops = float(so.gemm_flops(SIDE, SIDE, SIDE))
    bf16, fp32 = jnp.dtype(jnp.bfloat16), jnp.dtype(jnp.float32)
    rows = {
        "2 m k n, bf16": {"FLOP": flops, "bytes": float(so.gemm_bytes(SIDE, SIDE, SIDE, ITEM))},
        "XLA, bf16 as written": counted_by_xla(bf16),
        "XLA, bf16 compiled for a CPU": counted_by_xla(bf16, compiled=True),
        "2 m k n, fp32": {"FLOP": flops, "bytes": float(so.gemm_bytes(SIDE, SIDE, SIDE, 4))},
        "XLA, fp32 compiled for a CPU": counted_by_xla(fp32, compiled=True),
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def shares() -> pd.DataFrame:
    """A row for each roof: the least time under it, and the share of its peak at each time."""
    flops = float(so.gemm_flops(SIDE, SIDE, SIDE))
    intensity = float(so.gemm_intensity(SIDE, SIDE, SIDE, ITEM))
    rows = {}
    for name, peak, bandwidth in ROOFS:
        roof = float(so.attainable_rate(intensity, peak * TFLOP, bandwidth * TB))
        rows[name] = {
            "peak TFLOP/s": peak,
            "ridge FLOP/B": float(so.ridge_point(peak * TFLOP, bandwidth * TB)),
            "least ms": flops / roof / ms,
            **{
                f"% of peak at {told}": 100
                * float(so.model_flops_utilization(flops, time, 1, peak * TFLOP))
                for told, time in TIMES.items()
            },
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def rates() -> dict[str, float]:
    """The rate [TFLOP/s] that each time means."""
    flops = float(so.gemm_flops(SIDE, SIDE, SIDE))
    return {told: flops / time / TFLOP for told, time in TIMES.items()}


def draw() -> Figure:
    """Each peak as a bar, and the two rates as lines through them."""
    figure, (axes,) = panels(width=10.0, height=4.6)
    found = shares()
    place = np.arange(len(found))[::-1]
    peaks = found["peak TFLOP/s"].to_numpy(float)
    axes.barh(place, peaks, color="#c9d8e6", height=0.62)
    for at, peak, (_, row) in zip(place, peaks, found.iterrows(), strict=True):
        axes.text(peak / 1.1, at, f"{peak:g}", va="center", ha="right", color=BLUE)
        for told, color in zip(TIMES, (ORANGE, GREEN), strict=True):
            share = float(row[f"% of peak at {told}"])
            behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.5, "alpha": 0.85}
            label = f"{share:.3g} %" if share < 100 else f"{share:.3g} %: not there"
            axes.text(rates()[told] * 1.12, at, label, color=color, va="center", bbox=behind)
    for (told, rate), color in zip(rates().items(), (ORANGE, GREEN), strict=True):
        axes.axvline(rate, color=color, lw=2)
        label = f"{told}: {rate:.3g} TFLOP/s"
        axes.text(rate, len(found) - 0.45, label, color=color, ha="center", va="bottom")
    axes.set(xscale="log", xlim=(0.01, 4000), ylim=(-0.6, len(found) - 0.5))
    axes.set_yticks(place, list(found.index))
    axes.grid(visible=False, axis="y")
    axes.set(xlabel="peak and rate [TFLOP/s]; the shares are of each peak")
    title = "4.6 ms is an accelerator far below its peak, 2.1 s a CPU that is hardly used"
    axes.set_title(title, pad=24)
    axes.tick_params(axis="y", length=0, labelcolor=GREY)
    return figure


if __name__ == "__main__":
    present(__doc__, "matmul_rates", shares(), draw)
    print(f"\n{counts().to_string(float_format='{:.12g}'.format)}")
