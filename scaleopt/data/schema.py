"""The columns of the measurement table: what each means, in which unit, and what it may hold.

A row is one timed sample. `flops` and `size_bytes` describe one operation; `time_s` is the time of
the whole program, which holds one operation (method "single") or k of them, one after another
(method "chain k"). Two lengths of chain tell the operation from what launching it costs.
"""

import re
from dataclasses import dataclass
from typing import Literal

OPS = (
    "matmul",
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "permute",
    "broadcast",
    "reduce",
    "send",
    "stream",
    "dispatch",
    "to_device",
    "from_device",
    "step",
    "train_step",
)
"""Every kind of row."""


@dataclass(frozen=True)
class Column:
    """One column: its meaning, what a cell may hold, and whether it may be empty."""

    name: str
    meaning: str
    kind: Literal["text", "op", "method", "choice", "flag", "whole", "number"]
    required: bool = False
    minimum: float = 0.0
    exclusive: bool = False
    choices: tuple[str, ...] = ()


COLUMNS = (
    Column("op", "kind of operation", "op", required=True),
    Column("devices", "devices taking part", "whole", required=True, minimum=1),
    Column("nodes", "hosts taking part", "whole", minimum=1),
    Column("flops", "FLOP of one operation, over all devices", "number"),
    Column("size_bytes", "bytes of the full, unsharded array of one operation", "number"),
    Column("moved_bytes", "bytes through memory, where that is what was measured", "number"),
    Column("injected_s", "seconds of host work that the probe added on purpose", "number"),
    Column("run", "start of the processes that measured", "whole"),
    Column("round", "pass over the plan of measurement", "whole"),
    Column("repeat", "repeat within the round", "whole"),
    Column("time_s", "seconds of the program", "number", required=True, exclusive=True),
    Column("method", "'single', or 'chain k' for k operations in the program", "method"),
    Column("foreign_load", "cores used by other processes meanwhile", "number"),
    Column("oversubscribed", "1 where devices outnumber physical cores", "flag"),
    Column("dtype", "element type", "text"),
    Column("label", "free text", "text"),
)
NAMES = tuple(column.name for column in COLUMNS)

TRAINING = (
    Column("hidden", "width of the model", "whole", minimum=1),
    Column("heads", "attention heads", "whole", minimum=1),
    Column("layers", "layers of the model", "whole", minimum=1),
    Column("seq_len", "tokens of a sequence", "whole", minimum=1),
    Column("vocab", "entries of the vocabulary", "whole", minimum=1),
    Column("global_batch", "sequences of a step, over all devices", "whole", minimum=1),
    Column("micro_batch", "sequences that go through a stage together", "whole", minimum=1),
    Column("data", "data-parallel replicas", "whole", minimum=1),
    Column("tensor", "devices that share each layer", "whole", minimum=1),
    Column("pipeline", "stages of the pipeline", "whole", minimum=1),
    Column("interleave", "chunks of layers on each stage", "whole", minimum=1),
    Column("recompute", "what is recomputed", "choice", choices=("none", "selective", "full")),
    Column("sequence_parallel", "1 where the rest of a layer is split by sequence", "flag"),
    Column("context", "devices that share each sequence", "whole", minimum=1),
    Column("zero", "ZeRO stage, 0 to 3: which states are split over the replicas", "whole"),
    Column("kv_heads", "key-value heads; the attention heads unless given", "whole", minimum=1),
    Column("feed_forward", "width of the MLP; four times hidden unless given", "whole", minimum=1),
    Column("gated", "1 where the MLP has a third matrix as gate", "flag"),
    Column("fused_attention", "1 where scores never go to memory", "flag"),
    Column("experts", "MLPs of a layer, of which a token passes some", "whole", minimum=1),
    Column("active_experts", "experts that each token passes", "whole", minimum=1),
    Column("expert", "replicas that share the experts of each layer", "whole", minimum=1),
    Column("zero_bubble", "1 where weights' gradients fill the pipeline's wait", "flag"),
)
"""Of `train_step` rows alone: the model and its split. A table has those that it needs."""

_METHOD = re.compile(r"single|chain [1-9]\d*")


def operations(method: str) -> int:
    """How many operations a program of this method holds.

    >>> operations("single"), operations("chain 8"), operations("")
    (1, 8, 1)
    """
    return int(method.removeprefix("chain ")) if method.startswith("chain ") else 1


def complaint(column: Column, text: str) -> str | None:
    """What is wrong with a cell, as a rule and a remedy; None for a good one.

    >>> complaint(NAMED["time_s"], "-1")
    'time_s is -1; it must be above 0: drop the row or measure it again'
    """
    if text == "":
        if column.required:
            return f"{column.name} is empty; every row needs one: {column.meaning}"
        return None
    if column.kind == "text":
        return (
            f"{column.name} holds a line break; write it on one line"
            if {"\n", "\r"} & set(text)
            else None
        )
    if column.kind == "op":
        known = ", ".join(OPS)
        return None if text in OPS else f"op {text!r} is not known; use one of {known}"
    if column.kind == "method":
        rule = "method must be 'single' or 'chain k' with k operations in the program"
        return None if _METHOD.fullmatch(text) else f"{rule}, and is {text!r}"
    if column.kind == "choice":
        known = ", ".join(column.choices)
        return (
            None if text in column.choices else f"{column.name} is {text!r}; write one of {known}"
        )
    if column.kind == "flag":
        return None if text in ("0", "1") else f"{column.name} is {text!r}; write 0 or 1"
    return _number_complaint(column, text)


def _number_complaint(column: Column, text: str) -> str | None:
    """What is wrong with a number."""
    try:
        value = float(text)
    except ValueError:
        return (
            f"{column.name} is {text!r}, not a plain number; "
            f"write {column.meaning} in SI units, without the unit"
        )
    remedy = "drop the row or measure it again"
    if not abs(value) < float("inf"):
        return f"{column.name} is {text}; it must be finite: {remedy}"
    if value < column.minimum or (column.exclusive and value == column.minimum):
        bound = f"above {column.minimum:g}" if column.exclusive else f"{column.minimum:g} or more"
        return f"{column.name} is {text}; it must be {bound}: {remedy}"
    if column.kind == "whole" and value != int(value):
        return f"{column.name} is {text}; it must be a whole number"
    return None


NAMED = {column.name: column for column in (*COLUMNS, *TRAINING)}
"""The columns by name."""
