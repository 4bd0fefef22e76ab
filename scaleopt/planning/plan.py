"""`plan`: the best number of devices, batch and split of a training run."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from scaleopt.fitting.on_host import at_each
from scaleopt.models.memory import ZERO_STAGES, Precision
from scaleopt.models.transformer import RECOMPUTE, Transformer
from scaleopt.models.workload import Workload
from scaleopt.models.workload_time import AnyMachine
from scaleopt.planning.asking.given import above_0
from scaleopt.planning.asking.goal import Goal, Limits, Run
from scaleopt.planning.asking.offer import Offer
from scaleopt.planning.asking.wishes import (
    batches_of,
    bounds_of,
    check_draws,
    check_goal,
    check_machines,
    check_model,
    check_precision,
    check_workload,
    options_of,
)
from scaleopt.planning.result import Plan
from scaleopt.planning.searching.layouts import Bounds, Layouts
from scaleopt.planning.searching.options import Options
from scaleopt.planning.searching.search import Tiles
from scaleopt.planning.searching.searched import Searched, least
from scaleopt.planning.searching.searched_layouts import SearchedLayouts
from scaleopt.planning.searching.tables import Problem, tables
from scaleopt.planning.searching.workload_search import SearchedWorkload
from scaleopt.units import Scalar

if TYPE_CHECKING:
    from scaleopt.fitting.result import Fit


def plan(
    workload: Transformer | Workload,
    machine: "AnyMachine | Fit[Any] | Offer | Sequence[Offer]",
    *,
    global_batch: int | Iterable[int] | None = None,
    devices: int | Iterable[int] | None = None,
    memory: float | None = None,
    price: float | None = None,
    power: float | None = None,
    peak_rate: float | None = None,
    objective: str = "time",
    budget: float | None = None,
    deadline: float | None = None,
    min_mfu: float | None = None,
    min_efficiency: float | None = None,
    tokens: float | None = None,
    samples: float | None = None,
    steps: float | None = None,
    critical_batch: float | None = None,
    max_micro_batch: int | None = None,
    max_context: int | None = None,
    max_expert: int | None = None,
    schedule: Sequence[str] = Bounds().schedules,
    recompute: Sequence[str] = RECOMPUTE,
    sequence_parallel: Sequence[bool] = (False, True),
    zero: Sequence[int] = ZERO_STAGES,
    precision: Precision | None = None,
    reserve: float = 0.2,
    draws: int = 256,
    level: float = 0.9,
    watch: Callable[[Tiles], Tiles] = iter,
) -> Plan:
    """The best configuration of a run, out of every one there is.

    Args:
        workload: the transformer to train; or a `DataParallel`, `Halo`, `ShardedMatmul`, or other
            work that says how it can be split.
        machine: a `Machine`, a fit of one, or an `Offer` or several to choose from; for what is no
            transformer a `StepTime` or a fit of one does too.
        global_batch: sequences, or other samples, of a step; several to choose from. None where
            the workload has its own.
        devices: the most there are, or every number of them that can be rented; without offers.
        memory: [B] of a device; without offers.
        price: [USD/s] of a device; without offers.
        power: [W] of a device; without offers.
        peak_rate: [FLOP/s] of a device, on which the MFU is based; without offers.
        objective: what is to be small: "time", "cost", "cost_time" (their product), "devices" or
            "energy".
        budget: [USD] that the run may cost.
        deadline: [s] that it may take.
        min_mfu: least model FLOP utilization.
        min_efficiency: least share of the samples per device and second of the most efficient
            configuration.
        tokens: that the run takes; with `critical_batch`, what it takes at small batches.
        samples: that the run takes, instead of `tokens`: sequences, images, updates of cells.
        steps: of the run, instead of either; a single step where none is given.
        critical_batch: sequences at which a run takes twice the tokens.
        max_micro_batch: the most sequences that pass together.
        max_context: the most devices that share a sequence; as many as leave 4,096 tokens to each
            unless given.
        max_expert: the most devices that share the experts of a layer; as many as there are experts
            unless given.
        schedule: how stages of a pipeline may take turns: "1f1b", "interleaved", "zero_bubble",
            the last only where asked for.
        recompute: which recomputations to try.
        sequence_parallel: whether to try it, or not, or both.
        zero: which ZeRO stages to try.
        precision: bytes of the numbers.
        reserve: share of the memory that is left to the allocator, collectives and the process.
        draws: how many machines are drawn from a fit to see how sure the choice is.
        level: of the ranges of time and cost.
        watch: what the tiles of the search pass on their way, such as a progress bar.

    Returns:
        The plan.

    Raises:
        ValueError: a number or a name that cannot be.

    >>> from scaleopt.models.machine import Machine
    >>> machine = Machine(rate=250e12, bandwidth=1.5e12, alpha=8e-6, beta=1 / 200e9)
    >>> gpt = Transformer(hidden=2048, layers=24, heads=16, seq_len=1024, vocab=51200)
    >>> found = plan(gpt, machine, devices=64, memory=80e9, global_batch=256)
    >>> found.best.devices, found.configurations
    (64, 24216)

    Source: the models of `Machine` and `training_memory`, over every layout of `Layouts`.
    """
    training = isinstance(workload, Transformer)
    if training:
        check_model(workload)
    else:
        asked = tokens, max_micro_batch, max_context, max_expert, schedule, recompute
        check_workload(workload, (*asked, sequence_parallel, zero, precision))
    offers = _offers(machine, devices, memory, price, power, peak_rate)
    own = not training and global_batch is None
    batches = np.ones(1, np.int64) if own else batches_of(global_batch)
    limits = Limits.of(
        budget=budget, deadline=deadline, min_mfu=min_mfu, min_efficiency=min_efficiency
    )
    if tokens is not None and samples is not None:
        raise ValueError("tokens and samples both say how long the run is; give one of them")
    if training and tokens is not None:
        samples = above_0("tokens", tokens) / float(workload.seq_len)
    run = Run(samples, steps, np.inf if critical_batch is None else critical_batch)
    check_goal(objective, run, limits, offers, batches, reserve)
    check_draws(draws, level)
    if training:
        check_machines(offers)
        options = options_of(recompute, sequence_parallel, zero)
        bounds = bounds_of(max_micro_batch, max_context, max_expert, schedule)
        precision = Precision() if precision is None else precision
        check_precision(precision)
        wishes = batches, bounds, options, precision, watch
        flops, search = model_flops(workload), partial(_trained, workload, *wishes)
    else:
        sizes = None if own else batches.tolist()
        flops = float(workload.sample_flops)
        search = partial(SearchedWorkload.of, workload=workload, batches=sizes)
    goals = [_goal(offer, objective, run, limits, flops) for offer in offers]
    done: list[Searched] = [
        search(offer, goal, (1 - reserve) * offer.memory)
        for offer, goal in zip(offers, goals, strict=True)
    ]
    if limits.min_efficiency > 0:
        # What is most efficient is known only now, and the floor is a share of it.
        fewest, _, _ = least([side.values(_device_seconds(side), side.found.fits) for side in done])
        done = [side.again(replace(side.goal, device_seconds=fewest)) for side in done]
    return _decided(done, draws, level)


def _trained(
    model: Transformer,
    batches: np.ndarray,
    bounds: Bounds,
    options: Options,
    precision: Precision,
    watch: Callable[[Tiles], Tiles],
    offer: Offer,
    goal: Goal,
    memory: float,
) -> SearchedLayouts:
    """Every layout of a transformer on one offer."""
    layouts = Layouts(model, offer.counts(), batches, offer.node_size, bounds)
    problem = Problem.of(model, offer.model, precision)
    known = tables(problem, layouts, options)
    if offer.fit is not None:
        from scaleopt.planning.searching.likeness import likeness, misses_of  # needs what fits need

        misses = misses_of(offer.fit, model)
        if misses is not None:
            known = known._replace(likeness=likeness(misses, model, layouts, options))
    return SearchedLayouts.of(offer, goal, memory, problem, known, layouts, options, watch)


def _goal(offer: Offer, objective: str, run: Run, limits: Limits, flops: float) -> Goal:
    """What is to be achieved on one offer."""
    return Goal(
        objective=objective,
        run=run,
        limits=limits,
        price=offer.price or 0.0,
        power=offer.power or 0.0,
        peak_rate=offer.peak,
        flops=flops,
        stretch=offer.stretch(),
    )


def _decided(done: Sequence[Searched], draws: int, level: float) -> Plan:
    """The best of all offers, and how sure that is where its machine was fitted."""
    values = [side.values(side.goal.within, side.found.fits) for side in done]
    value, which, cell = least(values)
    if value == np.inf:
        return Plan(None, tuple(done))
    best = done[which].fastest_fit(cell)
    if all(side.offer.fit is None for side in done):
        return Plan(best, tuple(done))
    from scaleopt.planning.odds.certainty import certainty  # only a fit needs what fits need

    return Plan(best, tuple(done), certainty(done, best, draws=draws, level=level))


def model_flops(model: Transformer) -> float:
    """FLOP of one sequence, forward and backward, nothing counted twice."""
    return float(at_each(_training_flops, model))


@jax.jit
def _training_flops(model: Transformer) -> Scalar:
    return 3 * model.forward().total


def _device_seconds(side: Searched) -> Any:
    return lambda seconds, devices, batch: devices * side.goal.time(seconds, devices, batch)


def _offers(
    machine: "AnyMachine | Fit[Any] | Offer | Sequence[Offer]",
    devices: int | Iterable[int] | None,
    memory: float | None,
    price: float | None,
    power: float | None,
    peak_rate: float | None,
) -> list[Offer]:
    """The offers, or the one that the arguments describe."""
    given = {
        "devices": devices,
        "memory": memory,
        "price": price,
        "power": power,
        "peak_rate": peak_rate,
    }
    several = [machine, *machine] if isinstance(machine, Sequence) else []
    text = next((each for each in several if isinstance(each, str)), None)
    if text is not None:
        raise TypeError(
            f"a plan needs a Machine, a fit of one, or an Offer, not the text {text!r}; "
            "so.Offer.of(name, machine_or_fit, devices=…) takes memory, peak rate and price from "
            "the catalogue"
        )
    if isinstance(machine, Offer):
        machine = [machine]
    if isinstance(machine, Sequence):
        twice = [name for name, value in given.items() if value is not None]
        if twice:
            raise ValueError(f"{', '.join(twice)}: each offer has its own; give it there")
        if not machine or not all(isinstance(offer, Offer) for offer in machine):
            raise ValueError("the list of offers is empty or holds other things; give so.Offer(…)")
        return list(machine)
    for name in ("devices", "memory"):
        if given[name] is None:
            raise ValueError(f"{name} is needed beside a machine; give it, or a list of offers")
    return [Offer(machine, **given)]
