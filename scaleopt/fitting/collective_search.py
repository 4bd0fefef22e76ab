"""Many fits of a link's envelope at once: every number of protocols, fold of cells and start.

Each lane is a fit of its own, and all take their damped Gauss–Newton steps together: cells that a
lane leaves out weigh 0, and protocols that it does without never win. Only the time of a cell and
its slopes are compiled, for cells that are padded to one of few shapes, so that a table of many
collectives compiles once. What the cells do not tell stays at its prior; both are under Huber's
loss, so that neither a wild cell nor a link unlike all others is held at any price.

Source: A. Gelman et al., "Bayesian Data Analysis", 3rd ed., 2013, section 14.8, for a normal prior
as additional rows of least squares; the loss is that of `scaleopt.fitting.solve`.
"""

from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from scaleopt.fitting.collective_link import log_time_there, numbers_of
from scaleopt.fitting.collective_prior import Prior
from scaleopt.fitting.collective_rows import Cells
from scaleopt.fitting.loss import huber

SHAPES = (64, 192, 4096)
"""To how many cells a group is padded; what is fitted is thinned to the middle one."""
_STEPS = 25
_NOISE = 0.05
"""Misses below this share of the time are the library's habits, not the prior's business."""


def padded(cells: Cells) -> Cells:
    """The cells, the last repeated up to one of the shapes that are compiled."""
    count = len(cells.size)
    shape = next(each for each in SHAPES if each >= count)
    return Cells(*(np.pad(each, (0, shape - count), mode="edge") for each in cells))


def search(
    cells: Cells, weight: np.ndarray, priors: list[Prior], begun: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fit every lane from where it begins.

    The noise that the loss is in units of is at first a guess, then what the first round missed.

    Args:
        cells: (cells,) each, the same for every lane.
        weight: (lanes, cells), 0 where a lane leaves a cell out.
        priors: one a lane.
        begun: (lanes, parameters).

    Returns:
        (lanes, parameters), where each ended, and (lanes,) its loss.
    """
    prior = Prior(*map(np.array, zip(*priors, strict=True)))
    lanes = _Lanes(cells, weight.astype(float), prior)
    first = lanes.descended(begun, np.full(len(begun), 2 * _NOISE))
    with np.errstate(invalid="ignore"):
        missed = np.where(weight > 0, np.abs(lanes.missed(first)[0]), np.nan)
    noise = np.maximum(1.5 * np.nanmedian(missed, axis=1), _NOISE)
    found = lanes.descended(first, noise)
    return found, lanes.loss(found, lanes.missed(found)[0] / _NOISE)


def missed_by_law(cells: Cells, u: np.ndarray) -> np.ndarray:
    """(lanes, cells): what the law alone misses, without the factors of single counts."""
    bare = u.copy()
    for each in bare:
        numbers_of(each).counts[:] = 0.0
    return cells.log_time - _asked(bare, cells)[0]


class _Lanes(NamedTuple):
    """Fits that differ in the cells they see and in their priors."""

    cells: Cells
    weight: np.ndarray
    prior: Prior

    def missed(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(lanes, cells) what the law misses, and (lanes, cells, parameters) its own slope."""
        time, slope = _asked(u, self.cells)
        return self.cells.log_time - time, slope

    def loss(self, u: np.ndarray, miss: np.ndarray) -> np.ndarray:
        """(lanes,): that of misses in units of their noise, and of being away from the prior."""
        away = huber((u - self.prior.centre) / self.prior.width).twice / 2
        return np.sum(self.weight * huber(miss).twice / 2, axis=1) + np.sum(away, axis=1)

    def descended(self, u: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Where damped Gauss–Newton steps lead every lane."""
        centre, width = self.prior
        noise, damping = noise[:, None], np.full((len(u), 1), 1e-2)
        miss, slope = self.missed(u)
        for _ in range(_STEPS):
            here, pull = miss / noise, (centre - u) / width
            heavy, held = self.weight * huber(here).curvature, huber(pull).curvature
            gradient = (slope.mT @ (heavy * here / noise)[..., None])[..., 0] + held * pull / width
            curvature = slope.mT @ (slope * (heavy / noise**2)[..., None])
            own = np.einsum("lii->li", curvature)  # a view: what is added to it is added there
            own += held / width**2
            own *= 1 + damping
            tried = u + np.linalg.solve(curvature, gradient[..., None])[..., 0]
            there, slope_there = self.missed(tried)
            better = (self.loss(tried, there / noise) < self.loss(u, here))[:, None]
            damping = np.clip(np.where(better, damping / 3, damping * 4), 1e-9, 1e8)
            u, miss = np.where(better, tried, u), np.where(better, there, miss)
            slope = np.where(better[..., None], slope_there, slope)
        return u


def _asked(u: np.ndarray, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    """(lanes, cells) log seconds of each cell, and their slopes."""
    with jax.enable_x64(True):
        time, slope = (np.asarray(each)[:, : len(cells.size)] for each in _slopes(u, padded(cells)))
    return time, slope


@jax.jit
def _slopes(u: Array, cells: Cells) -> tuple[Array, Array]:
    """The same of padded cells.

    One cell's time backwards, for all cells at once: far cheaper than each parameter forwards.
    """
    one = jax.vmap(jax.value_and_grad(log_time_there), in_axes=(None, 0))
    return jax.vmap(one, in_axes=(0, None))(u, cells)
