"""The constants of a machine that training steps make likeliest, with a prior on each.

u, the logs of the constants, is where (y − log T(u))ᵀ K⁻¹ (y − log T(u)) + |P (u − u₀)|² is
least, with P what is believed of them, and K, what is missed alike, learnt from the misses in turn.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.linalg import solve_triangular
from scipy.optimize import least_squares

from scaleopt.fitting.parameters import Parameters, Point
from scaleopt.fitting.seconds import (
    RowSeconds,
    log_time_and_slope,
    log_time_at,
    prepare_columns,
)
from scaleopt.fitting.train_step_likeness import (
    SCALES,
    Alike,
    Misses,
    alike,
    habits,
    learn,
    left_out,
    noisy,
)
from scaleopt.fitting.train_step_priors import Believed
from scaleopt.models.machine import Machine
from scaleopt.models.parallelism import Parallelism
from scaleopt.models.transformer import Transformer
from scaleopt.models.zero import zero_terms

_TURNS = 5
"""Constants, misses and habits are fitted in turns; a sixth changes no digit that is shown."""


class ObserveTrainStep(eqx.Module):
    """Seconds that a machine takes for the training step of each row."""

    fused: tuple[bool, ...] = eqx.field(static=True, default=(False,))
    """Whether attention is fused in some rows; both where rows differ."""

    @classmethod
    def of(cls, columns: dict[str, np.ndarray]) -> "ObserveTrainStep":
        """What these rows need."""
        return cls(tuple(sorted(set((columns["fused_attention"] > 0).tolist()))))

    def __call__(self, model: Machine, columns: dict[str, Array]) -> Array:
        """The seconds of each row."""
        names = ("hidden", "heads", "layers", "seq_len", "vocab", "kv_heads")
        names = (*names, "experts", "active_experts")
        shape: dict[str, Any] = {name: columns[name] for name in names}
        # A gate is a third matrix: three of width f are two of width 3f/2.
        width = columns["feed_forward"] * jnp.where(columns["gated"] > 0, 1.5, 1.0)
        axes = ("data", "tensor", "pipeline", "micro_batch", "interleave", "recompute", "context")
        axes = (*axes, "expert", "zero_bubble", "sequence_parallel")
        split = Parallelism(
            **{name: columns[name] for name in axes},
            accumulation=columns["global_batch"] / (columns["data"] * columns["micro_batch"]),
        )
        machine = replace(model, node_size=columns["node_size"])
        models = [
            Transformer(**shape, feed_forward=width, fused_attention=fused) for fused in self.fused
        ]
        seconds = [zero_terms(machine, model, split, columns["zero"]).total for model in models]
        return jnp.where(columns["fused_attention"] > 0, seconds[-1], seconds[0])


class Solved(NamedTuple):
    """Where the turns ended."""

    u: np.ndarray
    covariance: np.ndarray
    misses: Misses


class _Told(NamedTuple):
    """What rows say at the constants of a turn."""

    miss: np.ndarray
    slopes: np.ndarray
    whole: np.ndarray
    """(rows,): misses from the priors' medians."""
    given: np.ndarray
    """(rows, rows): what the priors leave open."""


def solve_turns(
    believed: Believed,
    columns: dict[str, np.ndarray],
    log_time: np.ndarray,
    repeats: np.ndarray,
) -> Solved:
    """Constants, and the scales of what they miss, in turns.

    Args:
        believed: the free constants, and how firmly their medians are.
        columns: as `training_columns` gives them, of different runs.
        log_time: (rows,), of what was measured.
        repeats: (rows,), how many measurements each is the mean of.
    """
    where = alike(columns)
    parameters, _, precision = believed
    point = parameters.start()
    prior = np.asarray(point.u)
    open_by = np.linalg.inv(precision)

    seconds = RowSeconds(ObserveTrainStep.of(columns), parameters, prepare_columns(columns))

    # A solver asks for what is missed and then, at the same place, for its slope.
    @lru_cache(1)
    def missed_at(u: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
        predicted, slope = log_time_at(seconds, point._replace(u=np.array(u)))
        return log_time - predicted, slope

    def missed(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return missed_at(tuple(u.tolist()))

    def turn(
        u: np.ndarray, scales: np.ndarray, where: Alike
    ) -> tuple[np.ndarray, np.ndarray, _Told]:
        root = np.linalg.cholesky(noisy(scales, where, repeats))

        def residual(u: np.ndarray) -> np.ndarray:
            even = solve_triangular(root, missed(u)[0], lower=True)
            return np.concatenate([even, precision @ (u - prior)])

        def slope(u: np.ndarray) -> np.ndarray:
            even = solve_triangular(root, -missed(u)[1], lower=True)
            return np.concatenate([even, precision])

        u = least_squares(residual, u, jac=slope).x
        miss, slopes = missed(u)
        # What misses say of their scales, and of each other, counts from the priors: from the
        # fitted constants they would look smaller than those of rows to come.
        unknown = slopes @ open_by
        told = _Told(miss, slopes, miss + slopes @ (u - prior), unknown @ unknown.T)
        return u, learn(scales, where, told.whole, repeats, told.given), told

    u, scales, seen = turn(prior, SCALES, where)
    for _ in range(_TURNS - 1):
        where = where._replace(size=habits(scales, where, seen.whole, repeats, seen.given))
        u, scales, seen = turn(u, scales, where)
    deviation = left_out(scales, where, seen.whole, repeats, seen.given)
    inverse = np.linalg.inv(noisy(scales, where, repeats))
    misses = Misses(scales, where, seen.miss, seen.slopes, inverse, deviation)
    told = misses.slope.T @ misses.inverse @ misses.slope + precision.T @ precision
    return Solved(u, np.linalg.inv(told), misses)


def log_time_of(
    parameters: Parameters, point: Point, columns: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Log T of rows, and its slope by each u, in float64."""
    return log_time_and_slope(ObserveTrainStep.of(columns), parameters, point, columns)
