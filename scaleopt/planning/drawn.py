"""Configurations on machines that are drawn from a fit."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.fitting.parameters import Parameters, Point
from scaleopt.models.machine import Machine
from scaleopt.models.workload_time import AnyMachine


class Drawn(NamedTuple):
    """Candidates of one offer, and what each takes on each drawn machine."""

    seconds: np.ndarray
    """(draws, candidates), of a step."""
    nominal: np.ndarray
    """(candidates,), on the fitted machine."""
    held: np.ndarray
    """(candidates,), bytes of a device."""
    rows: np.ndarray
    """(axes, candidates)"""
    option: np.ndarray
    """(candidates,), place among the options."""
    devices: np.ndarray
    batch: np.ndarray


class Span(NamedTuple):
    """The range of a step's seconds."""

    low: float
    high: float
    blind: bool
    """Whether it hangs on what no row tells, so that it is none."""


def on_machines(
    parameters: Parameters, points: Point, fitted: AnyMachine, seconds: Callable[[Any], Array]
) -> Array:
    """The seconds that each drawn machine takes, (draws, …); with nodes as the fitted one has."""

    def on(u: Array) -> Array:
        machine = parameters.model(points._replace(u=u).values())
        if isinstance(machine, Machine) and isinstance(fitted, Machine):
            machine = eqx.tree_at(lambda m: m.node_size, machine, fitted.node_size)
        return seconds(machine)

    return jax.lax.map(on, jnp.asarray(points.u))
