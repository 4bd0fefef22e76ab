"""How far a fit can be trusted: covariance, and the directions that the rows do not see.

The covariance is that of an M-estimator, A⁻¹ B A⁻¹: A the mean slope of the influence, B its
variance, each averaged over a kind of row; a kind whose rows hardly outnumber what they alone tell
shows little of its noise, and takes some of what all kinds show. Where rows hang together
(`scatter`) B is that of the units that do not. A prior is a further row whose noise is known.
Directions in which no row changes have no variance to speak of: they are named, not inverted.

Source: P. J. Huber and E. M. Ronchetti, "Robust Statistics", 2nd ed., 2009, section 7.6.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from scaleopt.fitting.loss import POOLED_ROWS
from scaleopt.fitting.rows import Solution
from scaleopt.fitting.scatter import Independence, Nests, group_sums, independence

BLIND = 1e-6
"""A direction whose effect on the rows is this small against the largest is not seen at all."""
INVOLVED = 0.05
"""A parameter whose share in a blind direction is smaller than this is not counted as in it."""
_NO_DEGREES = 1e-6


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


@dataclass(frozen=True)
class Covariances:
    """The same for many tables."""

    matrix: np.ndarray
    """(tables, parameters, parameters)"""
    directions: np.ndarray
    """(tables, directions, parameters)"""
    seen: np.ndarray
    """(tables, directions): whether any row changes along it."""
    norm: np.ndarray
    """(tables, parameters)"""
    degrees: np.ndarray
    """(tables,)"""

    def of(self, table: int) -> Covariance:
        """That of one table."""
        blind = self.directions[table][~self.seen[table]]
        return Covariance(self.matrix[table], blind, self.norm[table], float(self.degrees[table]))

    @property
    def unseen(self) -> np.ndarray:
        """(tables, parameters): which have a share in a blind direction."""
        return np.any((np.abs(self.directions) > INVOLVED) & ~self.seen[..., None], axis=-2)

    @property
    def deviation(self) -> np.ndarray:
        """(tables, parameters): standard deviations, infinite where one is not told."""
        own = np.sqrt(np.clip(np.diagonal(self.matrix, axis1=-2, axis2=-1), 0, None))
        return np.where(self.unseen, np.inf, own)

    def quantile(self, level: float) -> np.ndarray:
        """(tables, 1): Student's t for a two-sided interval."""
        return np.asarray(special.stdtrit(self.degrees, 0.5 + level / 2))[:, None]


def covariance(
    found: Solution,
    kinds: dict[str, np.ndarray],
    nests: Nests,
    cluster: np.ndarray | None = None,
) -> tuple[Covariances, dict[str, Independence]]:
    """The covariance of each table's u at its solution, and which rows are independent.

    A table whose solution is not finite is blind in every direction.

    Args:
        found: the solutions.
        kinds: for each kind, which rows are of it.
        nests: which cell and round each row belongs to.
        cluster: (rows,), whole numbers from 0: rows of one hang together, whatever they look like.
    """
    finite = np.all([np.isfinite(each).reshape(len(each), -1).all(-1) for each in found], axis=0)
    now = found if finite.all() else Solution(*(_where_finite(finite, each) for each in found))
    rows, free = now.jacobian.shape[1:]
    weighted = np.concatenate(
        [now.jacobian / now.row_scale[..., None], now.prior_slope[..., None] * np.eye(free)], axis=1
    )
    norm = np.linalg.norm(weighted, axis=1)
    norm = np.where(norm > 0, norm, 1.0)
    joined = weighted / norm[:, None]
    unit, known = joined[:, :rows], joined[:, rows:]
    _, singular, directions = np.linalg.svd(joined, full_matrices=False)
    seen = singular > BLIND * np.maximum(singular[:, :1], BLIND)
    # How many parameters the rows had to tell: what a prior tells costs them nothing.
    along = directions / np.where(seen, singular, np.inf)[..., None]
    taken = np.sum((unit @ along.mT) ** 2, axis=(-2, -1))
    pooled = np.sum(now.influence**2, axis=-1) / np.maximum(rows - taken, 1.0)

    bread = meat = known.mT @ known
    degrees, found_kinds = -taken, {}
    fewest = np.full(len(taken), np.inf)
    for name, mask in kinds.items():
        inside, part, psi = nests.of(mask), unit[:, mask], now.influence[:, mask]
        here = found_kinds[name] = independence(psi, inside, taken * mask.sum() / rows)
        square = part.mT @ part
        bread = bread + now.slope[:, mask].mean(axis=-1)[:, None, None] * square
        told_here = np.sum(along @ square * along, axis=(-2, -1))
        variance = here.variance
        if len(kinds) > 1:
            variance = _at_least(variance, here.units - told_here, pooled)
        meat = meat + variance[:, None, None] * square
        degrees = degrees + here.units
        for shared, shift in ((inside.round, here.round_shift), (inside.run, here.run_shift)):
            if np.any(shift > 0):
                sums = group_sums(part.mT, shared)
                meat = meat + shift[:, None, None] * (sums @ sums.mT)
                last = np.where(shift > 0, sums.shape[-1] - 1, np.inf)
                fewest = np.minimum(fewest, last)
    if cluster is not None:
        clusters = cluster.max() + 1
        sums = group_sums((now.influence[..., None] * unit).mT, cluster)
        small = clusters / (clusters - 1) * (rows - 1) / np.maximum(rows - taken, 1.0)
        meat = known.mT @ known + small[:, None, None] * (sums @ sums.mT)
        fewest = np.full(len(taken), clusters - 1.0)
    told = finite & (degrees > _NO_DEGREES)
    matrix = _sandwich(bread, meat, directions, seen) / norm[:, :, None] / norm[:, None]
    return (
        Covariances(
            np.where(told[:, None, None], matrix, 0.0),
            np.where(told[:, None, None], directions, np.eye(free)),
            seen & told[:, None],
            np.where(told[:, None], norm, 1.0),
            np.where(told, np.minimum(degrees, fewest), 1.0),
        ),
        found_kinds,
    )


def _where_finite(finite: np.ndarray, each: np.ndarray) -> np.ndarray:
    return np.where(finite.reshape(-1, *[1] * (each.ndim - 1)), each, 1.0)


def _at_least(variance: np.ndarray, spare: np.ndarray, pooled: np.ndarray) -> np.ndarray:
    """A kind's variance, and no less than its mean with the pooled one.

    Rows that a model goes through show no noise, and a variance of 0 would make points of
    intervals; the pooled one counts as if it had been seen in a few rows of this kind.
    """
    spare = np.maximum(spare, 0.0)
    joined = (spare * variance + POOLED_ROWS * pooled) / (spare + POOLED_ROWS)
    return np.maximum(variance, joined)


def _sandwich(
    bread: np.ndarray, meat: np.ndarray, directions: np.ndarray, seen: np.ndarray
) -> np.ndarray:
    """A⁻¹ B A⁻¹ along the directions that rows see, and 0 along the others."""
    both = seen[:, :, None] & seen[:, None]
    inner = np.where(both, directions @ bread @ directions.mT, np.eye(bread.shape[-1]))
    inverse = np.where(both, np.linalg.inv(inner), 0.0)
    return directions.mT @ inverse @ (directions @ meat @ directions.mT) @ inverse @ directions
