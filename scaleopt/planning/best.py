"""The best whole number of devices: what can be rented, never more than there is."""

from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.fitting.propagate import Estimate, propagate
from scaleopt.fitting.result import Fit
from scaleopt.models.step import StepTime
from scaleopt.planning.optimum import (
    TimeModel,
    Workload,
    check_limit,
    check_workload,
    of_step_time,
    optimum_is_open,
)
from scaleopt.units import Scalar, real

_TILE = 65_536


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
        N; for a fit an `Estimate` whose range is of whole numbers too.

    Raises:
        ValueError: no `max_devices` where every further device helps (α = 0), or for a callable
            whose shape is not known; a work or size that is not a positive number.

    >>> step = StepTime(rate=120e12, alpha=8e-6, beta=1 / 25e9, serial_time=0.0167)
    >>> best_devices(step, 1e14, 1e8), best_devices(step, 1e14, 1e8, max_devices=8)
    (227, 8)
    """
    check_limit(max_devices)
    check_workload(flops, size)
    max_devices = None if max_devices is None else int(max_devices)
    if isinstance(step_time, Fit):
        return _best_of_fit(step_time, flops, size, max_devices, level)
    with jax.enable_x64(True):
        if isinstance(step_time, StepTime):
            most = np.inf if max_devices is None else float(max_devices)
            best = float(_whole_best(step_time, float(flops), float(size), most))
            if not np.isfinite(best):
                raise ValueError(
                    "every further device makes the step faster (alpha is 0 s), so there is no "
                    "best number; give max_devices"
                )
            return int(best)
        if max_devices is None:
            raise ValueError("max_devices is needed for a callable that is not a StepTime")
        return _best_by_trial(step_time, flops, size, max_devices)


@jax.jit
def _whole_best(step: StepTime, flops: Scalar, size: Scalar, most: Scalar) -> Array:
    """The best of one device and the whole numbers about N*: from two on T has one valley."""
    best = jnp.minimum(of_step_time(step, *real(flops, size)), most)
    within = jnp.isfinite(best)
    near = jnp.where(within, best, 1.0)
    tried = jnp.stack([jnp.ones_like(near), jnp.floor(near), jnp.ceil(near)])
    tried = jnp.maximum(tried, 1.0)
    return jnp.where(within, tried[jnp.argmin(step(tried, flops, size))], best)


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
    value = float(best_devices(fit.model, flops, size, max_devices=most))
    # Whole numbers do not move with a small change, so it is N* that tells of blind directions.
    if optimum_is_open(fit, flops, size):
        return Estimate(value, 1.0, limit, level)
    return propagate(_WholeOf(flops, size, limit), fit, level)._replace(value=value)


def _best_by_trial(time: TimeModel, flops: float, size: float, most: int) -> int:
    """The best whole N of any callable, every one of them evaluated."""
    best, least = 1, np.inf
    for start in range(1, most + 1, _TILE):
        devices = np.arange(start, min(start + _TILE, most + 1), dtype=float)
        seconds = np.asarray(time(devices, flops, size))
        if seconds.min() < least:
            best, least = int(devices[seconds.argmin()]), float(seconds.min())
    return best
