"""What `plan` found: the best configuration, what nearly was, and the questions that answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scaleopt.fitting.provenance import Provenance
from scaleopt.planning.searching.configuration import Configuration
from scaleopt.planning.searching.pareto import pareto_front
from scaleopt.planning.searching.searched import Searched, side_of
from scaleopt.planning.telling.explain import explain
from scaleopt.planning.telling.origin import provenance
from scaleopt.planning.words import counted

if TYPE_CHECKING:
    import pandas as pd

    from scaleopt.planning.odds.certainty import Certainty


@dataclass(frozen=True, repr=False)
class Plan:
    """What `plan` found."""

    best: Configuration | None
    """None where nothing keeps every limit; `explain` says what would have to give."""
    searched: tuple[Searched, ...]
    certainty: "Certainty | None" = None
    """How sure it is; None where the machine was given, not fitted."""

    def __repr__(self) -> str:
        found = f"{counted(self.best.devices)}, {self.best}" if self.best else "infeasible"
        return f"Plan({found}); print(plan.explain()) for more"

    @property
    def configurations(self) -> int:
        """How many different configurations were scored."""
        return sum(side.found.configurations for side in self.searched)

    def ranked(self, length: int | None = 20) -> list[Configuration]:
        """The best layouts, each with its best options, the best first; None for all kept."""
        sides = self.searched
        values = np.concatenate([side.found.shortlist.value for side in sides])
        places = [(s, place) for s in sides for place in range(len(s.found.shortlist.value))]
        order = np.argsort(values, kind="stable")[:length].tolist()
        return [
            places[place][0].listed(places[place][1]) for place in order if values[place] < np.inf
        ]

    def table(self, length: int = 20) -> "pd.DataFrame":
        """The best layouts as a table, each with its best options, the best first.

        Args:
            length: how many rows.

        Returns:
            A row each: how it is split, its seconds, cost [USD] and memory [B].
        """
        return _rows(self.ranked(length))

    def pareto(self) -> "pd.DataFrame":
        """What nothing beats in time, cost, memory and devices at once, the fastest first.

        Every configuration is scored once more for it.
        """
        return _rows(pareto_front(self.searched))

    @property
    def provenance(self) -> dict[str, Provenance]:
        """Where each number is from that it rests on, by name; see `planning.telling.origin`."""
        return provenance(self)

    def record(self) -> dict[str, Any]:
        """The choice as numbers for programs: what is best, how sure, what would help, and why."""
        best, sure = self.best, self.certainty
        saved = None if best is None else side_of(self.searched, best).upgrades(best)
        return {
            "best": None if best is None else best.row(),
            "certainty": None if sure is None else sure.record(),
            "a_tenth_better_saves": saved,
            "provenance": self.provenance,
            "explanation": self.explain(),
        }

    def explain(self) -> str:
        """Why it is best and what nearly was; where nothing is, what would have to give."""
        return explain(self)


def _rows(found: Sequence[Configuration]) -> "pd.DataFrame":
    import pandas as pd  # half of the time that a plan takes from cold

    return pd.DataFrame([it.row() for it in found])
