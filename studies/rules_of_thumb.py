"""Is the intensity about 0.1 element by element, 2 for a matrix times a vector, 100 for a GEMM?

Command: python studies/rules_of_thumb.py

A rule of thumb in FLOP/B, counted for fp32, bf16 and int8, operands and results alike. It is taken
to hold where the count lies within a quarter of it. A square GEMM has I = 2n / (3 · item), so that
100 FLOP/B takes n = 150 · item. Decoding reads the weights once for a batch, and one cache of keys
and values for each sequence; reading a prompt (prefill) reads the weights once for all its tokens.
The model is an example: 7 · 10⁹ weights, 32 layers of width 4096, keys and values of that width,
2048 tokens of context for each sequence.

Finding: the first two numbers belong to one type each, the third to a size. Adding has 1/12 in fp32
(holds), 1/6 in bf16, 1/3 in int8. A matrix times a vector has 1/2 in fp32, 1 in bf16, 2 in int8
(holds). A square GEMM reaches 100 from n = 600 in fp32, 300 in bf16, 150 in int8; with one side of
16 it never does, at most 8, 16 and 32. So no one type has both of the first. Prefill reaches 100
from 200, 100 and 50 tokens. Decoding would from batches of as many, were there no cache; with it
the intensity never passes 6.52 in fp32, 13 in bf16 and 26.1 in int8. A cache of an eighth (grouped
heads) allows eight times that: 52.2, 104 and 209.
"""

import numpy as np
import pandas as pd
from frame import BLUE, GREY, ORANGE, PURPLE, panels, present
from matplotlib.figure import Figure

import scaleopt as so

ITEM = {"fp32": 4, "bf16": 2, "int8": 1}
RULE = {"element by element": 0.1, "matrix × vector": 2.0, "GEMM": 100.0}
WIDE, SKINNY = 2**14, 16
PARAMETERS, LAYERS, HIDDEN, CONTEXT = 7e9, 32, 4096, 2048
BATCHES = np.array([2.0**i for i in range(13)])


def cache(item: int) -> float:
    """Bytes of keys and values that one sequence reads for its next token."""
    return 2.0 * LAYERS * HIDDEN * CONTEXT * item


def most_decoding(item: int, cached: float) -> float:
    """The intensity that decoding nears as its batch grows."""
    return float(so.decode_intensity(np.inf, PARAMETERS, item, cached))


def first(intensity: np.ndarray, least: float = RULE["GEMM"]) -> float:
    """The first place, counted from 1, whose intensity reaches the least, to single precision."""
    reached = np.flatnonzero(intensity >= least * (1 - 1e-6))
    return float(reached[0] + 1) if reached.size else float("inf")


def intensities() -> pd.DataFrame:
    """A row for each type: every intensity, the sizes that reach 100, and which rules hold."""
    sizes = np.arange(1, 4097.0)
    rows = {}
    for name, item in ITEM.items():
        add = float(so.elementwise_intensity(2, 1, 1, item))
        vector = float(so.gemv_intensity(WIDE, WIDE, item))
        rows[name] = {
            "add": add,
            "SAXPY": float(so.saxpy_intensity(item)),
            "matrix × vector": vector,
            "0.1 holds": holds(add, RULE["element by element"]),
            "2 holds": holds(vector, RULE["matrix × vector"]),
            "GEMM n for 100": first(np.asarray(so.gemm_intensity(sizes, sizes, sizes, item))),
            "skinny GEMM": float(so.gemm_intensity(SKINNY, WIDE, WIDE, item)),
            "prefill tokens for 100": first(np.asarray(so.prefill_intensity(sizes, item))),
            "decode batch for 100, no cache": first(
                np.asarray(so.decode_intensity(sizes, PARAMETERS, item, 0.0))
            ),
            "decode at most": most_decoding(item, cache(item)),
            "with 1/8 of the cache": most_decoding(item, cache(item) / 8),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def holds(found: float, rule: float) -> bool:
    """Whether a count lies within a quarter of the rule."""
    return abs(found / rule - 1) <= 0.25


def draw() -> Figure:
    """Small intensities against their rules, GEMM against its size, and a model's two phases."""
    figure, (small, gemm, model) = panels(3, width=14.5, height=4.8)
    found = intensities()
    colors = dict(zip(ITEM, (BLUE, ORANGE, PURPLE), strict=True))
    for place, (column, name) in enumerate(
        (("add", "element by element"), ("matrix × vector", "matrix × vector"))
    ):
        rule = RULE[name]
        small.fill_between([place - 0.42, place + 0.63], 0.75 * rule, 1.25 * rule, color="#dddddd")
        small.text(place - 0.4, rule, f"rule: {rule:g}", color=GREY, va="center")
        for each, color in colors.items():
            value = float(found[column][each])
            small.plot(place + 0.08, value, "o", color=color, ms=8)
            small.text(place + 0.15, value, f"{each}: {value:.3g}", color=color, va="center")
    small.set(yscale="log", xlim=(-0.5, 1.7), ylim=(0.04, 4), ylabel="intensity [FLOP/B]")
    small.set_xticks([0, 1], ["add, element by element", "matrix × vector"])
    small.set_yticks([0.1, 1], ["0.1", "1"])
    small.grid(visible=False, axis="x")
    small.set_title("Each rule fits one type only")
    sizes = np.geomspace(16, 4096, 300)
    for each, color in colors.items():
        item = ITEM[each]
        gemm.plot(sizes, np.asarray(so.gemm_intensity(sizes, sizes, sizes, item)), color=color)
        skinny = np.asarray(so.gemm_intensity(SKINNY, sizes, sizes, item))
        gemm.plot(sizes, skinny, color=color, ls=":")
        n = float(found["GEMM n for 100"][each])
        gemm.plot(n, RULE["GEMM"], "o", color=color, ms=7)
    for each, at in zip(reversed(ITEM), (0.17, 0.1, 0.03), strict=True):
        n = float(found["GEMM n for 100"][each])
        label = f"{each}: from n = {n:g}"
        gemm.text(0.97, at, label, color=colors[each], ha="right", transform=gemm.transAxes)
    gemm.axhline(RULE["GEMM"], color=GREY, ls="--", lw=1)
    gemm.text(17, 108, "rule: 100", color=GREY, va="bottom")
    gemm.text(1_400, 22, f"one side {SKINNY} (dotted)", ha="center", va="center", color=GREY)
    gemm.set(xscale="log", yscale="log", xlim=(16, 4096), ylim=(1, 3000))
    gemm.set(xlabel="side n of the matrices", ylabel="intensity [FLOP/B]")
    gemm.set_title("A GEMM reaches 100 only if it is large")
    for each, color in colors.items():
        item = ITEM[each]
        model.plot(BATCHES, np.asarray(so.prefill_intensity(BATCHES, item)), color=color)
        decode = np.asarray(so.decode_intensity(BATCHES, PARAMETERS, item, cache(item)))
        model.plot(BATCHES, decode, color=color, ls="--")
        most = float(found["decode at most"][each])
        model.text(3_600, most * 1.07, f"{each}: ≤ {most:.3g}", color=color, ha="right")
    model.axhline(RULE["GEMM"], color=GREY, ls="--", lw=1)
    model.text(1.1, 108, "rule: 100", color=GREY, va="bottom")
    model.plot([], [], color=GREY, label="prefill: tokens of the prompts")
    model.plot([], [], color=GREY, ls="--", label="decode: sequences, with their cache")
    model.set(xscale="log", yscale="log", xlim=(1, 4096), ylim=(0.4, 3000))
    model.set(xlabel="tokens (prefill) or sequences (decode)", ylabel="intensity [FLOP/B]")
    model.legend(frameon=False, loc="upper left", fontsize="small")
    model.set_title("With a full cache decoding never reaches 100")
    return figure


if __name__ == "__main__":
    present(__doc__, "rules_of_thumb", intensities(), draw)
