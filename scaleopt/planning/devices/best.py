"""The best whole number of devices: what can be rented, never more than there is."""

from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.fitting.on_host import at_each
from scaleopt.fitting.propagate import Estimate, propagate
from scaleopt.fitting.result import Fit
from scaleopt.models.step import StepTime
from scaleopt.planning.devices.optimum import (
    TimeModel,
    Workload,
    check_limit,
    check_time,
    check_workload,
    of_step_time,
    optimum_is_open,
    told,
)
from scaleopt.units import Scalar, real

_TILE = 65_536
_FARTHEST, _GRID = 2.0**24, 2049
_CELL = 1.02 * (_FARTHEST ** (1 / (_GRID - 1)) - 1)
"""How far the numbers of a cell of the grid lie from its middle, at most, as a share of it."""


@overload
def best_devices(
    step_time: Fit[Any],
    flops: float,
    size: float,
    *,
    max_devices: int | None = None,
    level: float = 0.95,
) -> Estimate: ...
@overload
def best_devices(
    step_time: TimeModel,
    flops: float,
    size: float,
    *,
    max_devices: int | None = None,
    level: float = 0.95,
) -> int: ...
def best_devices(
    step_time: Fit[Any] | TimeModel,
    flops: float,
    size: float,
    *,
    max_devices: int | None = None,
    level: float = 0.95,
) -> Estimate | int:
    """The best whole number of devices; of equally good ones the smallest.

    Args:
        step_time: a `StepTime`, any callable of (devices, flops, size), or a fit of a `StepTime`.
        flops: W [FLOP], work of the step over all devices.
        size: M [B], bytes of the gradients.
        max_devices: the most there are; never exceeded. A callable that is not a `StepTime` has
            every N up to it evaluated.
        level: of the interval, for a fit.

    Returns:
        N; for a fit an `Estimate` whose range is of whole numbers too, and whose value is nan where
        its rows leave every number possible.

    Raises:
        ValueError: no `max_devices` where every further device helps (α = 0), or for a callable
            whose shape is not known; a work or size that is not a positive number.
        TypeError: a `Machine` or a fit of one, whose best split is found by `plan`.

    >>> step = StepTime(rate=120e12, alpha=8e-6, beta=1 / 25e9, serial_time=0.0167)
    >>> best_devices(step, 1e14, 1e8), best_devices(step, 1e14, 1e8, max_devices=8)
    (227, 8)
    """
    check_limit(max_devices)
    check_time(step_time)
    check_workload(flops, size)
    max_devices = None if max_devices is None else int(max_devices)
    if isinstance(step_time, Fit):
        return _best_of_fit(step_time, flops, size, max_devices, level)
    if isinstance(step_time, StepTime):
        most = np.inf if max_devices is None else float(max_devices)
        return int(_finite(float(at_each(_whole_best, step_time, flops, size, most))))
    with jax.enable_x64(True):
        if max_devices is None:
            raise ValueError("max_devices is needed for a callable that is not a StepTime")
        return _best_by_trial(step_time, flops, size, max_devices)


def _finite(best: float) -> float:
    """The best number, where there is one."""
    if not np.isfinite(best):
        raise ValueError(
            "every further device makes the step faster (alpha is 0 s), so there is no "
            "best number; give max_devices"
        )
    return best


@jax.jit
def _whole_best(step: StepTime, flops: Scalar, size: Scalar, most: Scalar) -> Array:
    """The best whole number of devices.

    Without a spread T falls up to the N at which the all-reduce outgrows what hides it and has one
    valley beyond, so the best is one device or next to N*; with one it may have two.
    """
    flops, size, most = real(flops, size, most)
    best = of_step_time(step, flops, size, most)
    within = jnp.isfinite(best)
    near = jnp.where(within, best, 1.0)
    whole, least = jnp.ones_like(near), step(1.0, flops, size)
    for tried in (jnp.floor(near), jnp.ceil(near)):
        seconds = step(tried, flops, size)
        whole, least = jnp.where(seconds < least, tried, whole), jnp.minimum(seconds, least)
    if step.spread is not None:
        whole = _best_of_grid(step, flops, size, most, whole)
    return jnp.where(within, whole, best)


def _best_of_grid(step: StepTime, flops: Array, size: Array, most: Array, whole: Array) -> Array:
    """The best whole number of a grid, of those about the best of it, and of one known before."""
    beyond = jnp.minimum(most, _FARTHEST)
    steps = jnp.geomspace(jnp.ones_like(beyond), beyond, _GRID)
    coarse = jnp.minimum(jnp.round(steps), beyond)
    tried = jnp.append(coarse, whole)
    center = tried[jnp.argmin(step(tried, flops, size))]
    # About the best of the grid every number, or as many as a cell of it has.
    around = jnp.linspace(-1.0, 1.0, _GRID) * jnp.maximum(center * _CELL, _GRID / 2)
    tried = jnp.concatenate([tried, jnp.clip(jnp.round(center + around), 1.0, beyond)])
    tried = jnp.sort(tried)
    return tried[jnp.argmin(step(tried, flops, size))]


class _WholeOf(Workload):
    """The best whole N of a model for the workload."""

    def __call__(self, model: Any) -> Scalar:
        return _whole_best(model, self.flops, self.size, self.most)


def _best_of_fit(
    fit: Fit[Any], flops: float, size: float, most: int | None, level: float
) -> Estimate:
    """The best whole N of the fitted model, and of the models drawn about it."""
    if not isinstance(fit.model, StepTime):
        raise TypeError(
            f"best_devices takes a fit of a StepTime, not of {type(fit.model).__name__}; "
            "use best_devices(fit.model, …) or propagate(…, fit)"
        )
    limit = np.inf if most is None else float(most)
    # Whole numbers do not move with a small change, so it is N* that tells of blind directions.
    if optimum_is_open(fit, flops, size):
        return Estimate(np.nan, 1.0, limit, level)
    whole = propagate(_WholeOf(flops, size, limit), fit, level)
    return told(whole._replace(value=_finite(whole.value)), limit)


def _best_by_trial(time: TimeModel, flops: float, size: float, most: int) -> int:
    """The best whole N of any callable, every one of them evaluated."""
    best, least = 1, np.inf
    for start in range(1, most + 1, _TILE):
        devices = np.arange(start, min(start + _TILE, most + 1), dtype=float)
        seconds = np.asarray(time(devices, flops, size))
        if seconds.min() < least:
            best, least = int(devices[seconds.argmin()]), float(seconds.min())
    return best
