"""A model, a machine and a run that tests of the planner start from."""

from dataclasses import replace
from typing import Any

import simulated_machine

from scaleopt.models.transformer import Transformer
from scaleopt.units import GB, hour

MACHINE = replace(simulated_machine.MACHINE, micro_batch_overhead=1e-3, node_size=4)


def gpt(**changes):
    sizes: dict[str, Any] = {"hidden": 2048, "layers": 24, "heads": 16, "seq_len": 1024}
    sizes |= {"vocab": 51200}
    return Transformer(**(sizes | changes))


COMMON: dict[str, Any] = {
    "devices": 64,
    "global_batch": 256,
    "memory": 40 * GB,
    "price": 2 / hour,
    "tokens": 1e10,
}
