"""An offer with all that a search found on it, and the questions that this answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scaleopt.planning.configuration import Configuration, configured
from scaleopt.planning.goal import Goal
from scaleopt.planning.layouts import Layouts
from scaleopt.planning.offer import Offer
from scaleopt.planning.options import Options
from scaleopt.planning.search import Found, Leaders
from scaleopt.planning.tables import Problem, Tables

Value = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Of seconds of a step, devices and batch."""


@dataclass(frozen=True)
class Searched:
    """What was found on one offer."""

    offer: Offer
    goal: Goal
    problem: Problem
    tables: Tables
    layouts: Layouts
    options: Options
    memory: float
    """[B] of a device that may be filled."""
    found: Found

    @cached_property
    def devices(self) -> np.ndarray:
        """Of each cell."""
        return np.repeat(self.layouts.devices, len(self.layouts.batches))

    @cached_property
    def batch(self) -> np.ndarray:
        """Of each cell."""
        return np.tile(self.layouts.batches, len(self.layouts.devices))

    def values(self, value: Value, leaders: Leaders) -> np.ndarray:
        """A value of the fastest step of each cell; infinite where there is none."""
        with np.errstate(invalid="ignore"):
            found = value(leaders.value, self.devices, self.batch)
        return np.where(leaders.value < np.inf, found, np.inf)

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

    def configured(
        self, axes: np.ndarray, option: int, seconds: float, held: float
    ) -> Configuration:
        """A layout with one of the options it was tried with."""
        return configured(
            self.offer, self.goal, self.options, axes, int(option), float(seconds), float(held)
        )


def least(values: Sequence[np.ndarray]) -> tuple[float, int, int]:
    """The least of several arrays, of which array it is, and its place there; of equals the first.

    >>> least([np.array([3.0, 2.0]), np.array([2.0])])
    (2.0, 0, 1)
    """
    best = [float(array.min()) for array in values]
    which = int(np.argmin(best))
    return best[which], which, int(np.argmin(values[which]))
