"""The best number of devices: where one more device costs as much latency as it saves compute.

For T(N) = serial + W/(N r) + 2(N − 1) α + 2((N − 1)/N) β M the minimum over real N is

N* = sqrt((W/r − 2βM) / (2α)),

1 where W/r ≤ 2βM (no split pays), and infinite where α = 0 (every further device pays, ever less).
Work that divides unevenly counts as that much more work. With overlap o the all-reduce is hidden
up to the N at which it outgrows o times the compute; the minimum is there, or further out at
sqrt(((1 + λ − o) W/r − 2βM) / (2α)). With a spread of the compute times, and for any other model,
no closed form is known and a search finds the minimum.
"""

from collections.abc import Callable
from typing import Any, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.fitting.propagate import Estimate, hangs_on_blind, propagate
from scaleopt.fitting.result import Fit
from scaleopt.models.collectives import all_reduce_time
from scaleopt.models.step import StepTime
from scaleopt.planning.devices.minimum import least_place
from scaleopt.units import Bytes, Count, Flops, Scalar, Seconds, real

TimeModel = Callable[[Count, Flops, Bytes], Seconds]
"""Anything that gives the seconds of a step from devices, FLOP and bytes."""

_FARTHEST = 2.0**40
_JUST_ABOVE_ONE = 1 + 1e-6


@overload
def optimal_devices(
    step_time: Fit[Any],
    flops: float,
    size: float,
    *,
    max_devices: float | None = None,
    level: float = 0.95,
) -> Estimate: ...
@overload
def optimal_devices(
    step_time: TimeModel,
    flops: Flops,
    size: Bytes,
    *,
    max_devices: float | None = None,
    level: float = 0.95,
) -> Count: ...
def optimal_devices(
    step_time: Fit[Any] | TimeModel,
    flops: Scalar,
    size: Scalar,
    *,
    max_devices: float | None = None,
    level: float = 0.95,
) -> Estimate | Count:
    """The real number of devices N* that makes a step fastest.

    N* = sqrt((W/r − 2βM) / (2α)) for a `StepTime` of the textbook; see the module for the cases.
    Any other callable is minimised over log N, and differentiated through the minimum's condition
    dT/dN = 0, not through the search; where it has a jump or a kink at its minimum, as 0.

    Args:
        step_time: a `StepTime`, any callable of (devices, flops, size), or a fit of one.
        flops: W [FLOP], work of the step over all devices.
        size: M [B], bytes of the gradients.
        max_devices: the largest N to consider; without it N* may be infinite.
        level: of the interval, for a fit.

    Returns:
        N*, at least 1, differentiable in every parameter; for a fit an `Estimate` with its range,
        whose value is nan where its rows leave every number possible.

    Raises:
        ValueError: `max_devices` below 1.
        TypeError: a `Machine` or a fit of one, whose best split is found by `plan`.

    >>> step = StepTime(rate=120e12, alpha=8e-6, beta=1 / 25e9, serial_time=0.0167)
    >>> round(float(optimal_devices(step, 1e14, 1e8)), 1)
    227.1
    >>> float(optimal_devices(step, 1e12, 1e12))
    1.0
    >>> float(optimal_devices(step, 1e14, 1e8, max_devices=64))
    64.0

    Source: set dT/dN = 0; the all-reduce as `all_reduce_time`.
    """
    check_limit(max_devices)
    check_time(step_time)
    if isinstance(step_time, Fit):
        most = float("inf") if max_devices is None else max_devices
        return told(optimum_of_fit(step_time, flops, size, max_devices, level), most)
    return _optimum(step_time, flops, size, np.inf if max_devices is None else max_devices)


def check_time(step_time: Any) -> None:
    """Refuse a time that is not one of devices, FLOP and bytes alone."""
    model = step_time.model if isinstance(step_time, Fit) else step_time
    if isinstance(model, StepTime):
        return
    from scaleopt.models.machine import Machine  # with all it needs, which a step does not

    if isinstance(model, Machine):
        raise TypeError(
            "a Machine takes a model and its split, so that a number of devices alone has no time; "
            "use so.plan(model, machine_or_fit, devices=…, memory=…, global_batch=…)"
        )


def check_limit(max_devices: float | None) -> None:
    """Refuse a limit that leaves no device; a traced one passes."""
    if isinstance(max_devices, (int, float)) and not max_devices >= 1:
        raise ValueError(f"max_devices={max_devices}; it must be 1 or more")


def check_workload(flops: float, size: float) -> None:
    """Refuse a step without work, or with less than no gradients."""
    if not 0 < flops < np.inf:
        raise ValueError(f"flops={flops} FLOP; the work of a step must be above 0 and finite")
    if not 0 <= size < np.inf:
        raise ValueError(f"size={size} B; the bytes of the gradients must be 0 or more and finite")


def told(estimate: Estimate, most: float) -> Estimate:
    """An estimate of devices within 1 and the most; nan where any number may be."""
    value = np.nan if estimate.low <= 1 and np.isinf(estimate.high) else estimate.value
    return estimate._replace(value=value, low=max(estimate.low, 1.0), high=min(estimate.high, most))


def _optimum(time: TimeModel, flops: Scalar, size: Scalar, most: Scalar) -> Array:
    """N* of any model, at most `most`, which may be infinite."""
    if isinstance(time, StepTime):
        return of_step_time(time, flops, size, most)
    return _by_search(time, flops, size, most)


def of_step_time(step: StepTime, flops: Scalar, size: Scalar, most: Scalar) -> Array:
    """N* of a step model up to a limit; in closed form where its compute times have no spread."""
    step = jax.tree.map(lambda leaf: real(leaf)[0], step)  # large integers overflow in jit
    return _of_step_time(step, *real(flops, size, most))


@jax.jit
def _of_step_time(step: StepTime, flops: Array, size: Array, most: Array) -> Array:
    alpha, beta, imbalance = real(step.alpha, step.beta, step.imbalance)
    (whole,) = real(step.terms(1.0, flops, 0.0).compute)
    compute, overlap = whole * (1 + imbalance), jnp.asarray(step.overlap) / step.accumulation
    transfer, hop = 2 * beta * size, 2 * alpha
    # The all-reduce outgrows what hides it where hop N² + b N = transfer + overlap · compute.
    slope, hidden = transfer - hop, transfer + overlap * whole
    root = _safe_root(slope**2 + 4 * hop * hidden)
    # Of the two forms of the root the one without cancellation; they agree.
    backward = _safe_ratio(2 * hidden, slope + root)
    forward = _safe_ratio(root - slope, 2 * hop)
    outgrown = jnp.where(slope > 0, backward, jnp.where(hop > 0, forward, jnp.inf))
    outgrown = jnp.clip(jnp.where(overlap > 0, outgrown, 1.0), 1.0, most)
    if step.spread is None:
        exposed = _safe_root(_safe_ratio(compute - overlap * whole - transfer, hop))
        best = jnp.minimum(jnp.maximum(exposed, outgrown), most)
    else:
        best = _exposed_by_search(step, flops, size, outgrown, most)
    # What begins with the second device may make one alone better than any valley beyond.
    finite = jnp.isfinite(best)
    at_best = step(jnp.where(finite, best, 1.0), flops, size)
    endless = real(step.serial_time)[0] + step.launch + transfer
    alone = step(1.0, flops, size) <= jnp.where(finite, at_best, endless)
    return jnp.where((best > 1) & alone, 1.0, best)


def _exposed_by_search(
    step: StepTime, flops: Array, size: Array, least: Array, most: Array
) -> Array:
    """N* from `least` on, where compute hides all that it can and T is a smooth function of N."""

    def seconds(devices: Count, flops: Flops, size: Bytes) -> Scalar:
        terms = step.terms(devices, flops, size, all_reduce=0.0)
        busy = terms.compute + terms.imbalance + terms.straggling
        all_reduce = all_reduce_time(size, devices, step.alpha, step.beta)
        return busy + all_reduce - step.overlap / step.accumulation * terms.compute

    # What sets in with the second device is no part of the valley; one alone is compared later.
    least = jnp.maximum(least, _JUST_ABOVE_ONE)
    finite = jnp.isfinite(least)
    found = _by_search(seconds, flops, size, most, jnp.where(finite, least, _JUST_ABOVE_ONE))
    return jnp.where(finite, found, most)


def _by_search(
    time: TimeModel, flops: Scalar, size: Scalar, most: Scalar, least: Scalar = 1.0
) -> Array:
    """N* of any callable from `least` to `most`, for each W and M; infinite where T only falls."""

    def alone(flops: Array, size: Array, most: Array, least: Array) -> Array:
        def seconds(log_devices: Array) -> Array:
            return jnp.asarray(time(jnp.exp(log_devices), flops, size))

        end = jnp.maximum(jnp.minimum(most, _FARTHEST), least)
        return jnp.exp(least_place(seconds, jnp.log(least), jnp.log(end)))

    flops, size, most, least = real(flops, size, most, least)
    best = jnp.vectorize(alone)(flops, size, most, least)
    # Still falling at the end of a search without a limit: every further device pays.
    endless = jnp.isinf(most) & (best >= 0.99 * _FARTHEST)
    return jnp.where(endless, jnp.inf, jnp.minimum(best, most))


def _safe_ratio(gain: Array, cost: Array) -> Array:
    """Gain / cost; ∞ where a gain costs nothing, 0 where there is no gain, with finite gradients.

    A division by the true cost of 0 would be NaN in the gradient even where it is not taken.
    """
    free = cost <= 0
    ratio = gain / jnp.where(free, 1.0, cost)
    return jnp.where(gain <= 0, 0.0, jnp.where(free, jnp.inf, ratio))


def _safe_root(square: Array) -> Array:
    """The root; the slope of √ is infinite at 0, and 0 is returned there with slope 0."""
    positive = square > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1.0)), 0.0)


def optimum_of_fit(
    fit: Fit[Any], flops: Scalar, size: Scalar, most: float | None, level: float
) -> Estimate:
    """N* of a fit; all numbers where the rows do not see what N* hangs on."""
    optimum = _OptimumOf(flops, size, np.inf if most is None else most)
    if isinstance(fit.model, StepTime) and optimum_is_open(fit, flops, size):
        return Estimate(np.nan, -np.inf, np.inf, level)
    return propagate(optimum, fit, level)


def optimum_is_open(fit: Fit[StepTime], flops: Scalar, size: Scalar) -> bool:
    """Whether N* hangs on what the fit's rows do not see."""
    return bool(fit.failure) or hangs_on_blind(_Balance(flops, size, np.inf), fit)


def _array(value: Scalar) -> np.ndarray:
    return np.asarray(value, float)


class Workload(eqx.Module):
    """A step's work and gradient bytes, and the most devices; arrays, so that one program serves.

    Args:
        flops: W [FLOP].
        size: M [B].
        most: the largest N, or infinity.
    """

    flops: Scalar = eqx.field(converter=_array)
    size: Scalar = eqx.field(converter=_array)
    most: Scalar = eqx.field(converter=_array)


class _Balance(Workload):
    """What N* is made of. N* itself does not move where it is held at 1 or at a limit."""

    def __call__(self, model: StepTime) -> Array:
        alpha, beta, overlap = real(model.alpha, model.beta, model.overlap)
        compute = model.terms(1.0, self.flops, 0.0).compute
        transfer, overlap = 2 * beta * self.size, overlap / model.accumulation
        hidden = jnp.where(overlap > 0, transfer + overlap * compute, 0.0)
        return jnp.stack([(1 + model.imbalance - overlap) * compute - transfer, alpha, hidden])


class _OptimumOf(Workload):
    """N* of a model for the workload."""

    def __call__(self, model: Any) -> Scalar:
        return _optimum(model, self.flops, self.size, self.most)
