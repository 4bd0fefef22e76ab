"""The uncertainty of anything that is computed from a fitted model.

Models are drawn from the fit's distribution and each goes through the function, so that a bend (N*
that stops at 1, a latency that may be 0) shows in the interval, as no derivative would tell it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scaleopt.fitting.parameters import Coordinate, Parameters, Point
from scaleopt.fitting.result import Fit, check_level, depends_on_blind

_DRAWS = 4000
_SEED = 0


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
    with jax.enable_x64(True):
        best = jax.tree.map(jnp.asarray, fit.constrained)
        value, slope = value_and_slope(function, fit.parameters, best)
        if value.shape != ():
            raise ValueError(
                f"the function returns {value.shape} numbers; propagate takes one that returns one"
            )
        if fit.failure or bool(np.any(depends_on_blind(np.asarray(slope), fit.covariance))):
            return Estimate(float(value), -np.inf, np.inf, level)
        results = np.asarray(_values(function, fit.parameters, drawn_points(fit, draws)))
    tail = (1 - level) / 2
    low, high = np.quantile(results, [tail, 1 - tail], method="inverted_cdf")
    return Estimate(
        float(value), min(float(low), float(value)), max(float(high), float(value)), level
    )


def hangs_on_blind(function: Callable[[Any], Any], fit: Fit[Any]) -> bool:
    """Whether any of the numbers that the function returns changes along a blind direction."""
    with jax.enable_x64(True):
        best = jax.tree.map(jnp.asarray, fit.constrained)
        _, slope = value_and_slope(function, fit.parameters, best)
    return bool(np.any(depends_on_blind(np.asarray(slope), fit.covariance)))


@eqx.filter_jit
def value_and_slope(
    function: Callable[[Any], Any], parameters: Parameters, point: Point
) -> tuple[jax.Array, jax.Array]:
    """The function of the model at a point, and its derivative by each u."""

    def of_u(u: jax.Array) -> jax.Array:
        values = point._replace(u=u).values()
        return jnp.asarray(function(parameters.model(values)), float)

    u = jnp.asarray(point.u)
    return of_u(u), jax.jacfwd(of_u)(u)


@eqx.filter_jit
def _values(function: Callable[[Any], Any], parameters: Parameters, points: Point) -> jax.Array:
    """The function of the model at each of many points that differ in u."""

    def of_u(u: jax.Array) -> jax.Array:
        values = points._replace(u=u).values()
        return jnp.asarray(function(parameters.model(values)), float)

    return jax.vmap(of_u)(jnp.asarray(points.u))


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
    return point._replace(u=jnp.asarray(np.where(signed, np.clip(drawn, 0, point.highest), drawn)))
