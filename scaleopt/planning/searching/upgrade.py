"""What a better machine would be worth to a step: each of its times and rates a tenth better.

To first order that is also what it is worth to a plan: near its best a plan loses little by not
being chosen anew.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from scaleopt.models.workload_time import AnyMachine

BETTER = 1.1
"""How many times better a constant is."""
NAMES = {
    "rate": "rate of matrix products",
    "bandwidth": "memory bandwidth",
    "alpha": "latency in a node",
    "beta": "bandwidth in a node",
    "network_alpha": "latency between nodes",
    "network_beta": "bandwidth between nodes",
    "kernel": "fixed time of kernels",
    "host": "launch time of the host",
    "jitter": "lateness of hosts",
    "micro_batch_overhead": "overhead of a micro-batch",
    "step_overhead": "overhead of a step",
    "serial_time": "serial time",
    "launch": "launch time",
}
"""The constants that are times or rates, of all machines, as a person would call them."""
LINKS = {"alpha": "latency of links", "beta": "bandwidth of links"}
"""The same where links inside a node and between nodes are not told apart."""
_RATES = ("rate", "bandwidth")


def upgrades(machine: AnyMachine, seconds: Callable[[Any], np.ndarray]) -> dict[str, float]:
    """The share of a step that each constant saves where it is a tenth better.

    Args:
        machine: of plain numbers.
        seconds: from a machine of arrays, the seconds of a step on each.

    Returns:
        By the name of the constant, the largest first.
    """
    constants = [name for name in NAMES if hasattr(machine, name)]
    varied = {}
    for place, name in enumerate(constants, start=1):
        value = float(getattr(machine, name))
        varied[name] = np.full(len(constants) + 1, value)
        varied[name][place] = value * (BETTER if name in _RATES else 1 / BETTER)
    found = np.asarray(seconds(replace(machine, **varied)))
    saved = 1 - found[1:] / found[0]
    order = np.argsort(-saved, kind="stable").tolist()
    return {constants[place]: float(saved[place]) for place in order}
