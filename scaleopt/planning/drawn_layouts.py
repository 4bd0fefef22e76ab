"""The best layouts with their options, on machines drawn from a fit."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.fitting.on_host import at_each
from scaleopt.fitting.parameters import Parameters, Point
from scaleopt.fitting.propagate import drawn_points
from scaleopt.fitting.result import Fit
from scaleopt.fitting.train_step_likeness import Alike, alike
from scaleopt.models.machine import Machine
from scaleopt.planning.configuration import Configuration
from scaleopt.planning.layouts import AXES, batch_of, devices_of
from scaleopt.planning.likeness import misses_of, run_columns
from scaleopt.planning.searched_layouts import SearchedLayouts
from scaleopt.planning.tables import OPTIONS, Problem, evaluate, parts_of, step_of
from scaleopt.units import Scalar

LAYOUTS, CANDIDATES = 256, 512
"""Of the list the best layouts, and of these with every option the best, are scored anew."""
_SEED = 0


class Drawn(NamedTuple):
    """The candidates, and what each takes on each drawn machine."""

    seconds: np.ndarray
    """(draws, candidates)"""
    held: np.ndarray
    rows: np.ndarray
    """(axes, candidates)"""
    option: np.ndarray
    devices: np.ndarray
    batch: np.ndarray


def drawn_layouts(fit: Fit[Any], side: SearchedLayouts, best: Configuration, draws: int) -> Drawn:
    """The best configurations by the fitted machine, the chosen one first, on drawn machines.

    What each takes beyond the machine's own seconds is drawn too, alike for those that are alike
    (`fitting.train_step_likeness`).

    Args:
        fit: of the machine.
        side: the offer that the best is on.
        best: the choice.
        draws: how many machines.
    """
    columns, option, held = _candidates(side, best)
    rows = columns[: len(AXES)].astype(np.int64)
    seconds = _drawn(fit, side, columns, draws)
    return Drawn(seconds, held, rows, option, devices_of(rows), batch_of(rows))


def _candidates(
    side: SearchedLayouts, best: Configuration
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Axes and options (axes and options, candidates), option and bytes of each; the best first."""
    rows = side.found.shortlist.rows[:, :LAYOUTS]
    layout, option = (
        part.ravel() for part in np.indices((rows.shape[1], int(np.prod(side.options.shape))))
    )
    recompute, along, zero = side.options.each(option)
    columns = np.stack([*rows[:, layout], recompute, along, zero]).astype(np.float64)
    at = _named(columns)
    parts = evaluate(side.problem, at)
    alone = at["data"] * at["context"] == 1
    new = ~((along > 0) & (at["tensor"] == 1)) & ~((zero > 0) & alone)
    fits = (parts.held <= side.memory) & new
    seconds = _beyond(side, at) * at_each(_step, parts, at["zero"], at["accumulation"])
    whole = rows[:, layout]
    worth = seconds, devices_of(whole), batch_of(whole)
    refused = ~np.isfinite(side.goal.within(*worth))
    # What breaks a limit by a little may keep it on a drawn machine.
    order = np.lexsort((side.goal.value(*worth), refused, ~fits))[: int(fits.sum())]
    ours = _place(side, best, rows, layout, option)
    chosen = np.concatenate([[ours], order[order != ours]])[:CANDIDATES]
    return columns[:, chosen], option[chosen], parts.held[chosen]


def _named(columns: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip((*AXES, *OPTIONS), columns, strict=True))


def _alike(side: SearchedLayouts, at: dict[str, np.ndarray]) -> Alike:
    return alike(run_columns(side.problem.model, side.offer.node_size, at))


def _beyond(side: SearchedLayouts, at: dict[str, np.ndarray]) -> np.ndarray:
    """By which factor runs alike took longer than the fitted machine says."""
    misses = misses_of(side.offer.fit, side.problem.model)
    return np.ones(1) if misses is None else np.exp(misses.expected(_alike(side, at)))


def _drawn(fit: Fit[Any], side: SearchedLayouts, columns: np.ndarray, draws: int) -> np.ndarray:
    """Seconds of a step of each candidate on each drawn machine, (draws, candidates)."""
    width = columns.shape[1]
    padded = np.resize(columns.T, (CANDIDATES, len(columns))).T  # so that one program serves
    with jax.enable_x64(True):
        points = drawn_points(fit, draws)
        seconds = np.asarray(_seconds(fit.parameters, points, side.problem, padded))[:, :width]
    misses = misses_of(fit, side.problem.model)
    if misses is None:
        return seconds
    change = np.asarray(points.u) - np.asarray(fit.point.u)
    where = _alike(side, _named(columns))
    return seconds * np.exp(misses.drawn(where, change, np.random.default_rng(_SEED)))


_step = jax.jit(step_of)


@eqx.filter_jit
def _seconds(parameters: Parameters, points: Point, problem: Problem, columns: Scalar) -> Array:
    """Seconds of a step of each configuration on each drawn machine, (draws, configurations)."""
    columns = jnp.asarray(columns)

    def on(u: Array) -> Array:
        drawn: Machine = parameters.model(points._replace(u=u).values())
        machine = eqx.tree_at(lambda m: m.node_size, drawn, problem.machine.node_size)
        parts = parts_of(eqx.tree_at(lambda p: p.machine, problem, machine), [*columns])
        return step_of(parts, columns[-1], columns[AXES.index("accumulation")])

    return jax.lax.map(on, jnp.asarray(points.u))


def _place(
    side: SearchedLayouts,
    best: Configuration,
    rows: np.ndarray,
    layout: np.ndarray,
    option: np.ndarray,
) -> int:
    """Where the chosen one is among the candidates."""
    short = side.found.shortlist
    for place in range(rows.shape[1]):
        if side.listed(place).row() == best.row():
            return int(np.flatnonzero((layout == place) & (option == short.option[place]))[0])
    raise LookupError("the best configuration is not in the list of the best")
