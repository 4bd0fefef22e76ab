"""Does `so.fit` find the certified values and standard errors of known least-squares problems?

Command: python studies/certified_values.py   (ten seconds; --quick: the numbers only, no figure)

The nonlinear regression problems of NIST's Statistical Reference Datasets, whose estimates and
standard deviations are certified to eleven digits, fitted by plain squares of absolute residuals.
A certified value below 0 is fitted as its negative. And the Universal Scalability Law on the SPEC
SDM91 throughputs of a SPARCcenter 2000, as the R package `usl` prints it.

Sources: https://www.itl.nist.gov/div898/strd/nls/nls_main.shtml (public domain; second start of
each problem); https://github.com/smoeding/usl, README and data set specsdm91.

Finding: all seventeen problems end at the certified values, to 7.3 digits or more (MGH09), with
standard errors to 6.9 digits or more (Thurber). For SPEC SDM91 contention is 0.0277285 ± 0.0091217,
coherency 0.00010437 ± 0.00001988 and rate 89.9952 ± 14.2135, as the R package prints.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
from frame import BLUE, ORANGE, panels, present
from jax.tree_util import Partial
from matplotlib.figure import Figure

import scaleopt as so

DATA = Path(__file__).parent / "data"
LAWS: dict[str, Callable[..., Any]] = {
    "BoxBOD": lambda x, *, b1, b2: b1 * (1 - jnp.exp(-b2 * x)),
    "Chwirut2": lambda x, *, b1, b2, b3: jnp.exp(-b1 * x) / (b2 + b3 * x),
    "DanWood": lambda x, *, b1, b2: b1 * x**b2,
    "Eckerle4": lambda x, *, b1, b2, b3: b1 / b2 * jnp.exp(-0.5 * ((x - b3) / b2) ** 2),
    "Kirby2": lambda x, *, b1, b2, b3, b4, b5: (b1 - b2 * x + b3 * x**2) / (1 - b4 * x + b5 * x**2),
    "Lanczos3": lambda x, *, b1, b2, b3, b4, b5, b6: (
        b1 * jnp.exp(-b2 * x) + b3 * jnp.exp(-b4 * x) + b5 * jnp.exp(-b6 * x)
    ),
    "MGH09": lambda x, *, b1, b2, b3, b4: b1 * (x**2 + x * b2) / (x**2 + x * b3 + b4),
    "MGH10": lambda x, *, b1, b2, b3: b1 * jnp.exp(b2 / (x + b3)),
    "MGH17": lambda x, *, b1, b2, b3, b4, b5: b1 + b2 * jnp.exp(-x * b4) - b3 * jnp.exp(-x * b5),
    "Misra1a": lambda x, *, b1, b2: b1 * (1 - jnp.exp(-b2 * x)),
    "Misra1b": lambda x, *, b1, b2: b1 * (1 - (1 + b2 * x / 2) ** -2.0),
    "Misra1c": lambda x, *, b1, b2: b1 * (1 - (1 + 2 * b2 * x) ** -0.5),
    "Misra1d": lambda x, *, b1, b2: b1 * b2 * x / (1 + b2 * x),
    "Rat42": lambda x, *, b1, b2, b3: b1 / (1 + jnp.exp(b2 - b3 * x)),
    "Rat43": lambda x, *, b1, b2, b3, b4: b1 / (1 + jnp.exp(b2 - b3 * x)) ** (1 / b4),
    "Roszman1": lambda x, *, b1, b2, b3, b4: b1 + b2 * x - jnp.arctan(b3 / (x + b4)) / jnp.pi,
    "Thurber": lambda x, *, b1, b2, b3, b4, b5, b6, b7: (
        (b1 + b2 * x + b3 * x**2 + b4 * x**3) / (1 + b5 * x + b6 * x**2 + b7 * x**3)
    ),
}
LOAD = [1.0, 18.0, 36.0, 72.0, 108.0, 144.0, 216.0]
SCRIPTS_PER_HOUR = [64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2]
PRINTED = {
    "rate": (89.9952330, 14.2134894),
    "contention": (0.0277285, 0.0091217),
    "coherency": (0.0001044, 0.0000199),
}
"""What `usl` prints for gamma, alpha and beta: the estimate and its standard error."""


def plain_squares(law: Any, table: pd.DataFrame) -> so.Fit[Any]:
    """The law fitted to the column y as textbooks do it."""
    return so.fit(law, table, measured="y", loss="squares", residuals="absolute")


def digits(problem: str) -> tuple[float, float]:
    """How many digits of the worst value and of the worst standard error agree."""
    data = pd.read_csv(DATA / "nist_strd.csv").query("problem == @problem").assign(op="y")
    known = pd.read_csv(DATA / "nist_strd_certified.csv").query("problem == @problem")
    start = dict(zip(known["parameter"], known["start"].abs(), strict=True))
    fit = plain_squares(Partial(LAWS[problem], **start), data)
    if fit.failure:
        return 0.0, 0.0
    names = pd.Index(known["parameter"]).get_indexer(pd.Index(fit.names))
    value, error = known["value"].abs().to_numpy()[names], known["standard_error"].to_numpy()[names]
    return agreed(fit.estimate, value), agreed(fit.standard_error, error)


def agreed(found: np.ndarray, known: np.ndarray) -> float:
    """−log₁₀ of the largest relative difference, at most the eleven digits that are certified."""
    return float(-np.log10(max(np.max(np.abs(found / known - 1)), 1e-11)))


def scalability() -> so.Fit[Any]:
    """The Universal Scalability Law on SPEC SDM91, from another start than the answer."""

    def law(load, *, rate, contention, coherency):
        return so.usl_throughput(load, rate, contention, coherency)

    table = pd.DataFrame({"op": "y", "load": LOAD, "y": SCRIPTS_PER_HOUR})
    return plain_squares(Partial(law, rate=50.0, contention=0.1, coherency=1e-3), table)


def numbers() -> pd.DataFrame:
    """Agreed digits of each problem."""
    found = {problem: digits(problem) for problem in sorted(LAWS)}
    columns = pd.Index(["value_digits", "standard_error_digits"])
    return pd.DataFrame.from_dict(found, orient="index", columns=columns)


def draw(found: pd.DataFrame) -> Figure:
    """Agreed digits, two bars a problem."""
    figure, (axes,) = panels(width=10)
    place = np.arange(len(found))
    axes.bar(place - 0.2, found["value_digits"], 0.4, color=BLUE, label="values")
    axes.bar(
        place + 0.2, found["standard_error_digits"], 0.4, color=ORANGE, label="standard errors"
    )
    axes.axhline(6, color="black", lw=0.8)
    axes.set_xticks(place, list(found.index), rotation=60)
    axes.set(ylabel="certified digits that agree (11 are given)", ylim=(0, 13))
    axes.legend(frameon=False, loc="upper center", ncols=2)
    return figure


def main() -> None:
    """Run, print and draw."""
    usl = scalability()
    print(f"{'USL on SPEC SDM91':<18}{'value':>14}{'std. error':>14}{'usl prints':>26}")
    for name, value, error in zip(usl.names, usl.estimate, usl.standard_error, strict=True):
        print(f"{name:<18}{value:>14.7g}{error:>14.7g}{PRINTED[name]!s:>26}")
    found = numbers()
    present(__doc__, "certified_values", found, lambda: draw(found))


if __name__ == "__main__":
    main()
