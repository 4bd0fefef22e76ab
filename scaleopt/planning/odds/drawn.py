"""Configurations on machines that are drawn from a fit."""

from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from scaleopt.models.machine import Machine

CANDIDATES = 512
"""How many of the best on the fitted machine take part."""


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


def with_nodes_of(fitted: Any, machine: Any) -> Any:
    """A drawn machine with nodes of the size that the fitted one's have; a step has none."""
    if not (isinstance(fitted, Machine) and isinstance(machine, Machine)):
        return machine
    return eqx.tree_at(lambda m: m.node_size, machine, fitted.node_size)
