"""TACCL's link profile of one node: α in µs, β in µs for each MB.

Source: microsoft/taccl, INPUT_GUIDE.md, taccl/topologies/generic.py, taccl/examples/topo/*.json.
"""

import json

from scaleopt.show.export.constants import Constants, Export
from scaleopt.units import MB, us


def taccl(found: Constants) -> Export:
    """A profile for inputs of 1 MB; a key that TACCL passes over says where it is from."""
    alpha, beta = found.model.alpha / us, found.model.beta * MB / us
    unsaid = [
        "nics_per_node and the remote_ costs are not measured apart: -1 is TACCL's own word for "
        "none, and serves on one node; put in your network's for several",
        "betas are for an input of 1 MB: multiply by yours; TACCL rounds costs to whole numbers, "
        "so scale all of them up where they are small",
        "wiring: every link is as fast as the ring's; launch, serial_time and rate have no place",
    ]
    if (found.nodes or 1) > 1:
        unsaid.insert(
            0,
            "one node alone: these rows are of several, and their costs are those of the slowest "
            "link between them; fit rows of one node for the links inside it",
        )
    profile = {
        "name": "scaleopt_1MB",
        "gpus_per_node": found.per_node or found.devices,
        "nics_per_node": -1,
        "alpha": alpha,
        "node_betas_list": [beta],
        "node_invbws_list": [alpha + beta],
        "remote_alpha": -1,
        "remote_beta": -1,
        "remote_invbw": -1,
        "scaleopt": found.beside(tuple(unsaid)),
    }
    return Export(json.dumps(profile, indent=2, ensure_ascii=False) + "\n", tuple(unsaid))
