"""What every layout is tried with: recomputation, sequence parallelism, ZeRO stage."""

from typing import NamedTuple

import numpy as np

from scaleopt.models.memory import ZERO_STAGES
from scaleopt.models.transformer import RECOMPUTE, recompute_code


class Options(NamedTuple):
    """The choices; each combination is one configuration of a layout."""

    recompute: tuple[str, ...] = RECOMPUTE
    sequence_parallel: tuple[bool, ...] = (False, True)
    zero: tuple[int, ...] = ZERO_STAGES

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many there are of each."""
        return len(self.recompute), len(self.sequence_parallel), len(self.zero)

    def codes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The choices of each as numbers."""
        recompute = np.array([recompute_code(choice) for choice in self.recompute], float)
        return recompute, np.array(self.sequence_parallel, float), np.array(self.zero, float)

    def each(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Recomputation, sequence parallelism and ZeRO stage of flat places among them."""
        found = np.unravel_index(place, self.shape)
        recompute, along, zero = (
            code[at].astype(int) for code, at in zip(self.codes(), found, strict=True)
        )
        return recompute, along, zero

    def idle_along(self, tensor: np.ndarray, along: np.ndarray) -> np.ndarray:
        """Where sequence parallelism says nothing new: one device has nothing to split along."""
        return (tensor == 1) & (along > self.codes()[1].min())

    def idle_zero(self, replicas: np.ndarray, zero: np.ndarray) -> np.ndarray:
        """Where a ZeRO stage says nothing new: one replica has nothing to split."""
        return (replicas == 1) & (zero > self.codes()[2].min())

    def of(self, tensor: np.ndarray, replicas: np.ndarray) -> int:
        """How many different configurations layouts have: one device has nothing to split along."""
        along, zero = len(self.sequence_parallel), len(self.zero)
        each = np.where(tensor > 1, along, 1) * np.where(replicas > 1, zero, 1)
        return len(self.recompute) * int(each.sum())
