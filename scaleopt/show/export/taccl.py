"""TACCL's link profile of one node: α in µs, β in µs for each MB.

Source: microsoft/taccl, INPUT_GUIDE.md and taccl/examples/topo/*.json.
"""

import json

from scaleopt.show.export.constants import Constants, Export
from scaleopt.units import MB, us


def taccl(found: Constants) -> Export:
    """A profile for inputs of 1 MB, with the constants in the sidecar."""
    alpha, beta = found.model.alpha / us, found.model.beta * MB / us
    profile = {
        "name": "scaleopt_1MB",
        "gpus_per_node": found.per_node or found.devices,
        "alpha": alpha,
        "node_betas_list": [beta],
        "node_invbws_list": [alpha + beta],
    }
    unsaid = (
        "nics_per_node and the remote_ costs are not measured apart: add them for several nodes",
        "betas are for an input of 1 MB: multiply by yours; TACCL rounds costs to whole numbers",
    )
    return Export(json.dumps(profile, indent=2) + "\n", unsaid, found.sidecar())
