"""What a model of training steps misses, it misses alike on rows that are alike.

A library picks its kernels by the shape of a layer, a network its routes by the layout of groups:
no few constants tell such habits, but a row that was measured tells of the rows like it. So the
misses, log measured − log predicted, are taken as one Gaussian process over rows, of three parts:

K = aa' τ₁² exp(−d₁/ℓ₁) + τ₂² exp(−d₂/ℓ₂) + τ₃² exp(−d₂/ℓ₃) · [both across nodes] + σ²

with d₁ the distance of two layers' shapes (tensor, hidden, tokens, experts), d₂ that of two splits,
each in doublings. A row unlike all others is predicted by the model alone, and with the width that
misses have.

Most shapes miss by a few percent, and a few by half: a kernel that suits them badly. Taken as alike
these few would widen all the others and pull the constants, so each shape has a habit as large as
it shows: a² = max(1, (ν + z²)/(ν + 1)), with z its miss from what the rows of other shapes expect,
in standard deviations, as for Student's t with ν degrees. What is missed by much is then carried
whole to rows of the same shape, and hardly to others.

Source: C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning", 2006,
sections 2.7 (a model with explicit constants), 5.4.1 (maximum likelihood) and 5.4.2 (leave one
out); N. Cressie, "Statistics for Spatial Data", 1993, section 3.4; K. L. Lange, R. J. A. Little,
J. M. G. Taylor, "Robust statistical modeling using the t distribution", JASA 84, 1989, for a².
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

KEPT = ("recompute", "sequence_parallel", "fused_attention", "zero")
MIXED = ("experts", "active_experts", "expert")
SHAPE = ("tensor", "hidden", "micro_batch", "seq_len", *MIXED, *KEPT)
SPLIT = ("tensor", "data", "context", "pipeline", "micro_batch", "hidden", "layers", *MIXED, *KEPT)
"""What the distance of two shapes, and of two splits, is made of."""
SCALES = np.array([0.08, 0.7, 0.03, 2.0, 0.10, 2.0, 0.02])
"""τ₁ ℓ₁ τ₂ ℓ₂ τ₃ ℓ₃ σ before any row is seen: misses of some percent, alike within a doubling."""
_FACTOR = 1.35
"""The factor that each of them may be off by."""
_DIGITS = 9
"""Shapes that differ by less are one."""
_ROWS_LEARNT = 256
"""Rows that the scales are learnt from at most; more would add seconds and no digit."""
_BLOCK = 4096
_HEAVY = 1.0
"""ν: habits of shapes are as heavy-tailed as Cauchy's."""
_SMALL = 1e-3
_NORMAL = 1.4826
"""The deviation of a normal against the median of its absolute values."""


class Alike(NamedTuple):
    """Where rows stand, for their distances."""

    shape: np.ndarray
    """(rows, axes): of a layer's products, in doublings."""
    split: np.ndarray
    """(rows, axes): of the step's split, in doublings."""
    across: np.ndarray
    """(rows,): 1 where a run spans several nodes."""
    size: np.ndarray
    """(rows,): a, how large the habit of its shape is, against those of most."""

    def of(self, chosen: np.ndarray) -> "Alike":
        """The same of some rows."""
        return Alike(*(part[chosen] for part in self))


def alike(columns: dict[str, np.ndarray]) -> Alike:
    """Where rows stand, from what `training_columns` gives."""
    at = {name: position(name, columns[name]) for name in {*SHAPE, *SPLIT}}
    shape, split = (np.stack([at[name] for name in names], 1) for names in (SHAPE, SPLIT))
    across = 1.0 * (columns["devices"] > columns["node_size"])
    return Alike(shape.round(_DIGITS), split, across, np.ones(len(across)))


def position(name: str, values: np.ndarray) -> np.ndarray:
    """Where values of a column lie, for distances, of their shape: in doublings, layers in half."""
    if name in KEPT:
        return values
    return np.log2(values) / (2 if name == "layers" else 1)


def shared(scales: np.ndarray, first: Alike, second: Alike) -> list[np.ndarray]:
    """The three parts of the covariance between two sets of rows, without the noise."""
    shape, split = distance(first.shape, second.shape), distance(first.split, second.split)
    across = np.outer(first.across, second.across)
    return [
        np.outer(scales[0] * first.size, scales[0] * second.size) * np.exp(-shape / scales[1]),
        scales[2] ** 2 * np.exp(-split / scales[3]),
        scales[4] ** 2 * np.exp(-split / scales[5]) * across,
    ]


def noisy(scales: np.ndarray, where: Alike, say: np.ndarray) -> np.ndarray:
    """The covariance of rows, each with a noise of σ²/say of its own."""
    return sum(shared(scales, where, where)) + np.diag(scales[6] ** 2 / say)


def learn(
    scales: np.ndarray, where: Alike, miss: np.ndarray, say: np.ndarray, given: np.ndarray
) -> np.ndarray:
    """The likeliest scales, given the misses of rows.

    Args:
        scales: where to start.
        where: the rows stand.
        miss: (rows,), log measured − log predicted, with every constant at its prior.
        say: (rows,), how much each has to say: its noise is σ²/say.
        given: (rows, rows), covariance that the priors of the constants give them.
    """
    if len(miss) > _ROWS_LEARNT:
        chosen = np.linspace(0, len(miss) - 1, _ROWS_LEARNT).astype(int)
        where, miss, say = where.of(chosen), miss[chosen], say[chosen]
        given = given[np.ix_(chosen, chosen)]
    shape, split = distance(where.shape, where.shape), distance(where.split, where.split)

    def unlikely(logs: np.ndarray) -> tuple[float, np.ndarray]:
        scales = np.exp(logs)
        parts, noise = shared(scales, where, where), np.diag(scales[6] ** 2 / say)
        factor = cho_factor(sum(parts) + noise + given, lower=True)
        weight, inverse = cho_solve(factor, miss), cho_solve(factor, np.eye(len(miss)))
        pull = (logs - np.log(SCALES)) / np.log(_FACTOR) ** 2
        value = 0.5 * miss @ weight + np.log(np.diag(factor[0])).sum()
        value += 0.5 * pull @ (logs - np.log(SCALES))
        slopes = [
            slope
            for part, apart, reach in zip(
                parts, (shape, split, split), (scales[1], scales[3], scales[5]), strict=True
            )
            for slope in (2 * part, part * apart / reach)
        ]
        steepness = inverse - np.outer(weight, weight)
        gradient = [0.5 * np.sum(steepness * slope) for slope in (*slopes, 2 * noise)]
        return value, np.array(gradient) + pull

    found = minimize(unlikely, np.log(scales), jac=True, method="L-BFGS-B")
    return np.exp(found.x)


class Misses(NamedTuple):
    """The misses of fitted rows, and what they say of others."""

    scales: np.ndarray
    where: Alike
    miss: np.ndarray
    slope: np.ndarray
    """(rows, constants): of log predicted, by each u."""
    inverse: np.ndarray
    """(rows, rows): of their covariance."""
    deviation: np.ndarray
    """(rows,): miss of each from what the other rows expect, in standard deviations."""

    def carry(self, where: Alike, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the fitted rows' misses say of other rows.

        Returns:
            The miss expected (rows,), its variance (rows,), and the slopes (rows, constants) less
            what the fitted rows take of them.
        """
        where, covariance, weight = self._follow(where)
        habit, split, far = (self.scales[place] ** 2 for place in (0, 2, 4))
        own = habit * where.size**2 + split + far * where.across
        left = own - np.einsum("ij,ij->i", weight, covariance) + self.scales[6] ** 2
        return weight @ self.miss, np.maximum(left, 0.0), slope - weight @ self.slope

    def expected(self, where: Alike) -> np.ndarray:
        """The miss that the fitted rows' misses make expected of other rows, (rows,)."""
        told = self.inverse @ self.miss
        where = where._replace(size=self._sizes(where.shape))
        found = np.empty(len(where.across))
        for start in range(0, len(found), _BLOCK):
            some = where.of(np.arange(start, min(start + _BLOCK, len(found))))
            found[start : start + _BLOCK] = sum(shared(self.scales, some, self.where)) @ told
        return found

    def drawn(self, where: Alike, change: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """What rows may truly miss on machines that are not the fitted one.

        Args:
            where: the rows stand, of all machines alike.
            change: (machines, constants), of each u from the fitted one.
            random: for what the fitted rows leave open.

        Returns:
            (machines, rows), log of what is taken over what the machine says, without noise.
        """
        where, covariance, weight = self._follow(where)
        expected = (self.miss - change @ self.slope.T) @ weight.T
        left = sum(shared(self.scales, where, where)) - weight @ covariance.T
        variance, axes = np.linalg.eigh(left)
        root = np.linalg.qr((axes * np.sqrt(np.maximum(variance, 0.0))).T, mode="r")
        # A triangle, and a row of normals for each place: what is drawn for the first rows is the
        # same whatever follows them.
        normal = random.standard_normal(expected.T.shape).T
        # The own part of a row that follows from those before it is 0, and takes nothing away.
        signs = np.where(np.diag(root) < 0, -1.0, 1.0)
        return expected + normal @ (signs[:, None] * root)

    def _follow(self, where: Alike) -> tuple[Alike, np.ndarray, np.ndarray]:
        """Rows with their habits, their covariance with the fitted ones, and how they follow it."""
        where = where._replace(size=self._sizes(where.shape))
        covariance = np.sum(shared(self.scales, where, self.where), axis=0)
        return where, covariance, covariance @ self.inverse

    def forgotten(self) -> "Misses":
        """The same habits, of which no row has told anything yet."""
        none = np.empty(0, int)
        return self._replace(
            where=self.where.of(none),
            miss=self.miss[none],
            slope=self.slope[none],
            inverse=self.inverse[np.ix_(none, none)],
        )

    def _sizes(self, shape: np.ndarray) -> np.ndarray:
        """What the fitted rows say of the habits of these shapes; of a new one nothing."""
        known = dict(zip(map(tuple, self.where.shape), self.where.size, strict=True))
        return np.array([known.get(tuple(place), 1.0) for place in shape])


def habits(
    scales: np.ndarray, where: Alike, miss: np.ndarray, say: np.ndarray, given: np.ndarray
) -> np.ndarray:
    """How large the habit of each row's shape is, a of each row; arguments as in `learn`."""
    shape = _shapes(where)
    inverse = np.linalg.inv(noisy(scales, where, say) + given)
    own = np.eye(shape.max() + 1)[shape]
    precision = np.einsum("ic,ij,jc->c", own, inverse, own, optimize=True)
    expected = own.T @ inverse @ miss / precision
    # What a habit of size 1 would have as its variance, had its rows never been seen.
    size = own.T @ where.size / own.sum(0)
    variance = 1 / precision - (size**2 - 1) * scales[0] ** 2
    deviation = np.abs(expected) / np.sqrt(np.maximum(variance, scales[6] ** 2))
    # Against the median: scales learnt with the large ones among the others are too wide.
    squared = (deviation / (_NORMAL * max(np.median(deviation), _SMALL))) ** 2
    return np.sqrt(np.maximum((_HEAVY + squared) / (_HEAVY + 1), 1.0))[shape]


def left_out(
    scales: np.ndarray, where: Alike, miss: np.ndarray, say: np.ndarray, given: np.ndarray
) -> np.ndarray:
    """Each row's miss from what the other rows expect, in standard deviations; as in `learn`.

    Those of a row that has its shape alone are of a shape never seen, as rows to come may be.
    """
    inverse = np.linalg.inv(noisy(scales, where, say) + given)
    variance, noise = 1 / np.diag(inverse), scales[6] ** 2
    shape = _shapes(where)
    alone = np.bincount(shape)[shape] == 1
    unseen = variance - noise / say + noise - alone * (where.size**2 - 1) * scales[0] ** 2
    return inverse @ miss * variance / np.sqrt(np.maximum(unseen, noise))


def _shapes(where: Alike) -> np.ndarray:
    """(rows,): which rows have one shape, as numbers from 0."""
    return np.unique(where.shape, axis=0, return_inverse=True)[1].ravel()


def distance(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Between places, (…, axes) each: the sum over the axes, (first, second)."""
    # Axis by axis: all at once many rows would take a dozen times the memory.
    axes = zip(first.T, second.T, strict=True)
    return sum((np.abs(np.subtract.outer(a, b)) for a, b in axes), start=np.zeros(()))
