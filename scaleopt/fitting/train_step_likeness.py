"""What a model of training steps misses, it misses alike on rows that are alike.

A library picks its kernels by the shape of a layer, a network its routes by the layout of groups:
no few constants tell such habits, but a row that was measured tells of the rows like it. So the
misses, log measured − log predicted, are taken as one Gaussian process over rows, of three parts:

K = τ₁² exp(−d₁/ℓ₁) + τ₂² exp(−d₂/ℓ₂) + τ₃² exp(−d₂/ℓ₃) · [both across nodes] + σ²

with d₁ the distance of two layers' shapes (tensor, hidden, tokens), d₂ that of two splits, each in
doublings. A row unlike all others is predicted by the model alone, and with the width that misses
have.

Source: C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning", 2006,
sections 2.7 (a model with explicit constants), 5.4.1 (maximum likelihood) and 5.4.2 (leave one
out); N. Cressie, "Statistics for Spatial Data", 1993, section 3.4.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

SCALES = np.array([0.08, 0.7, 0.03, 2.0, 0.10, 2.0, 0.02])
"""τ₁ ℓ₁ τ₂ ℓ₂ τ₃ ℓ₃ σ before any row is seen: misses of some percent, alike within a doubling."""
_FACTOR = 1.35
"""The factor that each of them may be off by."""
_ROWS_LEARNT = 256
"""Rows that the scales are learnt from at most; more would add seconds and no digit."""
_TUKEY = 4.685


class Alike(NamedTuple):
    """Where rows stand, for their distances."""

    shape: np.ndarray
    """(rows, axes): of a layer's products, in doublings."""
    split: np.ndarray
    """(rows, axes): of the step's split, in doublings."""
    across: np.ndarray
    """(rows,): 1 where a run spans several nodes."""

    def of(self, chosen: np.ndarray) -> "Alike":
        """The same of some rows."""
        return Alike(*(part[chosen] for part in self))


def alike(columns: dict[str, np.ndarray]) -> Alike:
    """Where rows stand, from what `training_columns` gives."""
    log = {name: np.log2(columns[name]) for name in columns if np.all(columns[name] > 0)}
    kept = [columns[name] for name in ("recompute", "sequence_parallel", "fused_attention", "zero")]
    shape = [log[name] for name in ("tensor", "hidden", "micro_batch", "seq_len")]
    axes = ("tensor", "data", "context", "pipeline", "micro_batch", "hidden")
    split = [*(log[name] for name in axes), log["layers"] / 2]
    across = 1.0 * (columns["devices"] > columns["node_size"])
    return Alike(np.stack(shape + kept, 1), np.stack(split + kept, 1), across)


def shared(scales: np.ndarray, first: Alike, second: Alike) -> list[np.ndarray]:
    """The three parts of the covariance between two sets of rows, without the noise."""
    shape, split = _distance(first.shape, second.shape), _distance(first.split, second.split)
    across = np.outer(first.across, second.across)
    return [
        scales[0] ** 2 * np.exp(-shape / scales[1]),
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
    shape, split = _distance(where.shape, where.shape), _distance(where.split, where.split)

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
            for part, distance, reach in zip(
                parts, (shape, split, split), (scales[1], scales[3], scales[5]), strict=True
            )
            for slope in (2 * part, part * distance / reach)
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
        covariance = sum(shared(self.scales, where, self.where))
        weight = covariance @ self.inverse
        own = self.scales[0] ** 2 + self.scales[2] ** 2 + self.scales[4] ** 2 * where.across
        left = own - np.einsum("ij,ij->i", weight, covariance) + self.scales[6] ** 2
        return weight @ self.miss, np.maximum(left, 0.0), slope - weight @ self.slope


def left_out(
    scales: np.ndarray, where: Alike, miss: np.ndarray, say: np.ndarray, given: np.ndarray
) -> np.ndarray:
    """Each row's miss from what the other rows expect, in standard deviations; as in `learn`."""
    inverse = np.linalg.inv(noisy(scales, where, say) + given)
    variance, noise = 1 / np.diag(inverse), scales[6] ** 2
    return inverse @ miss * variance / np.sqrt(variance - noise / say + noise)


def tukey_weight(deviation: np.ndarray) -> np.ndarray:
    """(1 − (z/c)²)², and next to nothing beyond c: what a row has to say in spite of its miss."""
    inside = 1 - np.minimum((deviation / _TUKEY) ** 2, 1.0)
    return np.maximum(inside**2, 1e-6)


def _distance(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.abs(first[:, None] - second[None]).sum(-1)
