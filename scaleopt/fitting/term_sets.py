"""A scaling curve from numbers of devices and times alone, averaged over what may cause it.

Every set of the terms of `ScalingTime` that includes the divided work is a model. Each is linear in
its coefficients, so that the best that are all possible are found by one non-negative least squares
of relative residuals, and a set of which one comes out as 0 is a smaller set. The sets are averaged
with the weight that the data give them: P(set) ∝ prior · (ν s² + Σe²)^(−(n+ν)/2) n^(−k/2), which is
Schwarz's criterion with a noise that is thought to be about s = 8 % before it is seen. Few points
can be fitted without error by chance; that thought keeps them from being believed. Residuals are
made independent before (`scaleopt.fitting.scaling_misfit`).

Terms that grow with N start at odds against them, latency 1 to 3 and contention 1 to 20: they turn
the curve up, contention like N itself, so that a chance support for them ruins any forecast.

Latency's odds, s and the drift of the misfit were chosen on published series of two codes (GROMACS
and OpenSBLI), cut at every N from the fourth on: each code alone prefers them to even odds, to
s = 5 % and to no drift.

Source: J. A. Hoeting et al., "Bayesian Model Averaging: A Tutorial", Statistical Science 14(4),
1999; C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems", 1974, chapter 23.
"""

from itertools import combinations
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import special
from scipy.optimize import nnls

from scaleopt.fitting.lengths import program_length
from scaleopt.models.curve import ScalingTime

TERMS = ("parallel_time", "serial_time", "surface_time", "latency_time", "contention_time")
"""The terms, in the order of every vector here; the first is in every set."""

NOISE, NOISE_ROWS = 0.08, 2.0
"""The relative scatter that is expected, and how many rows that expectation counts for."""

DRAWS, SEED = 4000, 0
_ODDS = {"latency_time": 1 / 3, "contention_time": 1 / 20}
_FEWEST = 64


class TermSet(NamedTuple):
    """One set of terms: what it gives and how far the data believe it."""

    names: tuple[str, ...]
    coefficients: np.ndarray
    """(terms,) in seconds; 0 for a term that is not in the set."""
    squares: float
    """Sum of squared relative residuals."""
    weight: float


def effects(count: np.ndarray) -> np.ndarray:
    """(rows, terms): seconds at each N for one second of each term, from the model itself."""
    padded = np.resize(count, program_length(len(count), _FEWEST))
    with jax.enable_x64(True):
        return np.asarray(_unit_curves(padded))[: len(count)]


@eqx.filter_jit
def _unit_curves(count: jax.Array | np.ndarray) -> jax.Array:
    unit = jnp.eye(len(TERMS), dtype=count.dtype)
    return jax.vmap(lambda times: jnp.asarray(ScalingTime(*times)(count)), out_axes=1)(unit)


def weighed(relative: np.ndarray, unit: np.ndarray) -> tuple[TermSet, ...]:
    """Every set of terms that is the best of its kind, with its weight.

    Args:
        relative: (rows, terms), effects over the measured times, made independent.
        unit: (rows,), what they add up to without error: ones, made independent likewise.
    """
    rows, terms = relative.shape
    found: dict[tuple[int, ...], tuple[np.ndarray, float, float]] = {}
    for size in range(1, min(rows, terms) + 1):
        for others in combinations(range(1, terms), size - 1):
            places = (0, *others)
            chosen = relative[:, places]
            length = np.linalg.norm(chosen, axis=0)
            if not np.all(length > 0):
                continue
            solved = nnls(chosen / length, unit)[0] / length
            if not np.all(solved[1:] > 0):
                continue
            squares = float(np.sum((unit - chosen @ solved) ** 2))
            score = -(rows + NOISE_ROWS) / 2 * np.log(NOISE_ROWS * NOISE**2 + squares)
            score -= size / 2 * np.log(rows)
            score += sum(np.log(_ODDS.get(TERMS[place], 1.0)) for place in places)
            coefficients = np.zeros(terms)
            coefficients[list(places)] = solved
            found[places] = (coefficients, squares, score)
    top = max(score for _, _, score in found.values())
    total = sum(np.exp(score - top) for _, _, score in found.values())
    sets = [
        TermSet(
            tuple(TERMS[place] for place in places),
            coefficients,
            squares,
            float(np.exp(score - top) / total),
        )
        for places, (coefficients, squares, score) in found.items()
    ]
    return tuple(sorted(sets, key=lambda each: -each.weight))


def drawn_curves(
    sets: tuple[TermSet, ...], relative: np.ndarray, repeat_noise: float
) -> tuple[np.ndarray, np.ndarray]:
    """Curves drawn from every set in proportion to its weight, and the noise under each."""
    random = np.random.default_rng(SEED)
    edges = np.round(np.cumsum([each.weight for each in sets]) * DRAWS).astype(int)
    draws, noise = [], []
    for each, count in zip(sets, np.diff(edges, prepend=0), strict=True):
        places = [TERMS.index(name) for name in each.names]
        degrees = len(relative) + NOISE_ROWS - len(places)
        variance = (NOISE_ROWS * NOISE**2 + each.squares) / special.chdtri(
            degrees, random.uniform(size=count)
        )
        length = np.linalg.norm(relative[:, places], axis=0)
        unit = relative[:, places] / length
        root = np.linalg.svd(unit, full_matrices=False)
        shift = (random.standard_normal((count, len(places))) / root.S) @ root.Vh / length
        drawn = np.zeros((count, len(TERMS)))
        moved = each.coefficients[places] + np.sqrt(variance)[:, None] * shift
        drawn[:, places] = np.maximum(moved, 0.0)
        draws.append(drawn)
        noise.append(np.sqrt(variance + repeat_noise**2))
    stacked, scatter = np.concatenate(draws), np.concatenate(noise)
    possible = stacked.sum(axis=1) > 0
    return stacked[possible], scatter[possible]
