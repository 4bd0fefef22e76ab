"""SimAI-Analytical's bus bandwidths, GB/s.

Source: aliyun/SimAI, example/busbw.yaml; its first line is a title, and it knows no comments.
"""

from scaleopt.show.export.constants import Constants, Export
from scaleopt.units import GB


def simai(found: Constants) -> Export:
    """The bandwidth of the tensor-parallel group, all else null, constants in the sidecar."""
    bandwidth = f"{1 / found.model.beta / GB:.6g}"
    lines = ["scaleopt"]
    for group in ("TP", "DP", "EP"):
        lines += [f"{group}:", f"allreduce,: {bandwidth if group == 'TP' else 'null'}"]
        lines += [f"{op},: null" for op in ("allgather", "reducescatter", "alltoall")]
    unsaid = (
        "no latency: SimAI's bus bandwidth holds for large messages",
        "only the all-reduce of TP, the group measured; DP, EP and PP are left null",
    )
    return Export("\n".join(lines) + "\nPP:\nbusbw: null\n", unsaid, found.sidecar())
