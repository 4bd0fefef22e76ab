"""Where the seconds and the bytes of a configuration go."""

from collections.abc import Sequence

import jax
import numpy as np

from scaleopt.fitting.on_host import at_each
from scaleopt.models.machine import Machine, TrainingTerms
from scaleopt.models.memory import DeviceMemory, Precision, training_memory
from scaleopt.models.parallelism import Parallelism
from scaleopt.models.transformer import Transformer
from scaleopt.models.zero import zero_terms
from scaleopt.planning.searching.configuration import Configuration
from scaleopt.planning.searching.tables import Problem
from scaleopt.units import Scalar


def breakdown(
    problem: Problem, found: Sequence[Configuration]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Seconds of a step by what takes them, and bytes of a device by what they hold.

    Args:
        problem: what was searched.
        found: configurations of it.

    Returns:
        An array by term each, one number a configuration; they add up to its step and memory.
    """
    splits = jax.tree.map(lambda *leaves: np.asarray(leaves, float), *(it.split for it in found))
    zero = np.array([it.zero for it in found], float)
    terms, memory = at_each(_parts, problem.machine, problem.model, problem.precision, splits, zero)
    return _named(terms), _named(memory)


@jax.jit
def _parts(
    machine: Machine, model: Transformer, precision: Precision, split: Parallelism, zero: Scalar
) -> tuple[TrainingTerms, DeviceMemory]:
    terms = zero_terms(machine, model, split, zero)
    return terms, training_memory(model, split, zero=zero, precision=precision)


def _named(parts: TrainingTerms | DeviceMemory) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in vars(parts).items()}
