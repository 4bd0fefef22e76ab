"""One way to run a workload that is no transformer, and what it takes."""

from dataclasses import dataclass
from typing import Any

from scaleopt.planning.searching.configuration import Configuration
from scaleopt.planning.words import counted


@dataclass(frozen=True)
class WorkloadConfiguration(Configuration):
    """A split of a workload on devices of one kind, with what a run takes on them."""

    batch: int
    """Samples of a step."""
    chosen: bool
    """Whether these were there to be chosen."""

    @property
    def global_batch(self) -> int:
        """Samples of a step."""
        return self.batch

    @property
    def kind(self) -> tuple[object, ...]:
        """What two configurations share that split the devices alike."""
        return self.offer.name, *self.split.kind

    @property
    def headline(self) -> str:
        """Devices, samples where they were chosen, and split, in one line."""
        named = f"{self.offer.name}: " if self.offer.name else ""
        batch = f", global batch {self.batch}" if self.chosen else ""
        return f"{named}{counted(self.devices)}{batch}: {self}"

    def row(self) -> dict[str, Any]:
        """As a row of a table."""
        found: dict[str, Any] = {"offer": self.offer.name} if self.offer.name else {}
        found |= {"devices": self.devices}
        found |= {"global_batch" if self.chosen else "samples": self.batch}
        return found | self.split._asdict() | self.taken()

    def __str__(self) -> str:
        return str(self.split)
