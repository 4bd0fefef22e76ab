"""The parts of a Calculon system JSON that a fit knows; GB/s of 10⁹ bytes, seconds, TFLOP/s.

Calculon reckons a collective as latency + M' / (bandwidth · efficiency), once, with M' = s M (1 +
o/N) from the scalar s and the offset o of its operation: 2 and −1 give a ring's all-reduce.
Source: calculon-ai/calculon, calculon/network.py, processor.py, system.py, and systems/*.json.
"""

import json

from scaleopt.show.export.constants import Constants, Export, compute_rate
from scaleopt.units import GB, TFLOP

_DTYPES = ("float8", "float16", "float32", "bfloat16")


def calculon(found: Constants) -> Export:
    """The matrix engine and one network; a key that Calculon passes over says where from."""
    rate, unsaid = compute_rate(found), []
    system: dict[str, object] = {"processing_mode": "no_overlap"}
    if rate is not None:
        dtype = found.dtype if found.dtype in _DTYPES else "float16"
        if dtype != found.dtype:
            measured = found.dtype or "a type that the rows do not say"
            unsaid.append(f"the rate of {dtype}: it was measured in {measured}")
        system["matrix"] = {dtype: {"tflops": rate / TFLOP, "gflops_efficiency": [[0, 1.0]]}}
    else:
        unsaid.append("matrix: the rate is not told by these rows; fill it in")
    launch = found.model.launch if found.told("launch") else 0.0
    network = {
        "bandwidth": 1 / found.model.beta / GB,
        "efficiency": 1.0,
        "size": found.devices,
        "latency": float(launch + 2 * (found.devices - 1) * found.model.alpha),
        "ops": {
            "p2p": [1.0, None],
            "reduce_scatter": [1.0, -1],
            "all_gather": [1.0, -1],
            "all_reduce": [2.0, -1],
        },
        "must_be_filled": True,
        "processor_usage": 0.0,
    }
    system["networks"] = [network]
    unsaid += [
        "vector, mem1 and mem2 are not measured: fill them in before Calculon reads the file",
        "latency per hop: Calculon pays it once a collective, so it is that of an all-reduce over "
        f"all {found.devices} devices, launch included, and too long for fewer and for p2p",
        "serial_time has no place; processor_usage is not measured and 0",
    ]
    system["scaleopt"] = found.beside(tuple(unsaid))
    return Export(json.dumps(system, indent=2, ensure_ascii=False) + "\n", tuple(unsaid))
