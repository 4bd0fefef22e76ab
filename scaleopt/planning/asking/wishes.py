"""What a user may ask of a plan: refused with a sentence where it cannot be."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from scaleopt.models.machine import Machine
from scaleopt.models.memory import ZERO_STAGES, Precision
from scaleopt.models.transformer import RECOMPUTE, Transformer
from scaleopt.planning.asking.given import (
    above_0,
    check_constants,
    number,
    whole_number,
    whole_numbers,
)
from scaleopt.planning.asking.goal import OBJECTIVES, Limits, Run
from scaleopt.planning.asking.offer import Offer
from scaleopt.planning.searching.layouts import SCHEDULES, Bounds
from scaleopt.planning.searching.options import Options

T = TypeVar("T")

_WHOLE = (
    "hidden",
    "layers",
    "heads",
    "kv_heads",
    "head_size",
    "seq_len",
    "vocab",
    "experts",
    "active_experts",
)


_FEWEST_DRAWS = 16
_MEMBERS = ("splits", "samples", "work", "memory", "sample_flops")
_OF_TRANSFORMERS: dict[str, Any] = {
    "tokens": None,
    "max_micro_batch": None,
    "max_context": None,
    "max_expert": None,
    "schedule": Bounds().schedules,
    "recompute": RECOMPUTE,
    "sequence_parallel": (False, True),
    "zero": ZERO_STAGES,
    "precision": None,
}
"""What is asked of a transformer alone, with its default."""


def check_workload(workload: Any, asked: Sequence[Any]) -> None:
    """Refuse what cannot be planned, and wishes that only a transformer has.

    Args:
        workload: what is planned.
        asked: those wishes, in the order of `_OF_TRANSFORMERS`.
    """
    if any(not hasattr(workload, member) for member in _MEMBERS):
        raise TypeError(
            f"a plan is made for a Transformer, not for a {type(workload).__name__}; or for other "
            "work that says how it is split, such as so.DataParallel, so.Halo or so.ShardedMatmul"
        )
    for (name, default), value in zip(_OF_TRANSFORMERS.items(), asked, strict=True):
        if value is not default and value != default:
            other = "; give samples=… instead" if name == "tokens" else "; leave it out"
            raise ValueError(
                f"{name} is of a Transformer, not of a {type(workload).__name__}{other}"
            )


def check_machines(offers: Sequence[Offer]) -> None:
    """Refuse what tells nothing of a transformer's layers, or cannot hold one."""
    for offer in offers:
        if not isinstance(offer.model, Machine):
            raise TypeError(
                "a Transformer is planned on a Machine or a fit of one, not on a "
                f"{type(offer.model).__name__}; calibrate on rows of kind train_step, or write "
                "so.Machine(rate=…, …)"
            )
        if offer.fit is None:
            check_constants(offer.model)


def check_model(model: Transformer) -> None:
    """Refuse what is no transformer of plain whole numbers."""
    for name in _WHOLE:
        value = getattr(model, name)
        if np.ndim(value):
            raise ValueError(f"{name} has {np.size(value)} values; a plan is made for one model")
        whole_number(name, value)


def check_precision(precision: Any) -> None:
    """Refuse bytes that cannot be."""
    if not isinstance(precision, Precision):
        raise TypeError(f"precision is {precision!r}; give so.Precision(weight=…, …), in bytes")
    for name, value in vars(precision).items():
        if not number(f"precision: {name}", value, "B") >= 0:
            raise ValueError(f"precision: {name} is {value} B; it must be 0 or more")


def check_draws(draws: int, level: float) -> None:
    """Refuse a number of machines or a level that cannot be."""
    if whole_number("draws", draws) < _FEWEST_DRAWS:
        raise ValueError(
            f"draws is {draws}; odds need {_FEWEST_DRAWS} machines at the least, and 256 are usual"
        )
    if not 0 < number("level", level) < 1:
        raise ValueError(f"level is {level}; it is a share between 0 and 1, such as 0.9")


def batches_of(global_batch: int | Iterable[int] | None) -> np.ndarray:
    """The global batches as an array.

    Raises:
        ValueError: none, or one that is no whole number above 0.
    """
    if global_batch is None:
        raise ValueError("global_batch is needed: the sequences of a step, or several of them")
    return whole_numbers("global_batch", global_batch)


def options_of(
    recompute: Sequence[str], sequence_parallel: Sequence[bool], zero: Sequence[int]
) -> Options:
    """The options to try, in an order that does not depend on how they are given.

    Raises:
        ValueError: none, or one that is not known.
    """
    return Options(
        _known("recompute", recompute, RECOMPUTE),
        _known("sequence_parallel", sequence_parallel, (False, True)),
        _known("zero", zero, ZERO_STAGES),
    )


def bounds_of(
    max_micro_batch: int | None,
    max_context: int | None,
    max_expert: int | None,
    schedule: Sequence[str],
) -> Bounds:
    """What is not tried of what would divide.

    Raises:
        ValueError: a bound below 1, or a schedule that is not known.
    """
    bounds = {
        "max_micro_batch": max_micro_batch,
        "max_context": max_context,
        "max_expert": max_expert,
    }
    for name, most in bounds.items():
        if most is not None:
            whole_number(name, most)
    known = _known("schedule", schedule, SCHEDULES)
    return Bounds(max_micro_batch, max_context, max_expert, known)


def _known(name: str, given: Iterable[T], known: tuple[T, ...]) -> tuple[T, ...]:
    """The choices in the order of those that are known."""
    several = isinstance(given, Iterable) and not isinstance(given, str)
    choices = list(given) if several else []
    if not choices:
        raise ValueError(f"{name}={given!r}: give those to try, such as {known}")
    wrong = [choice for choice in choices if choice not in known]
    if wrong:
        raise ValueError(f"{name} holds {wrong[0]!r}; known are {known}")
    return tuple(choice for choice in known if choice in choices)


def check_goal(
    objective: str,
    run: Run,
    limits: Limits,
    offers: Sequence[Offer],
    batches: np.ndarray,
    reserve: float,
) -> None:
    """Refuse an objective or a limit that cannot be, or that lacks what it is counted from."""
    if objective not in OBJECTIVES:
        raise ValueError(
            f"objective={objective!r} is not known; use one of {', '.join(OBJECTIVES)}"
        )
    units = {"budget": "USD", "deadline": "s"}
    for name, unit in units.items():
        if not number(name, getattr(limits, name), unit) > 0:
            raise ValueError(f"{name} is {getattr(limits, name)} {unit}; it must be above 0")
    for name in ("min_mfu", "min_efficiency"):
        if not 0 <= number(name, getattr(limits, name)) <= 1:
            raise ValueError(f"{name} is {getattr(limits, name)}; it is a share between 0 and 1")
    if not 0 <= number("reserve", reserve) < 1:
        raise ValueError(f"reserve is {reserve}; it is a share of the memory, from 0 to below 1")
    for offer in offers:
        which = f" of {offer.name}" if offer.name else ""
        if offer.price is None and (objective in ("cost", "cost_time") or limits.budget < math.inf):
            raise ValueError(
                f"the price{which} is needed for a cost; give price=… in USD/s a device"
            )
        if offer.price == 0 and objective in ("cost", "cost_time"):
            raise ValueError(
                f"the price{which} is 0, so that every run costs as much; give a price above 0, or "
                "another objective"
            )
        if offer.power is None and objective == "energy":
            raise ValueError(
                f"the power{which} is needed for an energy; give power=… in W a device"
            )
    for name in ("samples", "steps"):
        value = getattr(run, name)
        if value is not None:
            above_0(name, value)
    if run.samples is not None and run.samples < batches.min():
        raise ValueError(
            f"the run is of {run.samples:.3g} samples, less than one step of {batches.min()}; "
            "check tokens (or samples) and global_batch"
        )
    if run.samples is not None and run.steps is not None:
        raise ValueError("tokens and steps both say how long the run is; give one of them")
    if not number("critical_batch", run.critical_batch) > 0:
        raise ValueError(f"critical_batch is {run.critical_batch}; it must be above 0")
    if run.critical_batch < math.inf and run.samples is None:
        raise ValueError("critical_batch tells how many tokens a run takes; give tokens=… too")
    if len(batches) > 1 and run.samples is None:
        raise ValueError(
            f"{len(batches)} global batches can be compared by the run they make only; "
            "give tokens=…, or one global_batch"
        )
