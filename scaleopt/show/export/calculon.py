"""The parts of a Calculon system JSON that a fit knows; GB/s of 10⁹ bytes, seconds, TFLOP/s.

Source: calculon-ai/calculon, systems/*.json and calculon/network.py.
"""

import json

from scaleopt.show.export.constants import Constants, Export, compute_rate
from scaleopt.units import GB, TFLOP


def calculon(found: Constants) -> Export:
    """The matrix engine and one network, with the constants in the sidecar."""
    rate, unsaid = compute_rate(found), []
    system: dict[str, object] = {"processing_mode": "no_overlap"}
    if rate is not None:
        every_size = {"float16": [[0, 1.0]]}
        system["matrix"] = {"tflops": rate / TFLOP, "gflops_efficiency": every_size}
    else:
        unsaid.append("matrix: the rate is not told by these rows; fill it in")
    network = {
        "bandwidth": 1 / found.model.beta / GB,
        "efficiency": 1.0,
        "size": found.devices,
        "latency": found.model.alpha,
        "ops": {"p2p": 1.0, "reduce_scatter": 1.0, "all_gather": 1.0, "all_reduce": 2.0},
        "collective_minus1_scalar": True,
        "must_be_filled": True,
        "processor_usage": 0.0,
    }
    system["networks"] = [network]
    unsaid += [
        "vector, mem1 and mem2 are not measured: fill them in before Calculon reads the file",
        "Calculon pays latency once a collective, a ring 2(N − 1) times: small ones come too fast",
        "launch and serial_time have no place",
    ]
    return Export(json.dumps(system, indent=2) + "\n", tuple(unsaid), found.sidecar())
