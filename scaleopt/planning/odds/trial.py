"""Which run to try first: the one whose time, once measured, is expected to improve a choice most.

What is open about runs is told by draws, in which runs that are alike move together. A run that has
been measured moves what is expected of the others by their covariance with it; the choice is then
made anew. The gain is by how much less that choice takes, on average, than the one made now, and
nothing where no outcome would change the choice.

Source: P. I. Frazier, W. B. Powell, S. Dayanik, "The Knowledge-Gradient Policy for Correlated
Normal Beliefs", INFORMS Journal on Computing 21(4), 2009.
"""

from typing import NamedTuple

import numpy as np

CONSIDERED = 64
"""Runs that are thought of as trials: those that are most often the best."""


class Trial(NamedTuple):
    """A run worth measuring."""

    place: int
    """Among the candidates."""
    gain: float
    """Share of the objective that knowing it is expected to save."""


def first_trial(log_value: np.ndarray) -> Trial:
    """The run to measure first.

    Half of the draws tells how runs move together and the other half what is gained by it, in
    turns; what the run gains that the one half chooses is counted in the other. Else chance would
    be taken for gain.

    Args:
        log_value: (draws, candidates), log of what is to be small.

    Returns:
        The candidate whose measurement gains most, and what it gains.

    >>> random = np.random.default_rng(0)
    >>> steady, open_ = np.zeros(2000), 0.1 * random.standard_normal(2000)
    >>> found = first_trial(np.stack([steady, open_], 1))
    >>> found.place, round(found.gain, 2)  # 0.1/√(2π)
    (1, 0.04)
    """
    often = np.bincount(log_value.argmin(axis=1), minlength=log_value.shape[1])
    considered = np.argsort(-often, kind="stable")[:CONSIDERED]
    halves = log_value[::2], log_value[1::2]
    one, other = (_gains(told, asked, considered) for told, asked in (halves, halves[::-1]))
    gain = (one[other.argmax()] + other[one.argmax()]) / 2
    return Trial(int(considered[(one + other).argmax()]), max(float(gain), 0.0))


def expected_after(log_value: np.ndarray, place: int, measured: np.ndarray) -> np.ndarray:
    """What is expected of every candidate once one of them has been measured.

    Args:
        log_value: (draws, candidates).
        place: of the one measured.
        measured: (...), what it turned out to be, as a log.

    Returns:
        (..., candidates), as logs.
    """
    mean = log_value.mean(axis=0)
    away = log_value - mean
    variance = away[:, place] @ away[:, place]
    follow = away.T @ away[:, place] / max(variance, np.finfo(float).tiny)
    return mean + np.multiply.outer(measured - mean[place], follow)


def _gains(told: np.ndarray, asked: np.ndarray, considered: np.ndarray) -> np.ndarray:
    """What each trial gains in the draws asked, by the covariance of those told."""
    draws = np.arange(len(asked))
    now = np.exp(asked[:, told.mean(axis=0).argmin()]).mean()
    after = [
        asked[draws, expected_after(told, place, asked[:, place]).argmin(axis=1)]
        for place in considered
    ]
    return 1 - np.exp(after).mean(axis=1) / now
