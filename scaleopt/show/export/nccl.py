"""The CSV that NCCL's example tuner plug-in reads: which algorithm for which sizes.

NCCL's tree is a chain inside each of n nodes of g devices and a double binary tree between them:

T_tree = 2 (g − 1 + ⌊log₂ n⌋) α + 2 β M,  T_ring = 2 (N − 1) α + 2 ((N − 1)/N) β M

so the tree is faster below M = (α/β) N (N − g − ⌊log₂ n⌋), and never on one node.
Source: NVIDIA/nccl 2.30.7, plugins/tuner/example/README.md and src/graph/tuning.cc.
"""

import math

from scaleopt.show.export.constants import Constants, Export

_LARGEST = 4294967295
"""The plug-in's own word for no limit."""


def nccl(found: Constants) -> Export:
    """All-reduce by a tree up to where the ring is faster, on as many devices as were measured."""
    devices, alpha, beta = found.devices, float(found.model.alpha), float(found.model.beta)
    per_node = min(found.per_node or 1, devices)
    nodes = math.ceil(devices / per_node)
    saved = devices - per_node - math.floor(math.log2(nodes))
    turn = alpha / beta * devices * saved
    last = min(math.floor(turn), _LARGEST) if turn >= 1 else -1
    match_nodes = -1 if found.per_node is None else nodes
    rows = []
    if last >= 0:
        rows.append(f"allreduce,0,{last},tree,simple,-1,{match_nodes},{devices}")
    if last < _LARGEST:
        rows.append(f"allreduce,{last + 1},{_LARGEST},ring,simple,-1,{match_nodes},{devices}")
    unsaid = [
        "the border of tree and ring is computed from α and β by NCCL's schedules, not measured: "
        "time both with NCCL_ALGO before you trust it",
        "protocol and channels are not measured: 'simple' is assumed, -1 keeps NCCL's channels",
        f"only all-reduce, and only on {devices} ranks; NVLS and CollNet are not compared",
    ]
    if nodes == 1:
        unsaid.insert(0, "on one node NCCL's tree is a chain and saves nothing: ring at every size")
    if found.per_node is None:
        unsaid.append("nodes are not in these rows: each rank is taken for a node")
    head = found.comments(tuple(unsaid), "alpha", "beta")
    return Export("\n".join([*head, *rows]) + "\n", tuple(unsaid))
