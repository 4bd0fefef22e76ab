"""XLA:GPU's options of its speed-of-light latency estimator, for collectives between nodes.

XLA reckons an all-reduce of M bytes over N devices, g of them on each node and each with a port, as

T = nccl_op_launch + 2 (N − 1)/g · (1.025 (M/N)/nic_speed + ⌈(M/N)/chunk_size⌉ chunk_prep + rtt)

so that nic_speed = 1.025/(g β) and, with one chunk of any size, rtt = g α − chunk_prep give the
ring of the fit. `nic_speed_gbps` is 10⁹ bytes a second, not bits; times are whole microseconds,
and XLA passes over a 0. Source: openxla/xla, xla/service/gpu/model/sol_gpu_cost_model.cc and
xla/service/collective_utils.h.
"""

from scaleopt.show.export.constants import Constants, Export
from scaleopt.units import GB, Scalar, TiB, us

_HEADER_OVERHEAD = 1.025
_CHUNK_PREP_US = 1


def xla(found: Constants) -> Export:
    """The flag, and the constants as comments above it."""
    model, per_node = found.model, found.per_node or 1
    options = {"nic_speed_gbps": f"{_HEADER_OVERHEAD / (per_node * model.beta) / GB:.6g}"}
    unsaid = []
    if found.nodes == 1:
        unsaid.append(
            "a network: these rows are of one node, and XLA uses the options between nodes only; "
            "fit rows of several nodes before you set them"
        )
    unsaid.append("times below a microsecond: XLA takes whole ones, from 1 up")
    if found.told("launch"):
        options["nccl_op_launch_us"] = f"{_whole(model.launch / us)}"
    else:
        unsaid.append("nccl_op_launch_us: these rows do not tell launch; it stays XLA's own")
    if found.told("alpha"):
        options["rtt_us"] = f"{_whole(per_node * model.alpha / us - _CHUNK_PREP_US)}"
        options["chunk_prep_us"] = f"{_CHUNK_PREP_US}"
        options["chunk_size_bytes"] = f"{int(TiB)}"
        unsaid.append(
            "chunks: rtt_us and chunk_prep_us together are the fit's α of each step, and "
            "chunk_size_bytes is set so that every message is one chunk"
        )
    else:
        unsaid.append("rtt_us: these rows do not tell alpha; it and the chunks stay XLA's own")
    if found.per_node is not None:
        options["gpus_per_node"] = f"{found.per_node}"
    else:
        unsaid.append("gpus_per_node is not in these rows: each device is taken for a node")
    unsaid += ["serial_time and rate have no place", "all-to-all is reckoned by XLA's own formula"]
    flag = ",".join(f"{key}={value}" for key, value in options.items())
    head = found.comments(tuple(unsaid), "launch", "alpha", "beta")
    lines = [*head, f"--xla_gpu_analytical_latency_estimator_options={flag}"]
    return Export("\n".join(lines) + "\n", tuple(unsaid))


def _whole(microseconds: Scalar) -> int:
    return max(1, round(float(microseconds)))
