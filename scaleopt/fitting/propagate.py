"""The uncertainty of anything that is computed from a fitted model.

Models are drawn from the fit's distribution and each goes through the function, so that a bend (N*
that stops at 1, a latency that may be 0) shows in the interval, as no derivative would tell it.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.fitting.on_host import Constants, apart
from scaleopt.fitting.operations import Program, program_of
from scaleopt.fitting.parameters import Coordinate, Parameters, Point
from scaleopt.fitting.prediction import depends_on_blind
from scaleopt.fitting.ranges import check_level
from scaleopt.fitting.result import Fit

_DRAWS = 4000
_SEED = 0
_PROGRAMS = 512


class Estimate(NamedTuple):
    """A number with the range that it lies in at a level of confidence."""

    value: float
    low: float
    high: float
    level: float


def propagate(
    function: Callable[[Any], Any], fit: Fit[Any], level: float = 0.95, *, draws: int = _DRAWS
) -> Estimate:
    """A number computed from a fit, with its interval.

    Args:
        function: takes a model like `fit.model` and returns one number; must be traceable by JAX.
        fit: where the model and its uncertainty come from.
        level: the share of such intervals that contain the truth.
        draws: how many models are drawn; the same ones for the same fit.

    Returns:
        The function of the best model, and quantiles over the draws. Where the function changes
        along a direction that the fit's rows do not see, the interval is all numbers.

    Raises:
        ValueError: a level that is no share, or a function that returns several numbers.

    >>> from jax.tree_util import Partial
    >>> import pandas as pd
    >>> from scaleopt.fitting.fit import fit
    >>> table = pd.DataFrame({"op": "step", "devices": [1, 2, 4, 8], "time_s": [9.1, 5, 2.9, 2]})
    >>> def amdahl(devices, *, serial, work):
    ...     return serial + work / devices
    >>> found = fit(Partial(amdahl, serial=2.0, work=5.0), table)
    >>> share = propagate(lambda law: law.keywords["serial"] / law(1), found, 0.9)
    >>> 0.05 < share.low < share.value < share.high < 0.2
    True

    Source: the parametric bootstrap, B. Efron and R. J. Tibshirani, "An Introduction to the
    Bootstrap", 1993, section 6.5.
    """
    check_level(level)
    blind = bool(fit.failure) or hangs_on_blind(function, fit)
    theta = fit.constrained.values()[None]
    if not blind:
        theta = np.concatenate([theta, drawn_points(fit, draws).values()])
    value, *results = _values(function, fit.parameters, theta)
    if value.shape != ():
        raise ValueError(
            f"the function returns {value.shape} numbers; propagate takes one that returns one"
        )
    if blind:
        return Estimate(float(value), -np.inf, np.inf, level)
    tail = (1 - level) / 2
    low, high = np.quantile(results, [tail, 1 - tail], method="inverted_cdf")
    return Estimate(
        float(value), min(float(low), float(value)), max(float(high), float(value)), level
    )


def hangs_on_blind(function: Callable[[Any], Any], fit: Fit[Any]) -> bool:
    """Whether any of the numbers that the function returns changes along a blind direction."""
    if not len(fit.covariance.blind):
        return False
    _, slope = value_and_slope(function, fit.parameters, fit.constrained)
    return bool(np.any(depends_on_blind(slope, fit.covariance)))


def value_and_slope(
    function: Callable[[Any], Any], parameters: Parameters, point: Point
) -> tuple[np.ndarray, np.ndarray]:
    """The function of the model at a point, and its derivative by each u."""
    with jax.enable_x64(True):
        value, slope = _value_and_slope(function, parameters, point.values())
    return np.asarray(value), np.asarray(slope) * point.slopes()


@eqx.filter_jit
def _value_and_slope(
    function: Callable[[Any], Any], parameters: Parameters, theta: Array | np.ndarray
) -> tuple[Array, Array]:
    """The function of the model with these free numbers, and its derivative by each of them."""

    def of(theta: Array) -> Array:
        return jnp.asarray(function(parameters.model(theta)), float)

    theta = jnp.asarray(theta)
    return of(theta), jax.jacfwd(of)(theta)


def _values(
    function: Callable[[Any], Any], parameters: Parameters, theta: np.ndarray
) -> np.ndarray:
    """The function of the model at each of many values of its free numbers."""
    arrays, constants = apart((function, parameters))
    shapes = tuple(jax.ShapeDtypeStruct(each.shape, each.dtype) for each in arrays)
    with jax.enable_x64(True):
        program = _program(constants, shapes, theta.shape[1])
        if program is None:
            return np.asarray(_at_many(constants)(tuple(theta.T), arrays))
    return np.broadcast_to(program(*theta.T, *arrays)[0], len(theta))


@lru_cache(_PROGRAMS)
def _value(constants: Constants) -> Any:
    """A function of a model, by the model's free numbers."""

    @jax.jit
    def value(theta: tuple[Array, ...], arrays: list[Array]) -> Array:
        function, parameters = constants.joined(arrays)
        return jnp.asarray(function(parameters.model(theta)), float)

    return value


@lru_cache(_PROGRAMS)
def _program(
    constants: Constants, arrays: tuple[jax.ShapeDtypeStruct, ...], free: int
) -> Program | None:
    """The same by NumPy, where it can be."""
    number = (jax.ShapeDtypeStruct((), np.float64),) * free
    traced = _value(constants).trace(number, [*arrays])
    return None if traced.out_info.shape else program_of(traced.jaxpr)


@lru_cache(_PROGRAMS)
def _at_many(constants: Constants) -> Callable[..., Array]:
    """A compiled program of the same at many points."""
    return jax.jit(jax.vmap(_value(constants), in_axes=(0, None)))


def drawn_points(fit: Fit[Any], draws: int) -> Point:
    """Points drawn from the fit's distribution, (draws, parameters) in `u`, none below 0."""
    generator = np.random.default_rng(_SEED)
    covariance, point = fit.covariance, fit.point
    u, kind = np.asarray(point.u), np.asarray(point.coordinate)
    normal = generator.multivariate_normal(
        np.zeros(len(u)), covariance.matrix, draws, method="eigh"
    )
    stretch = np.sqrt(generator.chisquare(covariance.degrees, (draws, 1)) / covariance.degrees)
    drawn = u + normal / stretch
    signed = np.isin(kind, (Coordinate.LINEAR, Coordinate.RECIPROCAL))
    return point._replace(u=np.where(signed, np.clip(drawn, 0, point.highest), drawn))
