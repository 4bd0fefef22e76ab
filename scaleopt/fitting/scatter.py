"""How the rows of one kind scatter about a model, and which of them are independent.

Rows come in nests: repeats taken in one breath (a burst: one cell in one round), bursts of one cell
(the same operation, N and sizes), all the cells of a round, which the machine's mood shifts
together, and all the rounds of a run, which one start of the processes shifts together. Each level
is compared with the one inside it, and where it scatters more than chance allows it, not the row,
is the unit of independence. Cells that scatter more than their bursts are what the model misses.

Source: N. R. Draper and H. Smith, "Applied Regression Analysis", 3rd ed., section 2.1, for the
lack-of-fit ratio; H. Scheffé, "The Analysis of Variance", 1959, chapter 5, for nested levels.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from scaleopt.fitting.solve import NORMAL_MAD

_CHANCE, _CHANCE_OF_RUNS = 0.01, 0.05
"""A level counts where chance alone would scatter it so only this often; of few runs only a large
shift can be told from chance at all."""


@dataclass(frozen=True)
class KindNoise:
    """How the rows of one kind scatter about the model."""

    name: str
    rows: int
    outliers: int
    """Rows beyond Tukey's c, which have no say in the fit."""
    repeat_noise: float
    """Relative scatter of repeats within a cell."""
    misfit: float
    """Relative scatter of cell means about the model, beyond what repeats explain; 0 if none."""
    round_shift: float
    """Relative scatter of whole rounds; 0 if none."""
    deviations: np.ndarray
    """Sorted |log measured − log predicted|, the outliers among them."""
    run_shift: float = 0.0
    """Relative scatter of whole runs beyond that of their rounds; 0 if none."""

    def spread(self, level: float) -> float:
        """The |log| deviation that a share `level` of the rows stays within."""
        place = int(np.ceil(level * (self.rows + 1))) - 1
        return float(self.deviations[min(place, self.rows - 1)])


class Nests(NamedTuple):
    """Which cell, round and run each row belongs to, as whole numbers from 0.

    Rounds are numbered through all runs, so that each is of one run.
    """

    cell: np.ndarray
    round: np.ndarray
    run: np.ndarray

    def of(self, mask: np.ndarray) -> "Nests":
        """The same of some rows."""
        return Nests(*(_numbered(labels[mask]) for labels in self))

    @property
    def burst(self) -> np.ndarray:
        """Which burst each row belongs to; each row its own where there are no rounds."""
        if self.round.max() == 0:
            return np.arange(len(self.cell))
        return _numbered(self.cell * (self.round.max() + 1) + self.round)


class Independence(NamedTuple):
    """What the scatter of influences ψ says of a kind's rows."""

    variance: float
    """Mean square of ψ for one row, as its unit of independence scatters."""
    units: float
    """How many independent units there are."""
    misfit: float
    """Variance between cells beyond that within them."""
    round_shift: float
    """Variance of a shift that all rows of a round share."""
    run_shift: float
    """Variance of a shift that all rows of a run share, beyond that of rounds."""


def independence(influence: np.ndarray, nests: Nests, share: float) -> Independence:
    """Compare each level of nesting with the one inside it.

    Args:
        influence: ψ of each row's standardised residual.
        nests: where the rows belong.
        share: degrees of freedom that the parameters took from these rows.
    """
    rows, (cell, round_, run), burst = len(influence), nests, nests.burst
    rounds, bursts, cells, runs = (labels.max() + 1 for labels in (round_, burst, cell, run))
    variance, units = float(np.sum(influence**2)) / max(rows - share, 1.0), float(rows)
    cell_means = _means(influence, cell)
    around = influence - cell_means
    round_means, run_means = _means(around, round_), _means(around, run)
    settled = _means(around - round_means, burst)
    inner, inner_degrees = _mean_square(settled, bursts - cells - rounds + 1)

    shift = run_shift = 0.0
    between = inner, inner_degrees
    outer, degrees = _mean_square(round_means - run_means, rounds - runs)
    if _beyond_chance(outer, degrees, inner, inner_degrees):
        shift = (outer - inner) * rounds / rows
        between = outer, degrees
    outer, degrees = _mean_square(run_means, runs - 1)
    if _beyond_chance(outer, degrees, *between, chance=_CHANCE_OF_RUNS):
        run_shift = (outer - between[0]) * runs / rows
    within, within_degrees = _mean_square(influence - _means(influence, burst), rows - bursts)
    if _beyond_chance(inner, inner_degrees, within, within_degrees):
        squares = float(np.sum(_means(influence, burst) ** 2))
        variance = max(variance, squares / max(bursts - share * bursts / rows, 1.0))
        units = float(bursts)
    misfit = 0.0
    outer, degrees = _mean_square(cell_means, cells - share * cells / rows)
    if cells > 1 and _beyond_chance(outer, degrees, inner, inner_degrees):
        misfit = (outer - inner) * cells / rows
        variance, units = max(variance, outer), float(cells)
    return Independence(variance, units, misfit, shift, run_shift)


def kind_noise(
    name: str, residual: np.ndarray, influence: np.ndarray, scale: float, nests: Nests, share: float
) -> tuple[KindNoise, Independence]:
    """The scatter of one kind in words that a person asks for, and what it says of independence.

    Args:
        name: the kind.
        residual: log measured − log predicted of its rows.
        influence: ψ of its standardised residuals.
        scale: its robust scale.
        nests: where its rows belong.
        share: degrees of freedom that the parameters took from this kind.
    """
    found = independence(influence, nests, share)
    order = np.argsort(nests.cell, kind="stable")
    same_cell = np.diff(nests.cell[order]) == 0
    steps = np.abs(np.diff(residual[order]))[same_cell]
    noise = KindNoise(
        name=name,
        rows=len(residual),
        outliers=int(np.sum((influence == 0) & (residual != 0))),
        repeat_noise=float(np.median(steps) / NORMAL_MAD / np.sqrt(2)) if len(steps) else scale,
        misfit=scale * float(np.sqrt(found.misfit)),
        round_shift=scale * float(np.sqrt(found.round_shift)),
        deviations=np.sort(np.abs(residual)),
        run_shift=scale * float(np.sqrt(found.run_shift)),
    )
    return noise, found


def _numbered(labels: np.ndarray) -> np.ndarray:
    return np.unique(labels, return_inverse=True)[1]


def _means(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Each row's group mean."""
    return (np.bincount(group, values) / np.bincount(group))[group]


def _mean_square(values: np.ndarray, degrees: float) -> tuple[float, float]:
    return float(np.sum(values**2)) / max(degrees, 1.0), float(degrees)


def _beyond_chance(
    outer: float,
    outer_degrees: float,
    inner: float,
    inner_degrees: float,
    *,
    chance: float = _CHANCE,
) -> bool:
    """Whether the outer level scatters more than the inner one explains."""
    if outer_degrees < 1 or inner_degrees < 1 or inner <= 0:
        return False
    return bool(special.fdtrc(outer_degrees, inner_degrees, outer / inner) < chance)
