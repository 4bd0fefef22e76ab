"""Is an MFU of 40 to 50 % good, and one below 20 % a reason to look elsewhere?

Command: python studies/mfu_reading.py

Model FLOP/s utilisation of 44 published training runs (data/mfu_published.csv has the sources),
each computed again from its tokens/s as (6 P + 12 L h s) FLOP for a token, and read against the
dense peak of the type in use: 312 TFLOP/s in bf16 for an A100, 989.5 for an H100 and 1979 in fp8,
275 for a TPU v4. H100 runs in fp8 are compared with the same model, sequence and devices in bf16.

Finding: recomputed and published agree within 0.005 points where two decimals were published, and
within 0.151 elsewhere (one decimal, times of three digits). Of 37 runs in bf16, 12 have 40 to 50 %,
17 more, 8 from 28.8 to 40, none less than 20: there the reading is fair, though 17 of 23 on A100s
pass 50 %. Of seven in fp8 none has more than 30.3 % and two less than 20. Yet of the six with a
twin in bf16 five are faster than it, by 4.6 to 34.5 %; the sixth has 14.4 % where its twin at the
same speed (−0.3 %) has 28.8 %: another type's peak alone halves the MFU. “Good” is thus a word for
bf16. Below 20 % holds as a hint in fp8 too: those two gain least from it, and attention does 70
and 66 % of their FLOP.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from frame import BLUE, GREEN, GREY, ORANGE, PURPLE, panels, present
from matplotlib.figure import Figure

import scaleopt as so
from scaleopt.units import TFLOP

PUBLISHED = Path(__file__).parent / "data" / "mfu_published.csv"
PEAKS = {
    "A100 40GB": {"bf16": 312.0},
    "A100 80GB": {"bf16": 312.0},
    "H100": {"bf16": 989.5, "fp8": 1979.0},
    "TPU v4": {"bf16": 275.0},
}
"""Dense peaks [TFLOP/s], from the data sheets of NVIDIA and of Google Cloud."""
TWIN = ["model", "sequence", "devices"]
LIMITS = {"below 20 %": (0, 20), "20–40 %": (20, 40), "40–50 %": (40, 50), "above 50 %": (50, 101)}


def runs() -> pd.DataFrame:
    """Every published run, with its MFU [%] computed again, and against the bf16 peak too."""
    table = pd.read_csv(PUBLISHED, comment="#")
    attention = 12.0 * table["layers"] * table["width"] * table["sequence"]
    per_token = 6.0 * table["parameters"] + attention
    flops = (per_token * table["tokens_per_s"]).to_numpy(float)
    devices = table["devices"].to_numpy(float)

    def mfu(dtypes: list[str]) -> np.ndarray:
        peaks = [
            PEAKS[chip][dtype] * TFLOP
            for chip, dtype in zip(table["hardware"], dtypes, strict=True)
        ]
        return 100 * np.asarray(so.model_flops_utilization(flops, 1.0, devices, np.array(peaks)))

    table["attention %"] = 100 * attention / per_token
    table["recomputed"] = mfu(list(table["dtype"]))
    table["of the bf16 peak"] = mfu(["bf16"] * len(table))
    return table


def readings() -> pd.DataFrame:
    """A row for each type on each hardware: how many runs fall into each reading."""
    table = runs()
    rows = {}
    for (chip, dtype), group in table.groupby(["hardware", "dtype"]):
        rows[f"{chip} {dtype}"] = read(group)
    for dtype, group in table.groupby("dtype"):
        rows[f"all {dtype}"] = read(group)
    return pd.DataFrame.from_dict(rows, orient="index")


def read(group: pd.DataFrame) -> dict[str, float]:
    """How many of the runs fall into each reading, their range, and how well they recompute."""
    mfu = group["mfu"].to_numpy(float)
    return {
        "runs": len(mfu),
        **{name: int(((mfu >= low) & (mfu < high)).sum()) for name, (low, high) in LIMITS.items()},
        "lowest": float(mfu.min()),
        "highest": float(mfu.max()),
        "off by": float(np.abs(group["recomputed"] - mfu).max()),
    }


def pairs() -> pd.DataFrame:
    """A row for each fp8 run with a bf16 twin: both MFU, and how much faster fp8 is."""
    table = runs()
    table = table[table["hardware"] == "H100"]
    fp8, bf16 = (table[table["dtype"] == dtype] for dtype in ("fp8", "bf16"))
    both = fp8.merge(bf16, on=TWIN, suffixes=(" fp8", " bf16"))
    names = [f"{m}, {s}" for m, s in zip(both["model"], both["sequence"], strict=True)]
    return pd.DataFrame(
        {
            "bf16 MFU": both["mfu bf16"].to_numpy(float),
            "fp8 MFU": both["mfu fp8"].to_numpy(float),
            "fp8 run, bf16 peak": both["of the bf16 peak fp8"].to_numpy(float),
            "faster %": 100 * (both["tokens_per_s fp8"] / both["tokens_per_s bf16"] - 1).to_numpy(),
            "attention %": both["attention % fp8"].to_numpy(float),
        },
        index=pd.Index(names),
    )


def draw() -> Figure:
    """All runs by hardware and type over the readings, and the fp8 runs beside their twins."""
    figure, (every, twins) = panels(2, width=12.5, height=4.8)
    table = runs()
    kinds = list(table.groupby(["hardware", "dtype"]))
    every.axhspan(40, 50, color=GREEN, alpha=0.15, lw=0)
    every.axhspan(0, 20, color=ORANGE, alpha=0.15, lw=0)
    every.text(3, 45, "“good”", color=GREEN, va="center", ha="center")
    every.text(1, 5, "“look elsewhere”", color=ORANGE, va="center", ha="center")
    for place, ((_, dtype), group) in enumerate(kinds):
        mfu = np.sort(group["mfu"].to_numpy(float))
        across = place + 0.1 * (np.arange(len(mfu)) % 3 - 1) * (len(mfu) > 1)
        every.plot(across, mfu, "o", ms=6, alpha=0.8, color=PURPLE if dtype == "fp8" else BLUE)
    names = [f"{chip}\n{dtype}" for (chip, dtype), _ in kinds]
    every.set_xticks(range(len(kinds)), names)
    every.grid(visible=False, axis="x")
    every.set(xlim=(-0.5, len(kinds) - 0.5), ylim=(0, 70), ylabel="MFU as published [%]")
    every.set_title("Fair in bf16; against the fp8 peak no run is “good”")
    found = pairs()
    place = np.arange(len(found))[::-1]
    twins.hlines(place, found["fp8 MFU"], found["fp8 run, bf16 peak"], color="#cccccc", lw=2)
    columns = (
        ("bf16 MFU", BLUE, "o", "bf16 run"),
        ("fp8 MFU", PURPLE, "o", "fp8 run, as published"),
        ("fp8 run, bf16 peak", PURPLE, "|", "fp8 run, against the bf16 peak"),
    )
    for column, color, marker, label in columns:
        twins.plot(found[column], place, marker, color=color, ms=9, mew=2, ls="", label=label)
    for at, faster in zip(place, found["faster %"].to_numpy(float), strict=True):
        twins.text(66, at, f"{faster:+.1f} %".replace("-", "−"), va="center", color=GREY)
    twins.text(66, len(found) - 0.4, "tokens/s in fp8", va="center", color=GREY)
    twins.set_yticks(place, [f"{name} tokens" for name in found.index])
    twins.grid(visible=False, axis="y")
    twins.set(xlim=(0, 78), ylim=(-1.9, len(found) - 0.1), xlabel="MFU [%]")
    twins.legend(frameon=False, loc="lower left", ncols=3, fontsize="small")
    twins.set_title("Faster in fp8, and yet a lower MFU")
    return figure


if __name__ == "__main__":
    present(__doc__, "mfu_reading", readings(), draw)
    print(f"\n{pairs().to_string(float_format='{:.4g}'.format)}")
