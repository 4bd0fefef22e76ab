"""What a better machine would be worth to a step: each of its constants a tenth better, in turn.

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
    "rate": "rate of products",
    "bandwidth": "memory bandwidth",
    "alpha": "latency in a node",
    "beta": "bandwidth in a node",
    "network_alpha": "latency between nodes",
    "network_beta": "bandwidth between nodes",
    "host": "launches of the host",
    "serial_time": "serial time",
    "launch": "launches",
}
"""The constants that can be had better, of all machines; those of a step time are of any link."""
_LINKS = {"alpha": "latency of links", "beta": "bandwidth of links"}
_RATES = ("rate", "bandwidth")


def upgrades(
    machine: AnyMachine, seconds: Callable[[Any], np.ndarray], *, several_links: bool
) -> dict[str, float]:
    """The share of a step that each constant saves where it is a tenth better.

    Args:
        machine: of plain numbers.
        seconds: from a machine of arrays, the seconds of a step on each.
        several_links: whether links inside a node and between nodes are told apart.

    Returns:
        By what a person calls the constant, the largest first.
    """
    constants = [name for name in NAMES if hasattr(machine, name)]
    varied = {}
    for place, name in enumerate(constants, start=1):
        value = float(getattr(machine, name))
        varied[name] = np.full(len(constants) + 1, value)
        varied[name][place] = value * (BETTER if name in _RATES else 1 / BETTER)
    found = np.asarray(seconds(replace(machine, **varied)))
    saved = 1 - found[1:] / found[0]
    names = NAMES if several_links else NAMES | _LINKS
    order = np.argsort(-saved, kind="stable").tolist()
    return {names[constants[place]]: float(saved[place]) for place in order}
