"""How far a fit can be trusted: covariance, and the directions that the rows do not see.

The covariance is that of an M-estimator, A⁻¹ B A⁻¹, with the influence of each kind of row averaged
over the kind. Two things widen it. Rows of one cell (the same operation, N and sizes) repeat one
another: where their mean misses the model by more than repeats scatter, the cell and not the row is
the unit of independence, and the scatter between cells takes the place of that between rows. And
directions in which no row changes have no variance to speak of: they are named, not inverted.

Source: P. J. Huber and E. M. Ronchetti, "Robust Statistics", 2nd ed., 2009, section 7.6; the
lack-of-fit ratio: N. R. Draper and H. Smith, "Applied Regression Analysis", 3rd ed., section 2.1.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from scaleopt.fitting.solve import NORMAL_MAD, Solution

BLIND = 1e-6
"""A direction whose effect on the rows is this small against the largest is not seen at all."""
_LACK_OF_FIT_LEVEL = 0.01
_INVOLVED = 0.05


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
    deviations: np.ndarray
    """Sorted |log measured − log predicted|, the outliers among them."""

    def spread(self, level: float) -> float:
        """The |log| deviation that a share `level` of the rows stays within."""
        place = int(np.ceil(level * (self.rows + 1))) - 1
        return float(self.deviations[min(place, self.rows - 1)])


@dataclass(frozen=True)
class Covariance:
    """Second moments of the estimate u, and what they leave out."""

    matrix: np.ndarray
    """(parameters, parameters); a parameter in a blind direction has only its seen part here."""
    blind: np.ndarray
    """(directions, parameters): orthonormal, in units in which each parameter moves rows alike."""
    norm: np.ndarray
    """(parameters,): those units, the length of each column of the weighted Jacobian."""
    degrees: float
    """Degrees of freedom for Student's t."""

    @property
    def unseen(self) -> np.ndarray:
        """Which parameters have a share in a blind direction."""
        return np.any(np.abs(self.blind) > _INVOLVED, axis=0)

    @property
    def deviation(self) -> np.ndarray:
        """Standard deviation of each u; infinite where a blind direction has a share in it."""
        own = np.sqrt(np.clip(np.diag(self.matrix), 0, None))
        return np.where(self.unseen, np.inf, own)

    def quantile(self, level: float) -> float:
        """Student's t for a two-sided interval."""
        return float(special.stdtrit(self.degrees, 0.5 + level / 2))


def kind_noise(
    name: str,
    residual: np.ndarray,
    influence: np.ndarray,
    scale: float,
    cell: np.ndarray,
    share: float,
) -> tuple[KindNoise, float, float]:
    """Scatter of one kind, its influence variance, and its own degrees of freedom.

    Args:
        name: the kind.
        residual: log measured − log predicted of its rows.
        influence: ψ of its standardised residuals.
        scale: its robust scale.
        cell: which cell each row belongs to.
        share: degrees of freedom that the parameters took from this kind.

    Returns:
        The noise; the mean square of ψ for one row, corrected for the parameters; and the number
        of independent units.
    """
    _, cell, repeats = np.unique(cell, return_inverse=True, return_counts=True)
    rows, cells = len(residual), len(repeats)
    variance = float(np.sum(influence**2)) / max(rows - share, 1.0)
    means = (np.bincount(cell, influence) / repeats)[cell]
    within = float(np.sum((influence - means) ** 2)) / max(rows - cells, 1)
    share_of_cells = share * cells / rows
    between = float(np.sum(means**2)) / max(cells - share_of_cells, 1.0)
    units, misfit = float(rows), 0.0
    if rows > cells > 1 and within > 0:
        chance = special.fdtrc(cells - share_of_cells, rows - cells, between / within)
        if chance < _LACK_OF_FIT_LEVEL:
            misfit = scale * np.sqrt(max(between - within, 0.0) * cells / rows)
            variance, units = max(between, variance), float(cells)
    order = np.argsort(cell, kind="stable")
    same_cell = np.diff(cell[order]) == 0
    steps = np.abs(np.diff(residual[order]))[same_cell]
    repeat = float(np.median(steps)) / NORMAL_MAD / np.sqrt(2) if rows > cells else scale
    outliers = int(np.sum(influence == 0.0) - np.sum(residual == 0.0))
    noise = KindNoise(name, rows, outliers, float(repeat), float(misfit), np.sort(np.abs(residual)))
    return noise, variance, units


def covariance(
    found: Solution, log_time: np.ndarray, kinds: dict[str, np.ndarray], cell: np.ndarray
) -> tuple[Covariance, tuple[KindNoise, ...]]:
    """The covariance of u at a solution, and the scatter of each kind.

    Args:
        found: the solution.
        log_time: (rows,), log of what was measured.
        kinds: for each kind, which rows are of it.
        cell: (rows,), which cell each row belongs to.
    """
    jacobian, scale = np.asarray(found.jacobian), np.asarray(found.scale)
    influence, slope = np.asarray(found.influence), np.asarray(found.slope)
    residual = log_time - np.asarray(found.log_predicted)
    rows, free = jacobian.shape
    row_scale = np.sum(
        [own * mask for own, mask in zip(scale, kinds.values(), strict=True)], axis=0
    )
    weighted = jacobian / row_scale[:, None]
    norm = np.linalg.norm(weighted, axis=0)
    norm = np.where(norm > 0, norm, 1.0)
    unit = weighted / norm
    _, singular, directions = np.linalg.svd(unit, full_matrices=True)
    singular = np.concatenate([singular, np.zeros(free - len(singular))])
    seen = singular > BLIND * max(singular[0], BLIND)
    taken = int(seen.sum())

    noises, bread, meat, units = [], np.zeros((free, free)), np.zeros((free, free)), 0.0
    for (name, mask), own in zip(kinds.items(), scale, strict=True):
        share = taken * mask.sum() / rows
        noise, variance, kind_units = kind_noise(
            name, residual[mask], influence[mask], own, cell[mask], share
        )
        noises.append(noise)
        square = unit[mask].T @ unit[mask]
        bread += float(np.mean(slope[mask])) * square
        meat += variance * square
        units += kind_units
    basis = directions[seen]
    inverse = np.linalg.inv(basis @ bread @ basis.T)
    moment = basis.T @ inverse @ (basis @ meat @ basis.T) @ inverse @ basis
    matrix = moment / np.outer(norm, norm)
    degrees = max(units - taken, 0.0)
    if degrees == 0:
        matrix = np.full_like(matrix, np.inf)
    return Covariance(matrix, directions[~seen], norm, max(degrees, 1.0)), tuple(noises)
