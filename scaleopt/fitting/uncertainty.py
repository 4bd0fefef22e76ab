"""How far a fit can be trusted: covariance, and the directions that the rows do not see.

The covariance is that of an M-estimator, A⁻¹ B A⁻¹: A the mean slope of the influence, B its
variance, each averaged over a kind of row. Where rows hang together (`scatter`) B is that of the
units that do not. A prior is a further row whose noise is known. Directions in which no row changes
have no variance to speak of: they are named, not inverted.

Source: P. J. Huber and E. M. Ronchetti, "Robust Statistics", 2nd ed., 2009, section 7.6.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from scaleopt.fitting.scatter import KindNoise, Nests, kind_noise
from scaleopt.fitting.solve import Solution

BLIND = 1e-6
"""A direction whose effect on the rows is this small against the largest is not seen at all."""
_NO_DEGREES = 1e-6
INVOLVED = 0.05
"""A parameter whose share in a blind direction is smaller than this is not counted as in it."""


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
        return np.any(np.abs(self.blind) > INVOLVED, axis=0)

    @property
    def deviation(self) -> np.ndarray:
        """Standard deviation of each u; infinite where a blind direction has a share in it."""
        own = np.sqrt(np.clip(np.diag(self.matrix), 0, None))
        return np.where(self.unseen, np.inf, own)

    def quantile(self, level: float) -> float:
        """Student's t for a two-sided interval."""
        return float(special.stdtrit(self.degrees, 0.5 + level / 2))


def blank(free: int) -> Covariance:
    """The covariance where the rows tell nothing: every direction is blind."""
    return Covariance(np.zeros((free, free)), np.eye(free), np.ones(free), 1.0)


def covariance(
    found: Solution, log_time: np.ndarray, kinds: dict[str, np.ndarray], nests: Nests
) -> tuple[Covariance, tuple[KindNoise, ...]]:
    """The covariance of u at a solution, and the scatter of each kind.

    Args:
        found: the solution.
        log_time: (rows,), log of what was measured.
        kinds: for each kind, which rows are of it.
        nests: which cell and round each row belongs to.
    """
    jacobian, scale = np.asarray(found.jacobian), np.asarray(found.scale)
    influence, slope = np.asarray(found.influence), np.asarray(found.slope)
    residual = log_time - np.asarray(found.log_predicted)
    rows, free = jacobian.shape
    row_scale, prior = np.asarray(found.row_scale), np.asarray(found.prior_slope)
    weighted = jacobian / row_scale[:, None]
    norm = np.linalg.norm(np.concatenate([weighted, prior]), axis=0)
    norm = np.where(norm > 0, norm, 1.0)
    unit = weighted / norm
    known = prior / norm
    _, singular, directions = np.linalg.svd(np.concatenate([unit, known]), full_matrices=False)
    seen = singular > BLIND * max(singular[0], BLIND)
    basis = directions[seen]
    # How many parameters the rows had to tell: what a prior tells costs them nothing.
    taken = float(np.sum(np.sum((unit @ basis.T) ** 2, axis=0) / singular[seen] ** 2))

    noises, bread, meat = [], known.T @ known, known.T @ known
    degrees, fewest = -taken, np.inf
    for (name, mask), own in zip(kinds.items(), scale, strict=True):
        share, inside = taken * mask.sum() / rows, nests.of(mask)
        noise, found_scatter = kind_noise(
            name, own * (residual / row_scale)[mask], influence[mask], own, inside, share
        )
        noises.append(noise)
        steepness = float(np.mean(slope[mask]))
        square = unit[mask].T @ unit[mask]
        bread += steepness * square
        meat += found_scatter.variance * square
        degrees += found_scatter.units
        shifts = (inside.round, found_scatter.round_shift), (inside.run, found_scatter.run_shift)
        for shared, shift in shifts:
            if shift > 0:
                sums = np.array([np.bincount(shared, column) for column in unit[mask].T]).T
                meat += shift * sums.T @ sums
                fewest = min(fewest, len(sums) - 1)
    if degrees < _NO_DEGREES:
        return blank(free), tuple(noises)
    inverse = np.linalg.inv(basis @ bread @ basis.T)
    moment = basis.T @ inverse @ (basis @ meat @ basis.T) @ inverse @ basis
    matrix = moment / np.outer(norm, norm)
    return Covariance(matrix, directions[~seen], norm, min(degrees, fewest)), tuple(noises)
