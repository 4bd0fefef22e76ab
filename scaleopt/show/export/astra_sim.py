"""ASTRA-sim's analytical network YAML: latency in ns, bandwidth in "GB/s" that are GiB/s.

Source: astra-sim/astra-sim, examples/network/analytical/*.yml; and its analytical backend,
common/NetworkFunction.cpp, where 1 GB is 2³⁰ bytes.
"""

from scaleopt.show.export.constants import Constants, Export
from scaleopt.units import GiB, ns


def astra_sim(found: Constants) -> Export:
    """One ring of the devices that were measured, and the constants as comments."""
    unsaid = (
        "launch, serial_time and rate have no place",
        "wiring: the ring is the model's; let one chunk go round at a time "
        "(active-chunks-per-dimension 1), or ASTRA-sim uses both directions of it at once",
    )
    lines = [
        *found.comments(unsaid, "alpha", "beta"),
        "topology: [ Ring ]",
        f"npus_count: [ {found.devices} ]",
        f"bandwidth: [ {1 / found.model.beta / GiB:.6f} ]  # ASTRA-sim's GB/s: 2^30 B/s",
        f"latency: [ {found.model.alpha / ns:.6f} ]  # ns",
    ]
    return Export("\n".join(lines) + "\n", unsaid)
