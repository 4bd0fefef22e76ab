"""XLA:GPU's flag for its speed-of-light latency estimator.

Its `nic_speed_gbps` is 10⁹ bytes a second, not bits; times are whole microseconds.
Source: openxla/xla, xla/debug_options_flags.cc and xla/service/collective_utils.h.
"""

from scaleopt.show.export.constants import Constants, Export
from scaleopt.units import GB, us


def xla(found: Constants) -> Export:
    """The flag, and the constants as comments above it."""
    model = found.model
    options = {
        "nccl_op_launch_us": f"{round(float(model.launch) / us)}",
        "nic_speed_gbps": f"{1 / model.beta / GB:.6g}",
        "rtt_us": f"{round(2 * float(model.alpha) / us)}",
    }
    if found.per_node is not None:
        options["gpus_per_node"] = f"{found.per_node}"
    unsaid = [
        "times are whole microseconds",
        "rtt_us is taken as 2 α, to a peer and back",
        "chunk_prep_us and chunk_size_bytes are not measured and stay XLA's own",
        "XLA applies these to collectives between nodes; constants of one node describe no network",
    ]
    for key, name in (("nccl_op_launch_us", "launch"), ("rtt_us", "alpha")):
        if found.named[name].provenance == "not told":
            del options[key]
            unsaid.append(f"{key}: these rows do not tell {name}; it stays XLA's own")
    if found.per_node is None:
        unsaid.append("gpus_per_node is not in these rows and stays XLA's own")
    said = [*found.comments("launch", "alpha", "beta"), *(f"not expressed: {it}" for it in unsaid)]
    flag = ",".join(f"{key}={value}" for key, value in options.items())
    lines = [*(f"# {it}" for it in said), f"--xla_gpu_analytical_latency_estimator_options={flag}"]
    return Export("\n".join(lines) + "\n", tuple(unsaid))
