"""One way to train: a split of the step with its options, on so many devices, and what it takes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from scaleopt.models.parallelism import Parallelism
from scaleopt.models.transformer import RECOMPUTE
from scaleopt.planning.asking.goal import Goal
from scaleopt.planning.asking.offer import Offer
from scaleopt.planning.searching.layouts import AXES
from scaleopt.planning.searching.options import Options
from scaleopt.planning.words import counted


@dataclass(frozen=True)
class Configuration:
    """A split on devices of one kind, with what a run takes on them."""

    offer: Offer
    split: Any
    """How the work is split: a `Parallelism`, or what another workload calls a split."""
    zero: int
    """ZeRO stage."""
    step_time: float
    """[s]"""
    steps: float
    time: float
    """[s] of the run."""
    memory: float
    """[B] that a device holds at its fullest."""
    mfu: float
    """Share of the peak rate that goes into the model's own FLOP."""

    @property
    def devices(self) -> int:
        """N."""
        return int(self.split.devices)

    @property
    def global_batch(self) -> int:
        """Sequences of a step."""
        return int(self.split.global_batch)

    @property
    def kind(self) -> tuple[object, ...]:
        """What two configurations share that split the devices alike."""
        split = self.split
        return (
            self.offer.name,
            split.data,
            split.tensor,
            split.context,
            split.expert,
            split.pipeline,
        )

    @property
    def cost(self) -> float:
        """[USD] of the run; NaN without a price."""
        price = self.offer.price
        return np.nan if price is None else price * self.devices * self.time

    @property
    def energy(self) -> float:
        """[J] of the run; NaN without a power."""
        power = self.offer.power
        return np.nan if power is None else power * self.devices * self.time

    @property
    def headline(self) -> str:
        """Devices, batch and split in one line."""
        named = f"{self.offer.name}: " if self.offer.name else ""
        return f"{named}{counted(self.devices)}, global batch {self.global_batch}: {self}"

    def row(self) -> dict[str, Any]:
        """As a row of a table."""
        split = self.split
        found: dict[str, Any] = {"offer": self.offer.name} if self.offer.name else {}
        found |= {"devices": self.devices, "global_batch": self.global_batch}
        found |= {axis: int(getattr(split, axis)) for axis in AXES}
        found |= {
            "recompute": RECOMPUTE[int(split.recompute)],
            "sequence_parallel": bool(split.sequence_parallel),
            "zero": self.zero,
        }
        return found | self.taken()

    def taken(self) -> dict[str, float]:
        """What it takes, as columns of a table."""
        found = {"step_time_s": self.step_time, "time_s": self.time}
        if self.offer.price is not None:
            found["cost"] = self.cost
        if self.offer.power is not None:
            found["energy_j"] = self.energy
        return found | {"memory_bytes": self.memory, "mfu": self.mfu}

    def __str__(self) -> str:
        """The split in one line, without what is 1 or off."""
        split = self.split
        axes = ("data", "tensor", "context", "pipeline")
        parts = [f"{axis} {int(getattr(split, axis))}" for axis in axes]
        parts = [part for part in parts if not part.endswith(" 1")] or ["one device"]
        if int(split.expert) > 1:
            # No factor of the devices: experts are shared by those that hold other tokens.
            wide = "data × context" if int(split.context) > 1 else "data"
            parts.append(f"expert {int(split.expert)} within {wide}")
        if int(split.interleave) > 1:
            parts.append(f"interleave {int(split.interleave)}")
        if split.zero_bubble:
            parts.append("zero bubble")
        parts += [
            f"micro-batch {int(split.micro_batch)}",
            f"accumulation {int(split.accumulation)}",
            f"recompute {RECOMPUTE[int(split.recompute)]}",
        ]
        if split.sequence_parallel:
            parts.append("sequence parallel")
        if self.zero:
            parts.append(f"ZeRO-{self.zero}")
        return " · ".join(parts)


def configured(
    offer: Offer,
    goal: Goal,
    options: Options,
    axes: np.ndarray,
    option: int,
    seconds: float,
    memory: float,
) -> Configuration:
    """A layout with one of its options.

    Args:
        offer: the devices.
        goal: of the plan.
        options: what the layout was tried with.
        axes: (axes,) in the order of `AXES`.
        option: place of the option.
        seconds: of a step.
        memory: [B] that a device holds.
    """
    recompute, along, zero = options.each(np.array(option))
    split = Parallelism(
        **{axis: int(size) for axis, size in zip(AXES, axes, strict=True)},
        recompute=int(recompute),
        sequence_parallel=bool(along),
    )
    devices, batch = np.array(split.devices), np.array(split.global_batch)
    return Configuration(
        offer=offer,
        split=split,
        zero=int(zero),
        step_time=seconds,
        steps=float(goal.run.length(batch)),
        time=float(goal.time(np.array(seconds), devices, batch)),
        memory=memory,
        mfu=float(goal.mfu(np.array(seconds), devices, batch)),
    )
