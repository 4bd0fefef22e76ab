"""Seconds and bytes of a configuration as sums of parts that few of its numbers enter.

With m micro-batches, v chunks a stage, and f micro-batches in flight, a step takes

  once + m · each + fill/v + v m · passed − spared + data − saved

where all but the last two depend on (t, c, e, p, b), the options and whether neighbours in the
pipeline share a node, and these on (t, c, e, p, d) alone: that is how `Machine` and the schedule
are made. A zero-bubble schedule spares some of what fills the pipeline. Data is what `zero_seconds`
makes of gradients, weights and m; what a device need not update is saved. A device holds

  rest + f · kept + states

with rest and kept by (t, c, e, p, b) and options, and states by (t, c, e, p, d) and ZeRO stage. So
the models are evaluated once for each entry of these tables, as they stand, and millions of
configurations are looked up and added. A test holds the sums equal to the models. On a fit of
training runs the seconds are then what runs alike took, where that is known
(`planning.searching.likeness`).
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.fitting.on_host import as_numbers, at_each
from scaleopt.models.machine import Machine
from scaleopt.models.memory import (
    Precision,
    layers_in_flight,
    training_memory,
)
from scaleopt.models.parallelism import Parallelism
from scaleopt.models.transformer import Transformer
from scaleopt.models.zero import saved_update, zero_seconds
from scaleopt.planning.searching.layouts import AXES, SHARES, Layouts
from scaleopt.planning.searching.options import Options
from scaleopt.units import Scalar

if TYPE_CHECKING:
    from scaleopt.planning.searching.likeness import Likeness

OPTIONS = ("recompute", "sequence_parallel", "zero")
"""What a layout is tried with, after its `AXES`."""
_COUNTS = tuple(axis for axis in AXES if axis != "zero_bubble")
_BATCHES = np.array([1.0, 1025.0])
"""Micro-batches between which a line is drawn: far apart, so that little is lost to rounding."""
_CHUNKS = np.array([1.0, 2.0])
"""Chunks a stage between which what fills the pipeline is told from what is passed on."""
_PARTS = ("once", "each", "fill", "passed", "rest", "kept", "spared")
"""Of the seconds the first four, of the bytes the next two; the last with zero bubbles alone."""


class Problem(eqx.Module):
    """What is scored: numbers only, so that another machine or model needs no new program."""

    model: Transformer
    machine: Machine
    precision: Precision

    @classmethod
    def of(cls, model: Transformer, machine: Machine, precision: Precision) -> "Problem":
        """With every number a float64 array."""
        return cls(*as_numbers((model, machine, precision)))


class Parts(NamedTuple):
    """Of some configurations."""

    seconds: Any
    """Of a step, but for what the data axis passes."""
    summed: Any
    """Seconds of the gradients' all-reduce."""
    gathered: Any
    """Seconds of the weights' all-gather."""
    overlap: Any
    """Share of both that hides behind a micro-batch."""
    saved: Any
    """Seconds of the update that other replicas do where ZeRO splits the optimizer."""
    held: Any
    """Bytes of a device."""
    flight: Any
    """Micro-batches in flight."""


class Tables(NamedTuple):
    """The parts, each by the numbers that enter it; those of `Layouts` in its order."""

    stages: np.ndarray
    """(shares · sequences · 2, parts, recomputation × sequence parallelism), last across nodes."""
    data: np.ndarray
    """(shares · replicas, 4): summed, gathered, overlap and saved"""
    states: np.ndarray
    """(shares · replicas, ZeRO stages)"""
    zero: np.ndarray
    """(ZeRO stages,)"""
    sequences: int
    """How many micro-batches there are."""
    replicas: int
    """How many numbers of replicas there are."""
    node_size: float
    likeness: "Likeness | None" = None
    """What runs alike took, where a fit knows of any."""


def tables(problem: Problem, layouts: Layouts, options: Options) -> Tables:
    """The tables of a problem, each entry evaluated by the models themselves."""
    shares = np.array(layouts.shares, float)
    sequences, replicas = layouts.sequences.astype(float), layouts.replicas.astype(float)
    stages = _by_sequences(problem, shares, sequences, options)
    if "zero_bubble" in layouts.schedules:
        spared = _spared(problem, shares, sequences, options)
        stages = np.concatenate([stages, np.repeat(spared, 2, axis=0)], axis=1)
    data, states = _by_replicas(problem, shares, replicas, options)
    return Tables(
        stages=stages,
        data=data,
        states=states,
        zero=options.codes()[2],
        sequences=len(sequences),
        replicas=len(replicas),
        node_size=float(problem.machine.node_size),
    )


def _by_sequences(
    problem: Problem, shares: np.ndarray, sequences: np.ndarray, options: Options
) -> np.ndarray:
    """All parts but what depends on the replicas."""
    recompute, along = _pairs(options)
    share, b, across, option, chunks, m = np.ix_(
        np.arange(len(shares)),
        sequences,
        np.arange(2),
        np.arange(len(recompute)),
        _CHUNKS,
        _BATCHES,
    )
    split = _split(shares, share) | _options(options, option)
    # The fewest replicas with which the next stage is, or is not, in another node.
    near = float(problem.machine.node_size) / (split["tensor"] * split["context"])
    data = np.where(across > 0, np.maximum(np.ceil(near), 1.0), 1.0)
    varied = {"micro_batch": b, "data": data, "interleave": chunks, "accumulation": m}
    found = evaluate(problem, split | varied)
    seconds, held, flight = found.seconds, found.held, found.flight
    slope = (seconds[..., 1] - seconds[..., 0]) / (_BATCHES[1] - _BATCHES[0])
    start = seconds[..., 0] - _BATCHES[0] * slope
    passed, fill = slope[..., 1] - slope[..., 0], 2 * (start[..., 0] - start[..., 1])
    more = flight[..., 0, 1] - flight[..., 0, 0]
    kept = (held[..., 0, 1] - held[..., 0, 0]) / np.where(more > 0, more, 1.0)
    rest = held[..., 0, 0] - kept * flight[..., 0, 0]
    rest = rest + np.where(options.idle_along(split["tensor"][..., 0, 0], along), np.inf, 0.0)
    parts = [start[..., 0] - fill, slope[..., 0] - passed, fill, passed, rest, kept]
    return np.stack(parts, axis=3).reshape(-1, len(parts), len(recompute))


def _spared(
    problem: Problem, shares: np.ndarray, sequences: np.ndarray, options: Options
) -> np.ndarray:
    """Seconds by which the zero-bubble schedule is shorter, (shares · sequences, 1, options)."""
    count = options.shape[0] * options.shape[1]
    share, b, option, schedule = np.ix_(
        np.arange(len(shares)), sequences, np.arange(count), np.arange(2)
    )
    split = _split(shares, share) | _options(options, option)
    seconds = evaluate(problem, split | {"micro_batch": b, "zero_bubble": schedule}).seconds
    return (seconds[..., 0] - seconds[..., 1]).reshape(-1, 1, count)


def _by_replicas(
    problem: Problem, shares: np.ndarray, replicas: np.ndarray, options: Options
) -> tuple[np.ndarray, np.ndarray]:
    """What the data axis passes, and what the states hold beyond those of one replica."""
    zero = options.codes()[2]
    stages, many = np.concatenate([[0.0], zero]), np.concatenate([[1.0], replicas])
    share, data, stage = np.ix_(np.arange(len(shares)), many, stages)
    split = _split(shares, share)
    found = evaluate(problem, split | {"data": data, "zero": stage})
    parts = found.summed, found.gathered, found.overlap, found.saved
    passed = np.stack(parts, axis=-1)[:, 1:, 0]
    idle = options.idle_zero(data * split["context"], stage)
    states = found.held - found.held[:, :1, :1] + np.where(idle, np.inf, 0.0)
    return passed.reshape(-1, 4), states[:, 1:, 1:].reshape(-1, len(zero))


def _split(shares: np.ndarray, place: np.ndarray) -> dict[str, np.ndarray]:
    """The columns of shares at some places."""
    return dict(zip(SHARES, np.moveaxis(shares[place], -1, 0), strict=True))


def _pairs(options: Options) -> tuple[np.ndarray, np.ndarray]:
    """Recomputation and sequence parallelism of every combination of the two."""
    recompute, along, _ = options.codes()
    return np.repeat(recompute, len(along)), np.tile(along, len(recompute))


def _options(options: Options, place: np.ndarray) -> dict[str, np.ndarray]:
    """The columns of such combinations at some places."""
    recompute, along = _pairs(options)
    return {"recompute": recompute[place], "sequence_parallel": along[place]}


def evaluate(problem: Problem, columns: Mapping[str, Scalar]) -> Parts:
    """The parts of configurations, as the models give them.

    Args:
        problem: what is scored.
        columns: numbers by name, of `AXES` and `OPTIONS`, that broadcast against each other; 1 of
            an axis, or no option, unless given.
    """
    given = [columns.get(name, float(name in _COUNTS)) for name in (*AXES, *OPTIONS)]
    return at_each(_parts, problem, given)


def parts_of(problem: Problem, columns: Sequence[Scalar]) -> Parts:
    """The parts of configurations; columns in the order of `AXES` and `OPTIONS`."""
    given = dict(zip((*AXES, *OPTIONS), columns, strict=True))
    zero = given.pop("zero")
    split = Parallelism(**given)
    machine = problem.machine
    terms = machine.terms(problem.model, split)
    count = split.counts(problem.model)
    summed, gathered = (of(split, count) for of in (machine.gradients, machine.gathering))
    held = training_memory(problem.model, split, zero=zero, precision=problem.precision)
    saved = saved_update(machine, problem.model, split)
    overlap = machine.overlap + jnp.zeros_like(summed)
    seconds, flight = terms.total - terms.data, layers_in_flight(split)
    return Parts(seconds, summed, gathered, overlap, saved, held.total, flight)


_parts = jax.jit(parts_of)


def step_of(parts: Parts, zero: Scalar, accumulation: Scalar) -> Array:
    """Seconds of a step under ZeRO."""
    passed = parts.summed, parts.gathered, parts.overlap
    data, saved = zero_seconds(*passed, parts.saved, zero, accumulation)
    return jnp.asarray(parts.seconds) + data - saved
