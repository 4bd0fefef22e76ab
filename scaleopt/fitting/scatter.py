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

from scaleopt.fitting.loss import NORMAL_MAD

_CHANCE, _CHANCE_OF_RUNS = 0.01, 0.05
"""A level counts where chance alone would scatter it so only this often; of few runs only a large
shift can be told from chance at all."""

_FEWEST = 5
"""Fewer rows, none of them repeated, show the model's freedom and not their scatter."""


@dataclass(frozen=True)
class KindNoise:
    """How the rows of one kind scatter about the model."""

    name: str
    rows: int
    outliers: int
    """Rows beyond Tukey's c, which have no say in the fit."""
    repeat_noise: float
    """Relative scatter of repeats within a cell; without any, of rows about the model."""
    misfit: float
    """Relative scatter of cell means about the model, beyond what repeats explain; 0 if none."""
    round_shift: float
    """Relative scatter of whole rounds; 0 if none."""
    deviations: np.ndarray
    """Sorted |log measured − log predicted|, the outliers among them."""
    run_shift: float = 0.0
    """Relative scatter of whole runs beyond that of their rounds; 0 if none."""
    repeated: bool = True
    """Whether any cell has repeats."""

    @property
    def scattered(self) -> str:
        """What scatters by how much, in words; "" where too few rows tell.

        >>> KindNoise("step", 32, 0, 0.32, 0.0, 0.0, np.zeros(32), repeated=False).scattered
        'rows scatter by 32 % about the model'
        """
        percent = f"{100 * self.repeat_noise:.2g} %"
        if self.repeated:
            return f"repeats scatter by {percent}"
        return f"rows scatter by {percent} about the model" if self.rows >= _FEWEST else ""

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
        if mask.all():
            return self
        return Nests(*(_without_gaps(labels[mask]) for labels in self))

    @property
    def burst(self) -> np.ndarray:
        """Which burst each row belongs to; each row its own where there are no rounds."""
        if self.round.max() == 0:
            return np.arange(len(self.cell))
        return numbered(self.cell * (self.round.max() + 1) + self.round)


class Independence(NamedTuple):
    """What the scatter of influences ψ says of a kind's rows, for each table."""

    variance: np.ndarray
    """Mean square of ψ for one row, as its unit of independence scatters."""
    units: np.ndarray
    """How many independent units there are."""
    misfit: np.ndarray
    """Variance between cells beyond that within them."""
    round_shift: np.ndarray
    """Variance of a shift that all rows of a round share."""
    run_shift: np.ndarray
    """Variance of a shift that all rows of a run share, beyond that of rounds."""


def independence(influence: np.ndarray, nests: Nests, share: np.ndarray) -> Independence:
    """Compare each level of nesting with the one inside it.

    Args:
        influence: (tables, rows), ψ of each row's standardised residual.
        nests: where the rows belong.
        share: (tables,), degrees of freedom that the parameters took from these rows.
    """
    rows, (cell, round_, run), burst = influence.shape[-1], nests, nests.burst
    rounds, bursts, cells, runs = (labels.max() + 1 for labels in (round_, burst, cell, run))
    cell_means = group_means(influence, cell)
    around = influence - cell_means
    round_means, run_means = group_means(around, round_), group_means(around, run)
    settled = group_means(around - round_means, burst)
    burst_means = group_means(influence, burst)
    total = np.sum(influence**2, axis=-1)
    within = _mean_square(influence - burst_means, rows - bursts)
    inner = _mean_square(settled, bursts - cells - rounds + 1)
    by_round = _mean_square(round_means - run_means, rounds - runs)
    by_run = _mean_square(run_means, runs - 1)
    by_cell = _mean_square(cell_means, cells - share * cells / rows)

    variance, units = total / np.maximum(rows - share, 1.0), np.full(total.shape, float(rows))
    shifted = _beyond_chance(by_round, inner)
    shift = np.where(shifted, (by_round.value - inner.value) * rounds / rows, 0.0)
    below = _MeanSquare(*(np.where(shifted, *two) for two in zip(by_round, inner, strict=True)))
    moved = _beyond_chance(by_run, below, _CHANCE_OF_RUNS)
    run_shift = np.where(moved, (by_run.value - below.value) * runs / rows, 0.0)
    clumped = _beyond_chance(inner, within)
    between = np.sum(burst_means**2, axis=-1) / np.maximum(bursts - share * bursts / rows, 1.0)
    variance = np.where(clumped, np.maximum(variance, between), variance)
    units = np.where(clumped, float(bursts), units)
    missed = _beyond_chance(by_cell, inner) & (cells > 1)
    misfit = np.where(missed, (by_cell.value - inner.value) * cells / rows, 0.0)
    variance = np.where(missed, np.maximum(variance, by_cell.value), variance)
    units = np.where(missed, float(cells), units)
    return Independence(variance, units, misfit, shift, run_shift)


def kind_noise(
    name: str,
    residual: np.ndarray,
    influence: np.ndarray,
    scale: float,
    nests: Nests,
    found: Independence,
) -> KindNoise:
    """The scatter of one kind in words that a person asks for.

    Args:
        name: the kind.
        residual: log measured − log predicted of its rows.
        influence: ψ of its standardised residuals.
        scale: its robust scale.
        nests: where its rows belong.
        found: what is independent among them.
    """
    order = np.argsort(nests.cell, kind="stable")
    same_cell = np.diff(nests.cell[order]) == 0
    steps = np.abs(np.diff(residual[order]))[same_cell]
    return KindNoise(
        name=name,
        rows=len(residual),
        outliers=int(np.sum((influence == 0) & (residual != 0))),
        repeat_noise=float(np.median(steps) / NORMAL_MAD / np.sqrt(2)) if len(steps) else scale,
        misfit=scale * float(np.sqrt(found.misfit)),
        round_shift=scale * float(np.sqrt(found.round_shift)),
        deviations=np.sort(np.abs(residual)),
        run_shift=scale * float(np.sqrt(found.run_shift)),
        repeated=len(steps) > 0,
    )


def group_sums(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The sum over each group of the last axis; groups are numbered from 0 without a gap."""
    count = np.bincount(group)
    if len(count) == 1:
        return values.sum(axis=-1, keepdims=True)
    ordered = values[..., np.argsort(group, kind="stable")]
    return np.add.reduceat(ordered, np.cumsum(count) - count, axis=-1)


def group_means(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The mean of each row's group, along the last axis."""
    groups = group.max() + 1
    if groups == len(group):
        return values
    if groups == 1:
        return np.full_like(values, values.mean(axis=-1, keepdims=True))
    return (group_sums(values, group) / np.bincount(group))[..., group]


class _MeanSquare(NamedTuple):
    value: np.ndarray
    degrees: np.ndarray


def numbered(labels: np.ndarray) -> np.ndarray:
    """Labels of any kind as whole numbers from 0."""
    return np.unique(labels, return_inverse=True)[1]


def _without_gaps(numbers: np.ndarray) -> np.ndarray:
    return (np.cumsum(np.bincount(numbers) > 0) - 1)[numbers]


def _mean_square(values: np.ndarray, degrees: np.ndarray | float) -> _MeanSquare:
    mean = np.sum(values**2, axis=-1) / np.maximum(degrees, 1.0)
    return _MeanSquare(mean, np.full_like(mean, degrees))


def _beyond_chance(outer: _MeanSquare, inner: _MeanSquare, chance: float = _CHANCE) -> np.ndarray:
    """Whether the outer level scatters more than the inner one explains."""
    can_tell = (outer.degrees >= 1) & (inner.degrees >= 1) & (inner.value > 0)
    if not can_tell.any():
        return can_tell
    ratio = outer.value / np.where(can_tell, inner.value, 1.0)
    tail = special.fdtrc(np.maximum(outer.degrees, 1.0), np.maximum(inner.degrees, 1.0), ratio)
    return can_tell & (tail < chance)
