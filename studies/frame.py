"""What every study does alike: numbers to the terminal, one figure beside them, one look."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

DATA = Path(
    os.environ.get("SCALEOPT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)
"""The published tables."""
FIGURES = Path(__file__).parent / "figures"
BLUE, ORANGE, PURPLE, GREEN, GREY = "#0b5fa5", "#d1780f", "#8a2f7c", "#4c7a34", "#6b6b6b"


def panels(count: int = 1, *, width: float = 9.0, height: float = 4.4) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels side by side, each with a light grid and no box."""
    figure = Figure(figsize=(width, height), layout="constrained", dpi=110)
    axes = list(figure.subplots(1, count, squeeze=False)[0])
    for each in axes:
        each.grid(visible=True, alpha=0.25)
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes


def present(doc: str | None, name: str, numbers: pd.DataFrame, draw: Callable[[], Figure]) -> None:
    """Print a study's numbers, and draw its figure unless `--quick` is given.

    Args:
        doc: the study's docstring; its first line is the question.
        name: of the figure's file.
        numbers: what was found, a row each.
        draw: makes the figure.
    """
    question = (doc or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--quick", action="store_true", help="the numbers only, no figure")
    quick = parser.parse_args().quick
    print(f"{question}\n\n{numbers.to_string(float_format='{:.6g}'.format)}")
    if not quick:
        FIGURES.mkdir(exist_ok=True)
        draw().savefig(FIGURES / f"{name}.png")
