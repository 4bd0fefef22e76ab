"""ASTRA-sim's analytical network YAML: bandwidth in GB/s, latency in ns.

Source: astra-sim/astra-sim, examples/network/analytical/*.yml.
"""

from scaleopt.show.export.constants import Constants, Export
from scaleopt.units import GB, ns


def astra_sim(found: Constants) -> Export:
    """One ring of the devices that were measured, and the constants as comments."""
    unsaid = ("launch, serial_time and rate have no place", "the ring is the model's, not wiring")
    said = [*found.comments("alpha", "beta"), *(f"not expressed: {it}" for it in unsaid)]
    lines = [
        *(f"# {it}" for it in said),
        "topology: [ Ring ]",
        f"npus_count: [ {found.devices} ]",
        f"bandwidth: [ {1 / found.model.beta / GB:.6f} ]  # GB/s",
        f"latency: [ {found.model.alpha / ns:.6f} ]  # ns",
    ]
    return Export("\n".join(lines) + "\n", unsaid)
