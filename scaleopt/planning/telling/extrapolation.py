"""Where a plan leaves what was measured."""

from typing import TYPE_CHECKING

from scaleopt.models.parallelism import Parallelism
from scaleopt.models.transformer import RECOMPUTE
from scaleopt.planning.searching.configuration import Configuration

if TYPE_CHECKING:
    import pandas as pd


def extrapolations(best: Configuration) -> list[str]:
    """Where the configuration lies outside of what the fit has seen."""
    fit = best.offer.fit
    if fit is None:
        return []
    rows, said, split = fit.rows, [], best.split
    axes = ("data", "tensor", "pipeline", "context", "expert", "micro_batch", "interleave")
    for name in ("devices", *(axes if isinstance(split, Parallelism) else ())):
        used = best.devices if name == "devices" else int(getattr(split, name))
        most = rows[name].max() if name in rows else 1
        if used > most:
            said.append(f"{name} {used}: at most {most:g} in the rows fitted")
    if isinstance(split, Parallelism):
        said += _options(split, rows)
    node = best.offer.node_size
    if best.devices > node > 1 and bool((rows["devices"] <= node).all()):
        said.append(
            f"{best.devices} devices lie across nodes of {node}, and every row fitted was on one: "
            "nothing measured tells of the network"
        )
    return said


def _options(split: Parallelism, rows: "pd.DataFrame") -> list[str]:
    """What a transformer's split does that no row did."""
    said, recompute = [], RECOMPUTE[int(split.recompute)]
    tried = set(rows["recompute"].dropna()) if "recompute" in rows else {"none"}
    if recompute not in tried:
        said.append(f"recompute {recompute}: not in the rows fitted")
    for name in ("sequence_parallel", "zero_bubble"):
        if getattr(split, name) and not (name in rows and rows[name].any()):
            said.append(f"{name.replace('_', ' ')}: not in the rows fitted")
    return said
