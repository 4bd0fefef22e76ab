"""What is believed of a machine's constants before any training step is seen.

A faster device comes with a faster memory and faster links: what a datasheet's bytes a second are
to its FLOP a second changes less, from one generation and maker to the next, than either. So these
three are believed relative to the rate, which every row tells:

b ~ b₀ r/r₀      within the factor of its prior,      b of memory, 1/β inside a node and across

Bytes a FLOP of the dense 16-bit rate, by data sheets and by the systems sold with eight devices:

                 V100 (DGX-1)   A100 (DGX A100)   H100 (DGX H100)   B200 (DGX B200)
memory           72e-4          65e-4             34e-4             36e-4
inside a node    12e-4          10e-4             4.6e-4            4.0e-4
across nodes     0.5e-4                           0.5e-4            0.2e-4

Source: NVIDIA, white paper "DGX-1 with Tesla V100 System Architecture", for four ports of 100
Gbit/s a node; NVIDIA, "DGX BasePOD", core components, for eight of 400 Gbit/s with H100 and B200;
the other lines are in `scaleopt.data.catalog`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from scaleopt.fitting.parameters import Parameters, free_parameters
from scaleopt.fitting.prior import Prior, prior_of
from scaleopt.models.machine import Machine

PRIORS = {
    "rate": Prior(2.2e14, 2.0),
    "bandwidth": Prior(1.7e12, 1.5),
    "alpha": Prior(2e-5, 2.7),
    "beta": Prior(6.7e-12, 2.0),
    "network_alpha": Prior(2e-5, 2.7),
    "network_beta": Prior(8e-11, 2.2),
    "crowding": Prior(1.0, 2.7),
    "grain": Prior(120.0, 2.7),
    "kernel": Prior(2.5e-5, 2.7),
    "host": Prior(2.5e-4, 2.7),
    "jitter": Prior(5e-5, 2.7),
    "micro_batch_overhead": Prior(1e-3, 2.7),
    "step_overhead": Prior(2e-2, 2.7),
    "overlap": Prior(0.1, 4.0),
}
"""What each constant is before any row is seen, in SI. They are assumed, by the order of magnitude
of an accelerator of 2020 and later with eight to a node, and wide: the truth may well be three
times more or less. The factor of a share is one of its odds."""
_GROWING = {"bandwidth": 1.0, "beta": -1.0, "network_beta": -1.0}
"""The power of the rate with which each of these goes."""


class Believed(NamedTuple):
    """The free constants, and residuals P (u − u₀) of standard deviation 1."""

    parameters: Parameters
    """At the medians u₀."""
    factor: np.ndarray
    """(constants,): that each may be off by."""
    precision: np.ndarray
    """P, (constants, constants)."""


def believed(
    node_size: np.ndarray, fixed: Mapping[str, float], priors: Mapping[str, Prior]
) -> Believed:
    """The machine at the medians of its priors, and how firmly they are believed.

    Args:
        node_size: (rows,), devices of a node.
        fixed: constants that are known.
        priors: what is known of others, instead of `PRIORS`.

    Raises:
        ValueError: a constant that the machine does not have.
    """
    known = {name: prior for name, prior in (PRIORS | dict(priors)).items() if name not in fixed}
    unknown = [name for name in [*known, *fixed] if name not in PRIORS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no constant of a machine; it has {', '.join(PRIORS)}")
    medians = {name: prior.value for name, prior in known.items()} | dict(fixed)
    # Who gives a prior, or a value, means it whatever the rate.
    growing = {
        name: power for name, power in _GROWING.items() if name in known.keys() - priors.keys()
    }
    for name, power in growing.items():
        medians[name] *= (medians["rate"] / PRIORS["rate"].value) ** power
    sizes, counts = np.unique(node_size, return_counts=True)
    machine = Machine(**medians, node_size=int(sizes[np.argmax(counts)]))
    parameters = free_parameters(machine, tuple(fixed))
    _, precision = prior_of(parameters.names, known)
    together = np.eye(len(precision))
    if "rate" in known:
        rate = parameters.names.index("rate")
        for name, power in growing.items():
            together[parameters.names.index(name), rate] = -power
    return Believed(parameters, np.exp(1 / precision), precision[:, None] * together)
