"""What do a million tokens cost at $3 an hour for each device, and how fast does it rise with N?

Command: python studies/tokens_cost.py

A published table has 50, 92, 170 and 300 tokens a second on 1, 2, 4 and 8 devices, and says that a
million tokens cost $0.017 to $0.022, so 6, 18 and 29 % more than on one device. A device costs the
same each second whether it works or waits: the cost on N devices is that on one over the efficiency
S/N.

Finding: a million tokens cost $16.67, 18.12, 19.61 and 22.22, a thousand times what is printed, and
8.7, 17.6 and 33.3 % more than on one device, which is 1/E − 1 for E = 0.92, 0.85 and 0.75. The
error probably arose so: the cost of a thousand tokens was rounded to $0.017, 0.018, 0.020 and
0.022, called that of a million, and the rise was taken from the rounded values, which gives 5.9,
17.6 and 29.4 %. That the 18 % on four devices come out right is chance: there the rounding errors
of both costs are alike.
"""

import numpy as np
import pandas as pd
from frame import BLUE, GREY, ORANGE, panels, present
from matplotlib.figure import Figure

import scaleopt as so
from scaleopt.units import hour

DEVICES = np.array([1, 2, 4, 8])
TOKENS = np.array([50.0, 92.0, 170.0, 300.0])
PRICE = 3 / hour
PUBLISHED_ENDS = (0.017, 0.022)
PUBLISHED_RISE = (0.0, 0.06, 0.18, 0.29)


def costs() -> pd.DataFrame:
    """A row for each N: efficiency, the cost and its rise, and how the published ones arise."""
    share = np.asarray(so.efficiency(TOKENS / TOKENS[0], DEVICES), float)
    million = np.asarray(so.million_tokens_cost(PRICE, DEVICES, TOKENS), float)
    rounded = (million / 1000).round(3)
    columns = {
        "tokens/s": TOKENS,
        "E": share,
        "$ a million": million,
        "rise": million / million[0] - 1,
        "1/E - 1": 1 / share - 1,
        "$ a thousand, rounded": rounded,
        "its rise": rounded / rounded[0] - 1,
        "published rise": PUBLISHED_RISE,
    }
    return pd.DataFrame(columns, index=pd.Index(DEVICES, name="N"))


def draw() -> Figure:
    """The cost and its rise, each beside what is published."""
    found = costs()
    figure, (left, right) = panels(2, width=10.5)
    million = found["$ a million"]
    left.plot(DEVICES, million, "o-", color=BLUE, lw=2, label="recomputed")
    for n, cost in million.items():
        left.annotate(f"${cost:.2f}", (n, cost), (0, 9), textcoords="offset points", ha="center")
    left.plot(DEVICES[[0, -1]], PUBLISHED_ENDS, "s--", color=ORANGE, lw=1, label="as published")
    for n, cost in zip(DEVICES[[0, -1]], PUBLISHED_ENDS, strict=True):
        left.annotate(f"${cost}", (n, cost), (0, 9), textcoords="offset points", ha="center")
    left.set(yscale="log", ylim=(0.008, 90), ylabel="cost of a million tokens [$]")
    left.set_title("The published cost is that of a thousand tokens")
    left.legend(frameon=False, loc="center right")
    right.plot(DEVICES, 100 * found["1/E - 1"], color=GREY, lw=5, alpha=0.4, label="1/E − 1")
    right.plot(DEVICES, 100 * found["rise"], "o", color=BLUE, ms=8, label="recomputed")
    right.plot(
        DEVICES, 100 * found["its rise"], color=ORANGE, lw=1, ls="--", label="from rounded costs"
    )
    right.plot(DEVICES, 100 * found["published rise"], "s", color=ORANGE, label="as published")
    right.set(ylabel="rise above one device [%]", ylim=(-1, 40))
    right.set_title("The cost rises as the efficiency falls")
    right.legend(frameon=False, loc="upper left")
    for axes in (left, right):
        axes.set(xscale="log", xlabel="devices N", xlim=(0.85, 9.5))
        axes.set_xticks(DEVICES, [str(n) for n in DEVICES])
        axes.minorticks_off()
    return figure


if __name__ == "__main__":
    present(__doc__, "tokens_cost", costs(), draw)
