"""How sure a plan on a fit is: the same choice over machines drawn from the fit's distribution."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax import Array

from scaleopt.fitting.parameters import Parameters, Point
from scaleopt.fitting.propagate import drawn_points
from scaleopt.fitting.result import Fit
from scaleopt.models.machine import Machine
from scaleopt.models.transformer import RECOMPUTE
from scaleopt.planning.configuration import Configuration
from scaleopt.planning.layouts import AXES, batch_of, devices_of
from scaleopt.planning.searched import Searched
from scaleopt.planning.searched_layouts import SearchedLayouts
from scaleopt.planning.tables import OPTIONS, Problem, evaluate, parts_of, step_of
from scaleopt.planning.words import counted, dollars, duration, percent
from scaleopt.units import Scalar

CANDIDATES = 256
"""Layouts of the list that are scored anew, each with every option."""


@dataclass(frozen=True)
class Candidate:
    """A configuration that some of the drawn machines are best with."""

    found: Configuration
    probability: float
    """Share of the drawn machines that it is best on."""


@dataclass(frozen=True)
class Certainty:
    """How a choice fares on machines drawn from a fit."""

    candidates: tuple[Candidate, ...]
    """The likeliest first."""
    best: float
    """Probability that the chosen one is best."""
    regret: float
    """By how much the chosen one is expected to be worse than the best, as a share."""
    time: tuple[float, float]
    """[s], range of the run: the fit's uncertainty with what the model misses."""
    cost: tuple[float, float]
    """[USD]; NaN without a price."""
    kept: dict[str, float]
    """Probability that each limit of time or cost holds."""
    level: float
    draws: int
    blind: bool
    """Whether the time hangs on what the fit's rows do not see."""

    def sentences(self) -> list[str]:
        """As a person would be told."""
        if self.blind:
            return [
                "the step time hangs on what the fit's rows do not tell (print fit.summary()), "
                "so no range can be given; measure such runs before renting"
            ]
        share = percent(self.level)
        said = [
            f"best in {percent(self.best)} of {self.draws} machines drawn from the fit; on average "
            f"{percent(self.regret)} worse than the best for each",
            f"the run takes {duration(self.time[0])} to {duration(self.time[1])} ({share} range)",
        ]
        if np.isfinite(self.cost[0]):
            said.append(f"it costs {dollars(self.cost[0])} to {dollars(self.cost[1])}")
        said += [f"keeps the {name}: {percent(odds)} likely" for name, odds in self.kept.items()]
        for other in self.candidates[:3]:
            said.append(
                f"{percent(other.probability)}: {counted(other.found.devices)}, {other.found}"
            )
        return said


def certainty(
    fit: Fit[Any], side: SearchedLayouts, best: Configuration, *, draws: int, level: float
) -> Certainty:
    """The choice over machines drawn from the fit.

    The candidates are the best layouts by the fitted machine, each with every option: what is not
    among them is not considered on a drawn machine either.

    Args:
        fit: of the machine.
        side: the offer that the best is on.
        best: the choice.
        draws: how many machines.
        level: of the ranges.
    """
    rows = side.found.shortlist.rows[:, :CANDIDATES]
    seconds, held, layout, option = _drawn(fit, side, rows, draws)
    chosen = rows[:, layout]
    drawn = Drawn(seconds, held, chosen, option, devices_of(chosen), batch_of(chosen))
    ours = _place(side, best, rows, layout, option)
    return judged(side, best, drawn, ours, _range(fit, side, best, level), level)


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


def judged(
    side: Searched,
    best: Configuration,
    drawn: Drawn,
    ours: int,
    span: tuple[float, float, bool],
    level: float,
) -> Certainty:
    """How a choice fares among the candidates on the drawn machines.

    Args:
        side: the offer that the best is on.
        best: the choice.
        drawn: the candidates.
        ours: which of them the choice is.
        span: the range of a step's seconds, and whether it hangs on what no row tells.
        level: of the range.
    """
    seconds, devices, batch = drawn.seconds, drawn.devices, drawn.batch
    goal, draws = side.goal, len(seconds)
    values = goal.value(seconds, devices, batch)
    allowed = goal.within(seconds, devices, batch)
    # A machine on which nothing keeps the limits still has a best one.
    none = ~np.isfinite(allowed).any(axis=1, keepdims=True)
    values_or_none = np.where(none, values, allowed)
    winners = values_or_none.argmin(axis=1)
    regret = np.maximum(values[:, ours] / values_or_none[np.arange(draws), winners] - 1, 0)
    counts = np.bincount(winners, minlength=len(devices))
    likely = [place for place in np.argsort(-counts, kind="stable")[:10].tolist() if counts[place]]
    nominal = np.median(seconds, axis=0)
    found = tuple(
        Candidate(
            side.configured(
                drawn.rows[:, place],
                int(drawn.option[place]),
                float(nominal[place]),
                float(drawn.held[place]),
            ),
            float(counts[place] / draws),
        )
        for place in likely
    )
    time = goal.time(seconds[:, ours], devices[ours], batch[ours])
    price = np.nan if side.offer.price is None else side.offer.price * best.devices
    limits, kept = goal.limits, {}
    if limits.deadline < np.inf:
        kept["deadline"] = float(np.mean(time <= limits.deadline))
    if limits.budget < np.inf:
        kept["budget"] = float(np.mean(time * price <= limits.budget))
    low, high, blind = span
    run = (low * best.time / best.step_time, high * best.time / best.step_time)
    return Certainty(
        candidates=found,
        best=float(counts[ours] / draws),
        regret=float(regret.mean()),
        time=run,
        cost=(run[0] * price, run[1] * price),
        kept=kept,
        level=level,
        draws=draws,
        blind=blind,
    )


def _range(
    fit: Fit[Any], side: SearchedLayouts, best: Configuration, level: float
) -> tuple[float, float, bool]:
    """The range of a step that the fit predicts, and whether it hangs on what no row tells."""
    model, split = side.problem.model, best.split
    sizes = ("hidden", "heads", "layers", "seq_len", "vocab", "kv_heads", "feed_forward")
    columns = {name: float(np.asarray(getattr(model, name))) for name in sizes}
    told = ("data", "tensor", "pipeline", "context", "micro_batch", "interleave")
    told += ("sequence_parallel",)
    columns |= {name: float(getattr(split, name)) for name in told}
    columns |= {
        "gated": float(model.gated),
        "fused_attention": float(model.fused_attention),
        "devices": best.devices,
        "nodes": max(1.0, best.devices / side.offer.node_size),
        "global_batch": best.global_batch,
        "recompute": RECOMPUTE[int(split.recompute)],
        "zero": float(best.zero),
    }
    predicted = fit.predict(pd.DataFrame([columns]), level=level)
    time, low, high = (float(part[0]) for part in predicted)
    if np.asarray(model.experts) > 1:
        # Rows know of no experts: their model's range, about this one's time.
        low, high = (best.step_time * end / time for end in (low, high))
    return low, high, not np.isfinite(high)


def _drawn(
    fit: Fit[Any], side: SearchedLayouts, rows: np.ndarray, draws: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Seconds (draws, candidates) and bytes of those that fit, with their layout and option."""
    count = int(np.prod(side.options.shape))
    layout, option = (part.ravel() for part in np.indices((rows.shape[1], count)))
    recompute, along, zero = side.options.each(option)
    columns = np.stack([*rows[:, layout], recompute, along, zero]).astype(np.float64)
    at: dict[str, np.ndarray] = dict(zip((*AXES, *OPTIONS), columns, strict=True))
    held = evaluate(side.problem, at).held
    alone = at["data"] * at["context"] == 1
    new = ~((along > 0) & (at["tensor"] == 1)) & ~((zero > 0) & alone)
    fits = (held <= side.memory) & new
    width = len(layout)  # always as many, so that one program serves
    chosen = np.resize(np.flatnonzero(fits), width)
    with jax.enable_x64(True):
        points = drawn_points(fit, draws)
        seconds = _seconds(fit.parameters, points, side.problem, columns[:, chosen])
    kept = int(fits.sum())
    return np.asarray(seconds)[:, :kept], held[fits], layout[fits], option[fits]


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
