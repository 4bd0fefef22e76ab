"""The valley of a fit's loss over two of its parameters, the others at their best for each pair.

Far from the best point an interval is only as good as the square that it takes the loss for. Here
the loss itself is followed: at each place of a grid of two parameters the others are solved anew.
Each row keeps the say that the robust loss gives it at the best point, so that this is a sum of
squares (`scaleopt.fitting.squares`) whose minimum is the fit's. Misfit and shared shifts make a fit
less sure than its rows alone: the loss is scaled, in each direction, so that near the best point it
has the fit's own covariance. A place is in the region of a level where the scaled excess D of the
loss has D / 2 ≤ F(level; 2, ν).

A fit that is not of independent rows (training steps) has no such sum; of it the square of its
covariance is given. Near the best point that is the same, and it mostly suffices: a parameter that
the rows hardly see is solved where time is linear in it, and there a sum of squares is one.

Source: D. M. Bates and D. G. Watts, "Nonlinear Regression Analysis and Its Applications", 1988,
section 6.1 (profiles); R. E. Chandler and S. Bate, "Inference for clustered data using the
independence loglikelihood", Biometrika 94, 2007 (the scaling).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from scaleopt.fitting.parameters import Coordinate
from scaleopt.fitting.result import Fit
from scaleopt.fitting.squares import Squares, squared
from scaleopt.fitting.uncertainty import INVOLVED

_GRID, _OPEN_GRID = 41, 101
"""An open valley may be narrow, and it is not known before where it runs."""
_BEYOND, _BROADER, _TRIES = 1.35, 1.7, 3
_WIDEST = 0.95
"""The level of the widest region that is to be seen whole."""
_OPEN_REACH = np.log(30.0)
"""How far, as a log, a parameter is followed that nothing bounds."""


@dataclass(frozen=True)
class Valley:
    """Two parameters of a fit, and how possible each pair of values is."""

    names: tuple[str, str]
    units: tuple[str, str]
    logarithmic: tuple[bool, bool]
    """Whether the parameter is positive for certain, so that a log axis suits it."""
    inverse: tuple[bool, bool]
    """Whether 1/θ is given, in which time is linear, since θ may have no limit."""
    grid: tuple[np.ndarray, np.ndarray]
    """Of each parameter at each place of the grid; below 0 where it may be 0 or less."""
    best: tuple[float, float]
    """The best pair, possible or not."""
    possible: tuple[float, float]
    """The pair of `fit.model`."""
    share: np.ndarray
    """The level of the region that each place is on the border of."""
    square: np.ndarray | None
    """The same by the square alone, from which the fit's intervals are; None where open."""
    correlation: float
    """Of the two estimates; not a number where the rows do not tell them."""
    open: bool
    """Whether a parameter has a share in a direction that no row sees."""
    followed: bool
    """Whether the loss was followed, and not only its square drawn."""


def valley(fit: Fit[Any], first: str | None = None, second: str | None = None) -> Valley:
    """How possible each pair of values of two parameters is.

    Args:
        fit: of any model, not failed.
        first: a parameter; with `second` left out the one that it is most confounded with joins.
        second: another one. With neither, the two that are most confounded are taken.

    Raises:
        ValueError: fewer than two free parameters, or a name that is none of them.
    """
    pair = np.array(most_confounded(fit, first, second))
    point, open_ = fit.point, bool(fit.covariance.unseen[np.array(pair)].any())
    told = len(fit.covariance.blind) < len(fit.names)
    squares = Squares.of(fit.problem, point) if fit.problem is not None and told else None
    frame = _frame(fit, pair)
    steps, share, square = _regions(fit, pair, squares, frame)
    for _ in range(_TRIES):
        cut = np.array([np.min(share[[0, -1]]), np.min(share[:, [0, -1]])]) < _WIDEST
        if open_ or not cut.any():
            break
        frame = frame * np.where(cut, _BROADER, 1.0)
        steps, share, square = _regions(fit, pair, squares, frame)
    best, possible = (np.asarray(at.u)[pair] for at in (point, fit.constrained))
    first_values, second_values = (
        [_shown(fit, place, u[..., at]) for u in (best + steps, best, possible)]
        for at, place in enumerate(pair)
    )
    kinds = np.asarray(point.coordinate)[pair]
    return Valley(
        names=(fit.names[pair[0]], fit.names[pair[1]]),
        units=(fit.parameters.units[pair[0]], fit.parameters.units[pair[1]]),
        logarithmic=_two(kinds == Coordinate.LOG),
        inverse=_two(kinds == Coordinate.RECIPROCAL),
        grid=(first_values[0], second_values[0]),
        best=(float(first_values[1]), float(second_values[1])),
        possible=(float(first_values[2]), float(second_values[2])),
        share=share,
        square=square,
        correlation=np.nan if open_ else float(correlations(fit)[pair[0], pair[1]]),
        open=open_,
        followed=squares is not None,
    )


def correlations(fit: Fit[Any]) -> np.ndarray:
    """(parameters, parameters): of the estimates; 0 where the rows do not tell one of the two."""
    deviation = np.where(fit.covariance.unseen, 0.0, fit.covariance.deviation)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = fit.covariance.matrix / np.outer(deviation, deviation)
    return np.where(np.isfinite(ratio), ratio, 0.0)


def most_confounded(fit: Fit[Any], first: str | None, second: str | None) -> tuple[int, int]:
    """The places of two parameters: those named, and what confounds them most.

    Two that share a direction that no row sees come before any correlation.
    """
    names = fit.names
    if len(names) < 2:
        raise ValueError(f"the fit has one free parameter, {''.join(names)}; a valley is of two")
    for name in (first, second):
        if name is not None and name not in names:
            raise ValueError(f"{name!r} is no free parameter of the fit; it has {', '.join(names)}")
    if first is not None and first == second:
        raise ValueError(f"first and second are both {first!r}; name two parameters")
    blind = np.abs(fit.covariance.blind.T @ fit.covariance.blind)
    bond = np.where(blind > INVOLVED**2, 1 + blind, np.abs(correlations(fit)))
    np.fill_diagonal(bond, -1.0)
    named = [names.index(name) for name in (first, second) if name is not None]
    if len(named) == 2:
        return named[0], named[1]
    if named:
        return named[0], int(np.argmax(bond[named[0]]))
    once = np.where(np.triu(np.ones_like(bond), 1) > 0, bond, -1.0)
    one, other = np.unravel_index(np.argmax(once), once.shape)
    return int(one), int(other)


def _regions(
    fit: Fit[Any], pair: np.ndarray, squares: Squares | None, frame: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The steps of a grid, and the level of each by the loss and by its square."""
    open_ = fit.covariance.unseen[pair].any()
    side = np.linspace(-1, 1, _OPEN_GRID if open_ else _GRID)
    steps = np.stack(np.meshgrid(side, side, indexing="ij"), -1) @ frame.T
    square = None if open_ else _share(squared(steps, _precision(fit, pair)), fit)
    if squares is not None:
        return steps, _followed(fit, squares, pair, steps), square
    # Where the rows tell nothing at all, every place is as good as the best.
    return steps, np.zeros(steps.shape[:2]) if square is None else square, square


def _followed(fit: Fit[Any], squares: Squares, pair: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The level of the region that each step away from the best pair is on the border of."""
    excess, by_rows = squares.excess(pair, steps.reshape(-1, 2))
    if fit.covariance.unseen[pair].any():
        # Without a covariance of the pair, the mean factor over all that is seen.
        seen = len(fit.names) - len(fit.covariance.blind)
        factor = np.asarray(seen / np.sum(squares.told * fit.covariance.matrix))
    else:
        own = squared(steps.reshape(-1, 2), _precision(fit, pair))
        factor = np.where(by_rows > 0, own, 1.0) / np.where(by_rows > 0, by_rows, 1.0)
    return _share(excess * factor, fit).reshape(steps.shape[:-1])


def _precision(fit: Fit[Any], pair: np.ndarray) -> np.ndarray:
    """The inverse covariance of a pair that the rows tell."""
    return np.linalg.pinv(fit.covariance.matrix[np.ix_(pair, pair)])


def _share(excess: np.ndarray, fit: Fit[Any]) -> np.ndarray:
    return special.fdtr(2, fit.covariance.degrees, excess / 2)


def _frame(fit: Fit[Any], pair: np.ndarray) -> np.ndarray:
    """The steps from the best pair to the sides of the grid, along the valley where it is told."""
    deviation = fit.covariance.deviation[pair]
    if np.all(np.isfinite(deviation)):
        variance, axes = np.linalg.eigh(fit.covariance.matrix[np.ix_(pair, pair)])
        furthest = _BEYOND * np.sqrt(2 * special.fdtri(2, fit.covariance.degrees, _WIDEST))
        return axes * np.sqrt(np.maximum(variance, 0.0)) * furthest
    kind, u = (np.asarray(each)[pair] for each in (fit.point.coordinate, fit.point.u))
    signed = np.isin(kind, (Coordinate.LINEAR, Coordinate.RECIPROCAL))
    reach = np.where(signed, 3 * np.maximum(np.abs(u), 1e-3), _OPEN_REACH)
    told = np.isfinite(deviation) & signed
    return np.diag(np.where(told, 4 * np.where(told, deviation, 0.0), reach))


def _shown(fit: Fit[Any], place: int, u: np.ndarray) -> np.ndarray:
    """θ, or 1/θ where time is linear in that."""
    kind, scale = np.asarray(fit.point.coordinate)[place], np.asarray(fit.point.scale)[place]
    if kind == Coordinate.LINEAR:
        return scale * u
    if kind == Coordinate.RECIPROCAL:
        return u / scale
    return np.exp(u) if kind == Coordinate.LOG else special.expit(u)


def _two(flags: np.ndarray) -> tuple[bool, bool]:
    return bool(flags[0]), bool(flags[1])
