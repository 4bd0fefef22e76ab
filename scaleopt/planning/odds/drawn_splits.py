"""The best splits of a workload, on machines drawn from a fit."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.fitting.parameters import Parameters, Point
from scaleopt.fitting.propagate import drawn_points, hangs_on_blind
from scaleopt.fitting.result import Fit
from scaleopt.models.workload_time import AnyMachine, workload_time
from scaleopt.planning.odds.drawn import CANDIDATES, Drawn, Span, with_nodes_of
from scaleopt.planning.searching.configuration import Configuration
from scaleopt.planning.searching.workload_search import SearchedWorkload


def drawn_splits(fit: Fit[Any], side: SearchedWorkload, best: Configuration, draws: int) -> Drawn:
    """The best splits by the fitted machine, the chosen one first, on drawn machines.

    Args:
        fit: of the machine.
        side: the offer that the best is on.
        best: the choice.
        draws: how many machines.

    Returns:
        The candidates.
    """
    short = side.found.shortlist
    kept = np.flatnonzero(short.value < np.inf)[:CANDIDATES]
    ours = (short.rows[:, kept] == np.array([best.split]).T).all(axis=0)
    kept = np.concatenate([kept[ours], kept[~ours]])
    rows, none = short.rows[:, kept], np.zeros(len(kept), np.int64)
    # Always as many, so that one program serves; what fills them up is left out again.
    split = side.splits.kind(*(np.resize(row, CANDIDATES) for row in rows.astype(np.float64)))
    with jax.enable_x64(True):
        points = drawn_points(fit, draws)
        seconds = np.asarray(_seconds(fit.parameters, points, side.machine, side.workload, split))
    listed = side.splits.kind(*rows)
    batch = np.broadcast_to(np.asarray(side.workload.samples(listed)), len(kept))
    nominal, held = short.seconds[kept], short.held[kept]
    return Drawn(seconds[:, : len(kept)], nominal, held, rows, none, listed.devices, batch)


def split_span(
    fit: Fit[Any], side: SearchedWorkload, best: Configuration, seconds: np.ndarray, level: float
) -> Span:
    """The range of a step to come: of the drawn machines, joined with the scatter of the rows.

    Args:
        fit: of the machine.
        side: the offer that the best is on.
        best: the choice.
        seconds: (draws,), of its step on each drawn machine.
        level: of the range.

    Returns:
        The range.
    """

    def takes(machine: AnyMachine) -> Array:
        return workload_time(machine, side.workload, best.split)

    spreads = {noise.name: noise.spread(level) for noise in fit.noise}
    scatter = spreads.get("step", max(spreads.values()))
    tail = (1 - level) / 2
    reach = np.abs(np.log(np.quantile(seconds, [tail, 1 - tail]) / best.step_time))
    low, high = np.exp(np.hypot(reach, scatter) * [-1, 1]) * best.step_time
    return Span(float(low), float(high), hangs_on_blind(takes, fit))


@eqx.filter_jit
def _seconds(
    parameters: Parameters, points: Point, fitted: AnyMachine, workload: Any, split: Any
) -> Array:
    """Seconds of a step of each split on each drawn machine, (draws, splits)."""

    def on(u: Array) -> Array:
        machine = with_nodes_of(fitted, parameters.model(points._replace(u=u).values()))
        return jnp.broadcast_to(workload_time(machine, workload, split), jnp.shape(split[0]))

    return jax.lax.map(on, jnp.asarray(points.u))
