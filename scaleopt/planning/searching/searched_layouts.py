"""What a search over the layouts of a transformer found on one offer."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax
import numpy as np

from scaleopt.fitting.on_host import at_each
from scaleopt.models.machine import Machine
from scaleopt.models.zero import zero_terms
from scaleopt.planning.asking.goal import Goal
from scaleopt.planning.asking.offer import Offer
from scaleopt.planning.searching.breakdown import breakdown
from scaleopt.planning.searching.configuration import Configuration, configured
from scaleopt.planning.searching.entries import entries
from scaleopt.planning.searching.layouts import AXES, Layouts, tiles
from scaleopt.planning.searching.options import Options
from scaleopt.planning.searching.search import TILE, Tiles, all_scores, search
from scaleopt.planning.searching.searched import Named, Scores, Searched
from scaleopt.planning.searching.tables import Problem, Tables
from scaleopt.planning.searching.upgrade import upgrades


@dataclass(frozen=True)
class SearchedLayouts(Searched):
    """What was found on one offer for the training of a transformer."""

    problem: Problem
    tables: Tables
    layouts: Layouts
    options: Options
    watch: Callable[[Tiles], Tiles] = iter

    subject, undivided = "model", "heads, layers or batch"

    @classmethod
    def of(
        cls,
        offer: Offer,
        goal: Goal,
        memory: float,
        problem: Problem,
        known: Tables,
        layouts: Layouts,
        options: Options,
        watch: Callable[[Tiles], Tiles] = iter,
    ) -> "SearchedLayouts":
        """Search every layout."""
        found = search(known, layouts, options, memory, goal.slowest, goal.within, watch=watch)
        return cls(offer, goal, memory, found, problem, known, layouts, options, watch)

    def again(self, goal: Goal) -> "SearchedLayouts":
        """The same search for another goal."""
        kept = self.memory, self.problem, self.tables, self.layouts, self.options, self.watch
        return self.of(self.offer, goal, *kept)

    @property
    def devices(self) -> np.ndarray:
        """Of each cell."""
        return np.repeat(self.layouts.devices, len(self.layouts.batches))

    @property
    def batch(self) -> np.ndarray:
        """Of each cell."""
        return np.tile(self.layouts.batches, len(self.layouts.devices))

    def scores(self) -> Iterator[Scores]:
        """Every configuration once more, a tile at a time."""
        for tile, true in tiles(iter(self.layouts), TILE):
            with jax.enable_x64(True):
                scores = all_scores(entries(self.tables, tile))
            seconds, held = (np.asarray(part)[:true] for part in scores)
            rows, (devices, batch) = tile[: len(AXES), :true], tile[_PLACES, :true]
            yield Scores(rows, devices, batch, seconds, held)

    def configured(
        self, axes: np.ndarray, option: int, seconds: float, held: float
    ) -> Configuration:
        """A layout with one of the options it was tried with."""
        return configured(
            self.offer, self.goal, self.options, axes, int(option), float(seconds), float(held)
        )

    def breakdown(self, found: Configuration) -> tuple[Named, Named]:
        """Seconds of a step by what takes them, and bytes of a device by what they hold."""
        terms, memory = map(_first, breakdown(self.problem, [found]))
        if self.tables.likeness is not None:
            terms |= {ALIKE: found.step_time - sum(terms.values())}
        return terms, memory

    def upgrades(self, found: Configuration) -> Named:
        """The share of its step that a machine saves of which one constant is a tenth better."""
        split = jax.tree.map(float, found.split)

        def seconds(machine: Machine) -> np.ndarray:
            return at_each(_total, machine, self.problem.model, split, float(found.zero))

        return upgrades(self.problem.machine, seconds)

    def possible(self) -> np.ndarray:
        """Numbers of devices near those asked for on which there are splits."""
        return self.layouts.possible(2 * int(self.layouts.devices[-1]))

    def unlike(self, found: Configuration) -> list[str]:
        """What of the model itself no row fitted is of."""
        from scaleopt.planning.searching.likeness import tells_mixtures  # needs what fits need

        fit, mixture = self.offer.fit, float(self.problem.model.experts) > 1
        if fit is None or not mixture or tells_mixtures(fit):
            return []
        return ["a mixture of experts: rows fitted are of dense models"]


ALIKE = "beyond the model"
"""What runs alike were measured to take beyond the terms, below 0 where they were faster."""
_PLACES = slice(len(AXES), len(AXES) + 2)
"""Rows of a tile with devices and batch."""


_total = jax.jit(lambda *run: zero_terms(*run).total)


def _first(parts: dict[str, np.ndarray]) -> Named:
    return {name: float(part[0]) for name, part in parts.items()}
