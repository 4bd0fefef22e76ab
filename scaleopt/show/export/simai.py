"""SimAI-Analytical's bus bandwidths, GB/s of 10⁹ bytes, with one line for a title.

Source: aliyun/SimAI, example/busbw.yaml, README.md and AstraParamParse.hh.
"""

from scaleopt.show.export.constants import Constants, Export
from scaleopt.units import GB

_OPS = ("allreduce", "allgather", "reducescatter", "alltoall")


def simai(found: Constants) -> Export:
    """The bandwidth of the group measured, all else null; origin and range in the title."""
    bandwidth = 1 / found.model.beta / GB
    group = "DP" if (found.nodes or 1) > 1 else "TP"
    title = "; ".join((*found.origin, f"{group} allreduce is 1/beta, beta {found.line('beta')}"))
    lines = [title]
    for name in ("TP", "DP", "EP"):
        values = [f"{bandwidth:.6g}" if name == group and op == _OPS[0] else "null" for op in _OPS]
        lines += [f"{name}:", *(f"{op},: {it}" for op, it in zip(_OPS, values, strict=True))]
    per_node = found.per_node
    servers = f" -g_p_s {per_node}" if per_node else ""
    flags = f"-nv {bandwidth:.6g}{servers}"
    if group == "DP" and per_node:
        flags = f"-nic {bandwidth / per_node:.6g} -n_p_s {per_node}{servers}"
    unsaid = (
        "no latency: SimAI's bus bandwidth holds for large messages; the rest has no place",
        f"only the all-reduce of {group}, as the rows are of "
        f"{'several nodes' if group == 'DP' else 'one node, or do not say'}; all else is left null",
        "the analytical binary as published in 2026 does not read this file; in its words: "
        + flags,
    )
    return Export("\n".join(lines) + "\nPP:\nbusbw: null\n", unsaid)
