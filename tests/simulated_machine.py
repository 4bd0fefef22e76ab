"""A machine whose constants are known, and training runs that it would take with some noise."""

from dataclasses import replace

import numpy as np
import pandas as pd

from scaleopt.models.machine import Machine
from scaleopt.models.parallelism import Parallelism
from scaleopt.models.transformer import Transformer

MACHINE = Machine(
    rate=250e12,
    bandwidth=1.5e12,
    alpha=8e-6,
    beta=1 / 200e9,
    network_alpha=2e-5,
    network_beta=1 / 20e9,
    grain=60.0,
    kernel=1e-4,
    host=5e-4,
    step_overhead=0.01,
)
NOISE = 0.03


def without_habits(fit):
    """A fit of training runs by which every run takes what the machine says."""
    scales = fit.misses.scales.copy()
    scales[[0, 2, 4]] = 0.0
    return replace(fit, misses=fit.misses._replace(scales=scales))


def training_runs(machine, count=30):
    """Steps of three models on up to 16 devices, drawn once and for all."""
    draw = np.random.default_rng(0)
    rows = []
    for _ in range(count):
        hidden, layers = draw.choice([(1024, 12), (2048, 24), (3072, 16)])
        tensor, pipeline, data = (int(n) for n in draw.choice([1, 2, 4], 3))
        if tensor * pipeline * data > 16:
            data = 1
        row = {
            "hidden": int(hidden),
            "heads": 16,
            "layers": int(layers),
            "seq_len": 1024,
            "vocab": 51200,
            "tensor": tensor,
            "pipeline": pipeline,
            "data": data,
            "devices": tensor * pipeline * data,
            "micro_batch": int(draw.choice([1, 2, 4])),
            "global_batch": 64,
            "recompute": str(draw.choice(["none", "full"])),
        }
        sizes = {name: row[name] for name in ("hidden", "heads", "layers", "seq_len", "vocab")}
        axes = {name: row[name] for name in ("data", "tensor", "pipeline", "micro_batch")}
        split = Parallelism(
            **axes,
            accumulation=64 // (data * row["micro_batch"]),
            recompute=row["recompute"],
        )
        time = float(machine(Transformer(**sizes), split)) * np.exp(draw.normal(0, NOISE))
        rows.append(row | {"op": "train_step", "time_s": time})
    return pd.DataFrame(rows)
