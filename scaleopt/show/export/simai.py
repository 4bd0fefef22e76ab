"""SimAI-Analytical's bus bandwidths, GB/s of 10⁹ bytes, with one line for a title.

Source: aliyun/SimAI, example/busbw.yaml, README.md and AstraParamParse.hh.
"""

from scaleopt.show.export.constants import Constants, Export
from scaleopt.units import GB


def simai(found: Constants) -> Export:
    """The bandwidth of the tensor-parallel group, all else null; origin and range in the title."""
    bandwidth = f"{1 / found.model.beta / GB:.6g}"
    title = "; ".join((*found.origin, f"TP allreduce is 1/beta, beta {found.line('beta')}"))
    lines = [title]
    for group in ("TP", "DP", "EP"):
        lines += [f"{group}:", f"allreduce,: {bandwidth if group == 'TP' else 'null'}"]
        lines += [f"{op},: null" for op in ("allgather", "reducescatter", "alltoall")]
    servers = f" -g_p_s {found.per_node}" if found.per_node else ""
    unsaid = (
        "no latency: SimAI's bus bandwidth holds for large messages; the rest has no place",
        "only the all-reduce of TP, the group measured; DP, EP and PP are left null",
        "the analytical binary as published in 2026 does not read this file; in its words: "
        f"-nv {bandwidth}{servers}",
    )
    return Export("\n".join(lines) + "\nPP:\nbusbw: null\n", unsaid)
