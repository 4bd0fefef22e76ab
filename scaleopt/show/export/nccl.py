"""The CSV that NCCL's example tuner plug-in reads: which algorithm for which sizes.

Source: NVIDIA/nccl, ext-tuner/example/README.md.
"""

import math

from scaleopt.planning.algorithm import crossover_size
from scaleopt.show.export.constants import Constants, Export

_LARGEST = 4294967295
"""The plug-in's own word for no limit."""


def nccl(found: Constants) -> Export:
    """All-reduce by a tree up to where the ring is faster, on as many devices as were measured."""
    model = found.model
    turn = crossover_size(
        "double_binary_tree", "ring", found.devices, float(model.alpha), float(model.beta)
    )
    last = min(math.floor(turn), _LARGEST) if math.isfinite(turn) and turn > 0 else -1
    nodes = -1 if found.per_node is None else math.ceil(found.devices / found.per_node)
    rows = []
    if last >= 0:
        rows.append(f"allreduce,0,{last},tree,simple,-1,{nodes},{found.devices}")
    if last < _LARGEST:
        rows.append(f"allreduce,{last + 1},{_LARGEST},ring,simple,-1,{nodes},{found.devices}")
    unsaid = (
        "tree against ring is reckoned from α and β, not measured",
        "protocol and channels are not measured: 'simple' is assumed, -1 keeps NCCL's channels",
        f"only all-reduce, and only on {found.devices} ranks",
    )
    said = [*found.comments("alpha", "beta"), *(f"not expressed: {it}" for it in unsaid)]
    return Export("\n".join([*(f"# {it}" for it in said), *rows]) + "\n", unsaid)
