"""Does it help a forecast to know what is computed: a network's gradients, a grid's faces?

Command: python studies/workloads_published.py   (--quick: the numbers only, no figure)

Three constants of a machine are fitted to the small N of each series, under the counts of its
workload, and the larger N are predicted. Networks: MXNet's published images a second, with the
bytes of the gradients (rate, link in a node of 16, link between nodes; fitted to N ≤ 32 of 256).
Simulations: OpenSBLI's seconds of an iteration on 512³ and 1024³ cells, the series and the fitted N
of `strong_scaling_published` (rate, link, fixed time). Small batches: ResNet-50 in MLPerf on H100,
where the images that a device sees fall from 400 to 16 (rate, and the images at which half of it is
reached; fitted to 8 and 768 devices of 3,584). Needs the tables: SCALEOPT_DATA names their folder.

Finding: yes. The networks on 64 to 256 GPUs are missed by 0.7, 1.8 and 2.8 % on average, where a
curve that knows no bytes misses the same table by 34 % in the mean of the series and 7.1 % in the
median. Simulations by 10.7 % in the median series and 14.9 % in the mean, which is no better than
that curve's 9.1 and 15.0 %: faces help where they cost (512³ on ARCHER 14 % for 17), and not where
runs alike differ twofold (1024³ on ARCHER2: 40 %), nor where nodes are faster on blocks that fit
into their caches, which no count here knows. ResNet-50 on 3,584 devices is missed by 6.4 %, over
four rounds of software. Bands of 90 % hold 26 of 30 points; three of the others are on ARCHER2.
"""

from typing import Any

import jax
import numpy as np
import pandas as pd
from frame import BLUE, DATA, GREY, ORANGE, panels, present
from jax.tree_util import Partial
from matplotlib.figure import Figure

import scaleopt as so
from scaleopt.models.data_parallel import DataSplit
from scaleopt.models.halo import Blocks
from scaleopt.models.workload_time import workload_time
from scaleopt.units import MB, us

_FREE: dict[str, Any] = {"bandwidth": np.inf, "alpha": 0.0}
"""Of a machine: what these tables cannot tell from the rest."""


def network_step(devices: Any, batch: Any, size: Any, *, rate: Any, beta: Any, network_beta: Any):
    """Seconds of a step of a network with so many images a device; work in images."""
    machine = so.Machine(rate=rate, beta=beta, network_beta=network_beta, node_size=16, **_FREE)
    work = so.DataParallel(sample_flops=1.0, gradient_bytes=size, state_bytes=0.0)
    return workload_time(machine, work, DataSplit(devices, batch))


def small_batch_step(devices: Any, batch: Any, *, rate: Any, half_batch: Any):
    """The same on a machine whose links take no time, where small batches are slow."""
    machine = so.Machine(rate=rate, beta=0.0, **_FREE)
    work = so.DataParallel(
        sample_flops=1.0, gradient_bytes=0.0, state_bytes=0.0, half_batch=half_batch
    )
    return workload_time(machine, work, DataSplit(devices, batch))


def grid_of(side: Any) -> so.Halo:
    """A cube of cells; work in cells, five fields of eight bytes sent, two layers thick."""
    return so.Halo((side,) * 3, cell_flops=1.0, cell_bytes=40.0, sent_bytes=40.0, width=2)


def flow_step(
    x: Any, y: Any, z: Any, side: Any, *, rate: Any, network_beta: Any, step_overhead: Any
):
    """Seconds of an iteration on blocks of a cube of cells, one block a node."""
    machine = so.Machine(
        rate=rate,
        beta=0.0,
        network_alpha=2 * us,
        network_beta=network_beta,
        step_overhead=step_overhead,
        node_size=1,
        **_FREE,
    )
    return workload_time(machine, grid_of(side), Blocks(x, y, z))


def networks() -> pd.DataFrame:
    """Each network's rows with what is predicted for those that were not fitted."""
    table = pd.read_csv(DATA / "scale_mxnet_p2-k80_1-256gpus.csv", comment="#")
    found = []
    for name, rows in table.groupby("model"):
        each = pd.DataFrame(
            {
                "op": "step",
                "devices": rows["num_gpus"],
                "batch": rows["batch_per_gpu"],
                "size_bytes": rows["model_size_MB"] * MB,
                "work": rows["batch_per_gpu"] * rows["num_gpus"],
            }
        )
        each["time_s"] = each["work"] / rows["images_per_s"]
        start = {"rate": float(rows["images_per_s"].iloc[0]), "beta": 1e-10, "network_beta": 5e-8}
        found.append(_predicted(Partial(network_step, **start), each, each["devices"] <= 32, name))
    return pd.concat(found, ignore_index=True)


def flows() -> pd.DataFrame:
    """Each simulation's rows, likewise."""
    table = pd.read_csv(DATA / "scale_opensbli_uk-systems_strong_1-1024nodes.csv", comment="#")
    found = []
    for (case, system), rows in table.groupby(["case", "system"]):
        time = rows.groupby("nodes")["s_per_iter"].median()
        few = max(4, int(np.ceil(0.6 * len(time))))
        if len(time) < 6 or time.index[-1] < 2 * time.index[few - 1]:
            continue
        side = 1024 if "1024" in str(case) else 512
        each = pd.DataFrame({"op": "step", "devices": time.index, "time_s": time.to_numpy()})
        # As near to cubes as the number of nodes allows.
        blocks = [
            min(grid_of(side).splits(int(nodes), None, 1), key=lambda cut: max(cut) - min(cut))
            for nodes in time.index
        ]
        each[["x", "y", "z"]] = np.array(blocks)
        start = {
            "rate": side**3 / time.iloc[0] / time.index[0],
            "network_beta": 1e-10,
            "step_overhead": 1e-4,
        }
        law = Partial(flow_step, **start)
        each = each.assign(side=side, work=1.0)
        found.append(_predicted(law, each, np.arange(len(each)) < few, f"{side}³ {system}"))
    return pd.concat(found, ignore_index=True)


def small_batches() -> pd.DataFrame:
    """ResNet-50 on H100 by one submitter, likewise."""
    table = pd.read_csv(DATA / "scale_mlperf_throughput_v1.0-v5.1.half.csv", comment="#")
    chosen = (table["benchmark"] == "resnet") & (table["submitter"] == "NVIDIA")
    rows = table[chosen & table["accelerator"].str.contains("H100")].sort_values("num_accel")
    each = pd.DataFrame(
        {
            "op": "step",
            "devices": rows["num_accel"],
            "batch": rows["global_batch_size"] / rows["num_accel"],
            "work": rows["global_batch_size"],
            "time_s": rows["global_batch_size"] / rows["thr_median"],
        }
    )
    law = Partial(small_batch_step, rate=7000.0, half_batch=10.0)
    return _predicted(law, each, each["devices"] < 1000, "ResNet-50, H100")


def _predicted(law: Any, rows: pd.DataFrame, fitted: Any, name: Any) -> pd.DataFrame:
    rows = rows.reset_index(drop=True)
    fitted = np.asarray(fitted)
    fit = so.fit(law, rows[fitted])
    with jax.enable_x64(True):
        predicted = fit.predict(rows, level=0.9)
    return rows[["devices", "time_s", "work"]].assign(
        name=name,
        fitted=fitted,
        predicted_s=predicted.time,
        held=(predicted.low <= rows["time_s"]) & (rows["time_s"] <= predicted.high),
    )


def errors(rows: pd.DataFrame) -> pd.DataFrame:
    """How far what was not fitted is missed, a row for each series."""
    rest = rows[~rows["fitted"]]
    miss = 100 * (rest["predicted_s"] / rest["time_s"] - 1)
    parts = rest.assign(miss=miss, size=miss.abs()).groupby("name", sort=False)
    return pd.DataFrame(
        {
            "fitted to N": rows[rows["fitted"]].groupby("name", sort=False)["devices"].max(),
            "largest N": parts["devices"].max(),
            "points": parts.size(),
            "mean %": parts["size"].mean(),
            "at the largest %": parts["miss"].last(),
            "held": parts["held"].sum(),
        }
    )


def draw(found: dict[str, pd.DataFrame]) -> Figure:
    """Efficiency of each series against its smallest N, measured and predicted."""
    figure, axes = panels(len(found), width=13.0)
    for panel, (title, rows) in zip(axes, found.items(), strict=True):
        for _, each in rows.groupby("name", sort=False):
            each = each.sort_values("devices")
            first = each.iloc[0]
            unit = first["devices"] * first["time_s"] / first["work"]
            work = unit * each["work"] / each["devices"]
            panel.plot(each["devices"], work / each["predicted_s"], color=GREY, lw=1, zorder=1)
            for fitted, color in ((True, BLUE), (False, ORANGE)):
                part = each["fitted"] == fitted
                panel.plot(
                    each["devices"][part], (work / each["time_s"])[part], "o", color=color, ms=4
                )
        panel.set(title=title, xscale="log", xlabel="devices", ylim=(0, None))
    axes[0].set_ylabel("efficiency against the smallest N")
    axes[0].plot([], [], "o", color=BLUE, ms=4, label="fitted")
    axes[0].plot([], [], "o", color=ORANGE, ms=4, label="not fitted")
    axes[0].plot([], [], color=GREY, lw=1, label="predicted")
    axes[0].legend(frameon=False)
    return figure


if __name__ == "__main__":
    FOUND = {"networks": networks(), "simulations": flows(), "small batches": small_batches()}
    present(
        __doc__,
        "workloads_published",
        pd.concat({title: errors(rows) for title, rows in FOUND.items()}),
        lambda: draw(FOUND),
    )
