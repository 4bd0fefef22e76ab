"""Counts of a workload in, seconds out, by part: on a `Machine`, or on a measured `StepTime`.

A `Machine` knows its memory and its levels of links. A `StepTime` was fitted to steps and knows one
flat link; what its steps moved through memory is in its rate and its serial time.
"""

from typing import Any, TypeAlias

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from scaleopt.models.collectives import collective_time
from scaleopt.models.machine import Machine
from scaleopt.models.parallelism import Parallelism
from scaleopt.models.schedules import ALGORITHMS
from scaleopt.models.step import StepTime
from scaleopt.models.workload import DeviceWork, Message, Workload
from scaleopt.units import Count, real

AnyMachine: TypeAlias = Machine | StepTime
"""What seconds may be counted on."""


def step_terms(machine: AnyMachine, work: DeviceWork) -> dict[str, Array]:
    """The seconds of each part of a step; they add up to it.

    On a `Machine`:   compute + memory + Σ messages + step and micro-batch overheads
    On a `StepTime`:  its own terms, with what hides of the messages as there

    Args:
        machine: what it runs on.
        work: what the busiest device does.

    Returns:
        Seconds by part, the messages by their names.

    >>> from scaleopt.models.data_parallel import DataParallel, DataSplit
    >>> resnet = DataParallel(sample_flops=24.6e9, gradient_bytes=102e6, state_bytes=409e6)
    >>> step = StepTime(rate=100e12, alpha=1e-5, beta=1 / 20e9)
    >>> terms = step_terms(step, resnet.work(DataSplit(data=8, micro_batch=256)))
    >>> [f"{name} {1000 * terms[name]:.1f} ms" for name in ("compute", "gradients")]
    ['compute 63.0 ms', 'gradients 9.1 ms']

    Source: `Machine.terms`, `StepTime.terms`.
    """
    return _on_machine(machine, work) if isinstance(machine, Machine) else _on_step(machine, work)


def workload_time(machine: AnyMachine, workload: Workload, split: Any) -> Array:
    """Seconds of a step of a workload; as `step_terms`, added up."""
    return sum(step_terms(machine, workload.work(split)).values(), jnp.zeros(()))


def _on_machine(machine: Machine, work: DeviceWork) -> dict[str, Array]:
    compute = machine.compute(work.products)
    moved, bandwidth, rounds = real(work.moved, machine.bandwidth, work.rounds)
    memory = moved / bandwidth
    if work.streamed:
        memory = jnp.maximum(memory - compute, 0.0)
    passes = jnp.maximum(rounds, 1.0) if work.last else 1.0
    seconds = {
        name: machine_messages(machine, each, passes) for name, each in work.messages.items()
    }
    once, each = real(machine.step_overhead, machine.micro_batch_overhead)
    overhead = once + each * rounds
    return {"compute": compute, "memory": memory, **seconds, "overhead": overhead}


def machine_messages(machine: Machine, messages: tuple[Message, ...], rounds: Count = 1) -> Array:
    """Seconds of messages one after another, less what hides.

    Args:
        machine: what they are sent on.
        messages: of a step.
        rounds: m, micro-batches; what is sent k times a step hides behind min(k, m) of them.
    """
    total = jnp.zeros(())
    for message in messages:
        times, passes = real(message.times, rounds)
        hidden = machine.overlap * jnp.minimum(times / passes, 1.0)
        shown = 1 - hidden if message.behind else 1.0
        total = total + times * _seconds(machine, message) * shown
    return total


def _seconds(machine: Machine, message: Message) -> Array:
    """Of one message: near inside a node, far where its group does not fit in one."""
    size, group, alpha, beta, far, thin = real(
        message.size,
        message.group,
        machine.alpha,
        machine.beta,
        machine.network_alpha,
        machine.network_beta,
    )
    ring = machine.ring(Parallelism(), group, message.stride, size)
    if message.operation == "all_reduce":
        return ring
    if message.operation in ("all_gather", "reduce_scatter"):
        return ring / 2
    if message.operation == "all_to_all":
        return machine.exchange(Parallelism(), group, message.stride, size / group)
    local = Parallelism().local(group, message.stride, machine.node_size)
    thin = jnp.maximum(beta, thin)
    crossing = group > local
    one = jnp.where(crossing, far, alpha) + jnp.where(crossing, thin, beta) * size
    return jnp.where(group > 1, one, 0.0)


def _on_step(step: StepTime, work: DeviceWork) -> dict[str, Array]:
    flops = sum((real(product.flops)[0] for product in work.products), jnp.zeros(()))
    devices, rounds = real(work.devices, work.rounds)
    behind = {name: _flat(step, each, behind=True) for name, each in work.messages.items()}
    ahead = {name: _flat(step, each, behind=False) for name, each in work.messages.items()}
    hideable = sum(behind.values(), jnp.zeros(()))
    if work.last:
        step = eqx.tree_at(lambda s: s.accumulation, step, step.accumulation * rounds)
    terms = step.terms(devices, flops * devices, 0.0, all_reduce=hideable)
    share = jnp.asarray(terms.communication) / jnp.where(hideable > 0, hideable, 1.0)
    messages = {name: share * behind[name] + ahead[name] for name in work.messages}
    parts = ("serial", "launch", "compute", "imbalance", "straggling")
    return {name: jnp.asarray(getattr(terms, name)) for name in parts} | messages


def _flat(step: StepTime, messages: tuple[Message, ...], *, behind: bool) -> Array:
    """Seconds of the messages that may hide, or that may not, on one kind of link."""
    total = jnp.zeros(())
    for message in messages:
        if message.behind != behind:
            continue
        size, group, times = real(message.size, message.group, message.times)
        if message.operation == "send":
            one = jnp.where(group > 1, step.alpha + step.beta * size, 0.0)
        else:
            algorithm = next(iter(ALGORITHMS[message.operation]))
            links = step.alpha, step.beta
            one = collective_time(message.operation, algorithm, size, group, *links, 0.0)
        total = total + times * one
    return total
