"""The best layouts with their options, on machines drawn from a fit."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pandas as pd

from scaleopt.fitting.on_host import at_each
from scaleopt.fitting.propagate import drawn_points
from scaleopt.fitting.result import Fit
from scaleopt.fitting.train_step_likeness import Alike, alike
from scaleopt.models.transformer import RECOMPUTE
from scaleopt.planning.odds.drawn import CANDIDATES, Drawn, Span, with_nodes_of
from scaleopt.planning.searching.configuration import Configuration
from scaleopt.planning.searching.layouts import AXES, batch_of, devices_of
from scaleopt.planning.searching.likeness import misses_of, run_columns, tells_mixtures
from scaleopt.planning.searching.searched_layouts import SearchedLayouts
from scaleopt.planning.searching.tables import OPTIONS, Parts, evaluate, step_of

LAYOUTS = 256
"""Of the list the best, which are scored anew with every option."""
_REFUSED, _NEARLY = 64, 1.5
"""Of those that take longer than the limits allow, by this factor at most, so many too."""
_SEED = 1
"""Not that of `drawn_points`, of which these draws must not be a function."""


def drawn_layouts(fit: Fit[Any], side: SearchedLayouts, best: Configuration, draws: int) -> Drawn:
    """The best configurations by the fitted machine, the chosen one first, on drawn machines.

    What each takes beyond the machine's own seconds is drawn too, alike for those that are alike
    (`fitting.train_step_likeness`).

    Args:
        fit: of the machine.
        side: the offer that the best is on.
        best: the choice.
        draws: how many machines.

    Returns:
        The candidates.
    """
    columns, option, held, nominal = _candidates(side, best)
    rows = columns[: len(AXES)].astype(np.int64)
    seconds = _drawn(fit, side, columns, draws)
    return Drawn(seconds, nominal, held, rows, option, devices_of(rows), batch_of(rows))


def layout_span(
    fit: Fit[Any], side: SearchedLayouts, best: Configuration, seconds: np.ndarray, level: float
) -> Span:
    """The range of a step that the fit predicts, and where what is drawn goes further, that.

    The prediction knows how far such rows were off; the draws, how a step bends far from the fit.

    Args:
        fit: of the machine.
        side: the offer that the best is on.
        best: the choice.
        seconds: (draws,), of its step on each drawn machine.
        level: of the range.

    Returns:
        The range.
    """
    predicted = fit.predict(pd.DataFrame([_training_row(side, best)]), level=level)
    time, low, high = (float(part[0]) for part in predicted)
    if np.asarray(side.problem.model.experts) > 1 and not tells_mixtures(fit):
        # Dense rows say nothing of experts: the range of theirs, about this one's time.
        low, high = (best.step_time * end / time for end in (low, high))
    tail = (1 - level) / 2
    least, most = np.quantile(seconds, [tail, 1 - tail], method="inverted_cdf")
    return Span(min(low, float(least)), max(high, float(most)), not np.isfinite(high))


def _training_row(side: SearchedLayouts, best: Configuration) -> dict[str, Any]:
    """A configuration as a row of a table of training runs."""
    model, split = side.problem.model, best.split
    sizes = ("hidden", "heads", "layers", "seq_len", "vocab", "kv_heads", "feed_forward")
    sizes += ("experts", "active_experts")
    columns = {name: float(np.asarray(getattr(model, name))) for name in sizes}
    told = ("data", "tensor", "pipeline", "context", "micro_batch", "interleave")
    told += ("sequence_parallel", "expert", "zero_bubble")
    columns |= {name: float(getattr(split, name)) for name in told}
    return columns | {
        "gated": float(model.gated),
        "fused_attention": float(model.fused_attention),
        "devices": best.devices,
        "nodes": max(1.0, best.devices / side.offer.node_size),
        "global_batch": best.global_batch,
        "recompute": RECOMPUTE[int(split.recompute)],
        "zero": float(best.zero),
    }


def _candidates(
    side: SearchedLayouts, best: Configuration
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Axes and options (axes and options, candidates), option, bytes, seconds; the best first."""
    rows = np.concatenate([side.found.shortlist.rows[:, :LAYOUTS], _refused(side)], axis=1)
    layout, option = (
        part.ravel() for part in np.indices((rows.shape[1], int(np.prod(side.options.shape))))
    )
    recompute, along, zero = side.options.each(option)
    columns = np.stack([*rows[:, layout], recompute, along, zero]).astype(np.float64)
    at = _named(columns)
    parts, beyond = evaluate(side.problem, at), _beyond(side, rows).ravel()
    idle = side.options.idle_along(at["tensor"], along)
    idle |= side.options.idle_zero(at["data"] * at["context"], zero)
    fits = (parts.held <= side.memory) & ~idle
    seconds = beyond * _seconds(parts, at)
    whole = rows[:, layout]
    worth = seconds, devices_of(whole), batch_of(whole)
    keeps = np.isfinite(side.goal.within(*worth))
    order = np.argsort(side.goal.value(*worth), kind="stable")
    ours = _place(side, best, layout, option)
    kept, refused = order[(fits & keeps)[order]], order[(fits & ~keeps)[order]]
    kept = np.concatenate([[ours], kept[kept != ours]])[: CANDIDATES - _REFUSED]
    chosen = np.concatenate([kept, refused[:_REFUSED]])
    return columns[:, chosen], option[chosen], parts.held[chosen], seconds[chosen]


def _refused(side: SearchedLayouts) -> np.ndarray:
    """(axes, layouts): the fastest of their devices and batch that break a limit by little.

    The list has none of them, though on a drawn machine they may keep it.
    """
    fits, slowest = side.found.fits, side.goal.slowest(side.devices, side.batch)
    near = (fits.value > slowest) & (fits.value <= _NEARLY * slowest) & (fits.value < np.inf)
    value = np.where(near, side.values(side.goal.value, fits), np.inf)
    return fits.rows[:, np.argsort(value, kind="stable")[: min(int(near.sum()), _REFUSED)]]


def _named(columns: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip((*AXES, *OPTIONS), columns, strict=True))


def _alike(side: SearchedLayouts, at: dict[str, np.ndarray]) -> Alike:
    return alike(run_columns(side.problem.model, side.offer.node_size, at))


def _beyond(side: SearchedLayouts, rows: np.ndarray) -> np.ndarray:
    """By which factor runs alike took longer than the fitted machine says, (layouts, options)."""
    if side.tables.likeness is None:
        return np.ones((rows.shape[1], int(np.prod(side.options.shape))))
    across = 1.0 * (devices_of(rows) > side.tables.node_size)
    return np.exp(side.tables.likeness.expected(side.layouts.places(rows), across))


def _drawn(fit: Fit[Any], side: SearchedLayouts, columns: np.ndarray, draws: int) -> np.ndarray:
    """Seconds of a step of each candidate on each drawn machine, (draws, candidates)."""
    points, at = drawn_points(fit, draws), _named(columns)
    machines = fit.parameters.model(tuple(points.values().T[:, :, None]))
    machines = with_nodes_of(side.problem.machine, machines)
    problem = eqx.tree_at(lambda p: p.machine, side.problem, machines)
    seconds = _seconds(evaluate(problem, at), at)
    misses = misses_of(fit, side.problem.model)
    if misses is None:
        return seconds
    change = points.u - fit.point.u
    return seconds * np.exp(misses.drawn(_alike(side, at), change, np.random.default_rng(_SEED)))


def _seconds(parts: Parts, at: dict[str, np.ndarray]) -> np.ndarray:
    """Seconds of a step of configurations, of which these are the parts."""
    return at_each(_step, parts, at["zero"], at["accumulation"])


_step = jax.jit(step_of)


def _place(
    side: SearchedLayouts, best: Configuration, layout: np.ndarray, option: np.ndarray
) -> int:
    """Where the chosen one is among the layouts with options."""
    short = side.found.shortlist
    for listed in range(min(LAYOUTS, len(short.value))):
        if side.listed(listed).row() == best.row():
            return int(np.flatnonzero((layout == listed) & (option == short.option[listed]))[0])
    raise LookupError("the best configuration is not in the list of the best")
