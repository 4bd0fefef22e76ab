"""What probe rows tell of a machine, before its training steps are looked at.

Matrix products tell the rate, streams the memory's bandwidth, all-reduces inside a node and across
nodes the links, each by the formula of `Machine` itself and with a launch of its own. What a probe
reaches a training step reaches only about: its products are of other shapes, its links are shared
with what the device does meanwhile. So what is told becomes a prior of the constants, as wide as
the probe's own uncertainty and that difference together.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax import Array

from scaleopt.data.schema import OPS
from scaleopt.fitting.columns import columns_of
from scaleopt.fitting.estimate import estimate
from scaleopt.fitting.fit import check_rows
from scaleopt.fitting.parameters import free_parameters
from scaleopt.fitting.prior import Prior
from scaleopt.fitting.train_step_rows import NODE_SIZE
from scaleopt.models.machine import Machine
from scaleopt.models.parallelism import Parallelism
from scaleopt.units import BytesPerSecond, Count, FlopsPerSecond, Seconds, SecondsPerByte

PROBED = ("matmul", "stream", "all_reduce")
"""The kinds of rows that tell of a machine beside its training steps."""
_NEEDED = {"matmul": "flops", "stream": "moved_bytes", "all_reduce": "size_bytes"}
_APART = {
    "rate": 1.15,
    "bandwidth": 1.3,
    "alpha": 5.0,
    "beta": 1.5,
    "network_alpha": 5.0,
    "network_beta": 1.3,
}
"""The factor by which a constant of training steps may be off that of a probe. Assumed, and widest
for latencies: members of a group that computes come late to a collective, in a probe they wait."""
_LAUNCH = Prior(1e-5, 5.0)
_COLUMNS = ("op", "devices", "flops", "size", "moved_bytes", "operations")


class Probed(eqx.Module):
    """The constants of a machine that probes see, and what launching a program costs."""

    rate: FlopsPerSecond
    bandwidth: BytesPerSecond
    alpha: Seconds
    beta: SecondsPerByte
    network_alpha: Seconds
    network_beta: SecondsPerByte
    launch: Seconds
    node_size: Count


class ObserveProbe(eqx.Module):
    """Seconds of each row of a probe."""

    def __call__(self, model: Probed, columns: dict[str, Array]) -> Array:
        """The seconds of each row."""
        op, devices, count = (columns[name] for name in ("op", "devices", "operations"))
        machine = Machine(
            **{name: getattr(model, name) for name in _APART}, node_size=columns["node_size"]
        )
        reduced = machine.ring(Parallelism(), devices, 1, columns["size"])
        each = jnp.select(
            [op == OPS.index("matmul"), op == OPS.index("stream")],
            [
                columns["flops"] / (devices * model.rate),
                columns["moved_bytes"] / (devices * model.bandwidth),
            ],
            reduced,
        )
        return jnp.asarray(model.launch + count * each)


def probe_priors(
    table: pd.DataFrame, priors: dict[str, Prior]
) -> tuple[dict[str, Prior], tuple[str, ...]]:
    """What rows of a probe tell of constants, as priors of those of training steps.

    Args:
        table: rows of any kind; those of `PROBED` are used.
        priors: what is known before of the constants.

    Returns:
        The constants that the rows tell, and a sentence on them.

    Raises:
        ValueError: a missing column or cell.
    """
    rows = table[table["op"].isin(PROBED)].copy()
    if "moved_bytes" in rows:
        # Narrow products are limited by memory, small streams by caches.
        largest = rows["size_bytes"] if "size_bytes" in rows else rows["moved_bytes"]
        stream = rows["op"] == "stream"
        small = stream & (largest < largest[stream].max())
        rows = rows[~small & ~((rows["op"] == "matmul") & rows["moved_bytes"].notna())]
    if rows.empty:
        return {}, ()
    for name in {"flops", "size_bytes", "moved_bytes"} - set(rows):
        rows[name] = np.nan
    for kind, needed in _NEEDED.items():
        if (rows["op"] == kind).any():
            check_rows(rows[rows["op"] == kind], ["time_s", "devices", needed])
    devices = rows["devices"].to_numpy(float)
    blank = pd.Series(np.nan, index=rows.index)
    nodes = rows["nodes"].to_numpy(float) if "nodes" in rows else blank.to_numpy()
    nodes = np.where(np.isnan(nodes), np.ceil(devices / NODE_SIZE), nodes)
    size = np.where(nodes > 1, devices / nodes, np.maximum(devices, NODE_SIZE))
    told = _told(rows, nodes > 1)
    places = {name: priors[name].value for name in _APART}
    start = Probed(**places, launch=_LAUNCH.value, node_size=int(NODE_SIZE))
    parameters = free_parameters(start, tuple(name for name in _APART if name not in told))
    columns: dict[str, Any] = columns_of(rows, _COLUMNS) | {"node_size": size}
    known = {name: priors[name] for name in told} | {"launch": _LAUNCH}
    found = estimate(ObserveProbe(), parameters, rows, columns, priors=known)
    if found.failure:
        return {}, (f"The rows of {_list(rows)} tell nothing of the machine: {found.failure}.",)
    deviation = dict(zip(parameters.names, found.covariance.deviation, strict=True))
    learnt = {
        name: Prior(
            float(getattr(found.model, name)),
            float(np.exp(np.hypot(deviation[name], np.log(_APART[name])))),
        )
        for name in told
    }
    return learnt, (f"Rows of {_list(rows)} tell {', '.join(told)}, before the training steps.",)


def _told(rows: pd.DataFrame, across: np.ndarray) -> list[str]:
    """The constants that some row depends on."""
    op = rows["op"].to_numpy()
    reduced = (op == "all_reduce") & (rows["devices"].to_numpy() > 1)
    seen = {
        "rate": op == "matmul",
        "bandwidth": op == "stream",
        "alpha": reduced & ~across,
        "beta": reduced & ~across,
        "network_alpha": reduced & across,
        "network_beta": reduced & across,
    }
    return [name for name, some in seen.items() if some.any()]


def _list(rows: pd.DataFrame) -> str:
    return ", ".join(sorted(set(rows["op"])))
