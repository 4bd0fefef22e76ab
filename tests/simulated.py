"""Tables simulated from a machine whose constants are known."""

import numpy as np
import pandas as pd

RATE, ALPHA, BETA, SERIAL_TIME = 120e12, 8e-6, 1 / 25e9, 0.0167
NOISE = 0.03


def step_seconds(devices, flops, size):
    """The model written out once more, in plain NumPy."""
    hops = devices - 1
    return (
        SERIAL_TIME + flops / (devices * RATE) + 2 * hops * ALPHA + 2 * hops / devices * BETA * size
    )


def table(
    seed,
    *,
    works=(1e13, 1e14, 1e15),
    sizes=(1e6, 1e8, 1e10),
    reduced=(1e3, 1e5, 1e7, 1e9),
    wild=0.0,
):
    """The 240 rows: every work, size and N of steps, all-reduces beside them, five repeats each.

    A share `wild` of the rows takes three times as long.
    """
    rows = [
        ("step", devices, flops, size, repeat)
        for flops in works
        for size in sizes
        for devices in (1, 2, 4, 8)
        for repeat in range(5)
    ] + [
        ("all_reduce", devices, 0.0, size, repeat)
        for size in reduced
        for devices in (2, 4, 8)
        for repeat in range(5)
    ]
    frame = pd.DataFrame(rows, columns=["op", "devices", "flops", "size_bytes", "repeat"])
    truth = step_seconds(frame["devices"], frame["flops"], frame["size_bytes"])
    alone = truth - SERIAL_TIME - frame["flops"] / (frame["devices"] * RATE)
    truth = truth.where(frame["op"] == "step", alone)
    random = np.random.default_rng(seed)
    time = truth * np.exp(random.normal(0, NOISE, len(frame)))
    slow = random.random(len(frame)) < wild
    return frame.assign(time_s=time.where(~slow, 3 * time))
