"""An offer with all that a search found on it, and the questions that this answers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scaleopt.planning.asking.goal import Goal
from scaleopt.planning.asking.offer import Offer
from scaleopt.planning.searching.configuration import Configuration
from scaleopt.planning.searching.search import Found, Leaders

Value = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Of seconds of a step, devices and batch."""
Named = dict[str, float]


class Scores(NamedTuple):
    """Some layouts, each with every option."""

    rows: np.ndarray
    """(axes, layouts)"""
    devices: np.ndarray
    batch: np.ndarray
    seconds: np.ndarray
    """(layouts, options)"""
    held: np.ndarray
    """(layouts, options)"""


@dataclass(frozen=True)
class Searched(ABC):
    """What was found on one offer, whatever is planned."""

    offer: Offer
    goal: Goal
    memory: float
    """[B] of a device that may be filled."""
    found: Found

    subject = "work"
    """What is split, and what of it has to divide."""
    undivided = "its parts"

    @property
    @abstractmethod
    def devices(self) -> np.ndarray:
        """Of each cell."""

    @property
    @abstractmethod
    def batch(self) -> np.ndarray:
        """Of each cell."""

    @abstractmethod
    def again(self, goal: Goal) -> "Searched":
        """The same search for another goal."""

    @abstractmethod
    def scores(self) -> Iterator[Scores]:
        """Every configuration once more, with what it takes and holds."""

    @abstractmethod
    def configured(
        self, axes: np.ndarray, option: int, seconds: float, held: float
    ) -> Configuration:
        """A layout with one of the options it was tried with."""

    @abstractmethod
    def breakdown(self, found: Configuration) -> tuple[Named, Named]:
        """Seconds of a step by what takes them, and bytes of a device by what they hold."""

    @abstractmethod
    def upgrades(self, found: Configuration) -> Named:
        """The share of its step that a machine saves of which one constant is a tenth better."""

    @abstractmethod
    def possible(self) -> np.ndarray:
        """Numbers of devices near those asked for over which the work can be split."""

    def unlike(self, found: Configuration) -> list[str]:
        """What of the work itself, done in a way, the offer's fit has not seen."""
        return []

    def values(self, value: Value, leaders: Leaders) -> np.ndarray:
        """A value of the fastest step of each cell; infinite where there is none."""
        with np.errstate(invalid="ignore"):
            found = value(leaders.value, self.devices, self.batch)
        return np.where(leaders.value < np.inf, found, np.inf)

    def objective(self, found: Configuration) -> float:
        """What is to be small, of a configuration."""
        step, devices, batch = map(np.array, (found.step_time, found.devices, found.global_batch))
        return float(self.goal.value(step, devices, batch))

    def fastest_fit(self, cell: int) -> Configuration:
        """The fastest configuration of a cell that fits in memory."""
        fits = self.found.fits
        return self.configured(
            fits.rows[:, cell], fits.option[cell], fits.value[cell], fits.other[cell]
        )

    def leanest(self, cell: int) -> Configuration:
        """The configuration of a cell that is fast enough and holds least."""
        lean = self.found.leanest
        return self.configured(
            lean.rows[:, cell], lean.option[cell], lean.other[cell], lean.value[cell]
        )

    def listed(self, place: int) -> Configuration:
        """A configuration of the shortlist."""
        short = self.found.shortlist
        return self.configured(
            short.rows[:, place], short.option[place], short.seconds[place], short.held[place]
        )


def side_of(sides: Sequence[Searched], found: Configuration) -> Searched:
    """The offer that a configuration is on, with what was found there."""
    return next(side for side in sides if side.offer is found.offer)


def least(values: Sequence[np.ndarray]) -> tuple[float, int, int]:
    """The least of several arrays, of which array it is, and its place there; of equals the first.

    >>> least([np.array([3.0, 2.0]), np.array([2.0])])
    (2.0, 0, 1)
    """
    best = [float(array.min()) for array in values]
    which = int(np.argmin(best))
    return best[which], which, int(np.argmin(values[which]))
