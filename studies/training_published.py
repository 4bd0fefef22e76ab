"""How well do a few training runs tell of others, over all published tables of shardings?

Command: python studies/training_published.py   (--quick: the numbers only, no figure)

Each machine of each table is fitted by `so.calibrate` to few of its runs and predicts the rest.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
import training_runs as runs
from frame import BLUE, GREY, ORANGE, panels, present
from matplotlib.figure import Figure

import scaleopt as so

SEED = 0


class Table(NamedTuple):
    """A published table, and which of its runs are fitted."""

    name: str
    read: Callable[[], pd.DataFrame]
    few: int
    """How many runs of a machine are fitted."""
    smaller: bool
    """Those on the fewest devices; else drawn at random."""


TABLES = (
    Table("vTrain, one node", runs.vtrain_node, 50, smaller=False),
    Table("Selene", runs.selene, 4, smaller=True),
    Table("BLOOM", runs.bloom, 20, smaller=False),
    Table("MPT", runs.mpt, 20, smaller=False),
    Table("torchtitan", runs.torchtitan, 4, smaller=False),
    Table("Megatron-Core", runs.megatron_core, 4, smaller=True),
    Table("MegaScale", runs.megascale, 4, smaller=True),
    Table("InternEvo", runs.internevo, 6, smaller=True),
    Table("DGX Cloud", runs.dgx_cloud, 20, smaller=False),
    Table("MLPerf", runs.mlperf, 4, smaller=True),
)


def split(rows: pd.DataFrame, few: int, *, smaller: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The runs that are fitted, and the others."""
    drawn = rows.iloc[np.random.default_rng(SEED).permutation(len(rows))]
    order = drawn.sort_values("devices", kind="stable") if smaller else drawn
    return order.iloc[:few], order.iloc[few:]


def predicted() -> pd.DataFrame:
    """Every run that was not fitted, measured and predicted."""
    found = []
    for table in TABLES:
        for machine, rows in table.read().assign(op="train_step").groupby("machine"):
            few, others = split(rows, table.few, smaller=table.smaller)
            if not others.empty:
                found.append(_told(table.name, str(machine), few, others))
    small, large = (
        read().assign(op="train_step") for read in (runs.vtrain_node, runs.vtrain_large)
    )
    few, others = split(large, 20, smaller=False)
    both = pd.concat([split(small, 50, smaller=False)[0], few], ignore_index=True)
    return pd.concat([*found, _told("vTrain, large", "A100", both, others)], ignore_index=True)


def _told(table: str, machine: str, few: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    forecast = so.calibrate(few).predict(others, level=0.9)
    time = others["time_s"].to_numpy()
    return pd.DataFrame(
        {
            "table": table,
            "machine": machine,
            "fitted": len(few),
            "measured_s": time,
            "predicted_s": forecast.time,
            "low_s": forecast.low,
            "high_s": forecast.high,
            "error": np.abs(forecast.time / time - 1),
            "within": (forecast.low <= time) & (time <= forecast.high),
        }
    )


def errors(rows: pd.DataFrame) -> pd.DataFrame:
    """By table and machine: runs fitted and predicted, errors and coverage in percent."""
    groups = rows.groupby(["table", "machine"], sort=False)
    return pd.DataFrame(
        {
            "fitted": groups["fitted"].first(),
            "predicted": groups.size(),
            "mean %": 100 * groups["error"].mean(),
            "median %": 100 * groups["error"].median(),
            "worst %": 100 * groups["error"].max(),
            "within 90 % band": 100 * groups["within"].mean(),
        }
    ).reset_index()


def draw(rows: pd.DataFrame) -> Figure:
    """Measured against predicted, and the errors."""
    figure, axes = panels(2, width=11.0, height=5.0)
    return figure


if __name__ == "__main__":
    found = predicted()
    present(__doc__, "training_published", errors(found), lambda: draw(found))
