"""A function of numbers at many places, by NumPy: XLA would take longer to compile it than to run.

A fit asks a model a few dozen times about some hundred rows, a plan once about ten thousand places.
Compiled, the first answer is there after half a second; so the function is traced, and each
operation of the trace is done on whole arrays of the host. A function that gathers or adds up on
its way has no such trace, and is compiled as ever.
"""

import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import numpy as np

from scaleopt.fitting.operations import program_of

_TOGETHER = 16384
"""Places that one compiled program serves."""


def at_each(function: Any, *arguments: Any) -> Any:
    """A function's values in float64 at each of many places.

    Args:
        function: from `jax.jit`; of trees of numbers, and returning one.
        arguments: such trees, with numbers or arrays of one length in their places.

    Returns:
        The tree that it returns, with NumPy's arrays.

    >>> from scaleopt.models.speedup import amdahl_speedup
    >>> at_each(jax.jit(amdahl_speedup), np.array([1.0, 2.0]), 0.5).round(3).tolist()
    [1.0, 1.333]

    Source: the interpreters of traces in JAX's documentation.
    """
    given = as_numbers(arguments)
    leaves, tree = jax.tree.flatten(given)
    shape = np.broadcast_shapes(*(leaf.shape for leaf in leaves))
    number = jax.ShapeDtypeStruct((), np.float64)
    with jax.enable_x64(True):
        traced = function.trace(*tree.unflatten([number] * len(leaves)))
        program = program_of(traced.jaxpr)
        if program:
            found = program(*leaves)
        elif shape:
            found = _compiled(function, tree, leaves, shape)
        else:
            found = jax.tree.leaves(function(*given))
    values = [np.broadcast_to(value, shape) for value in found]
    return jax.tree.unflatten(jax.tree.structure(traced.out_info), values)


def as_numbers(tree: Any) -> Any:
    """A tree with every number a float64 array of the host."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tree)


class Constants(NamedTuple):
    """All of a tree that is no array: what a program of it has built in."""

    structure: Any
    leaves: tuple[Any, ...]
    """None where an array is."""

    def joined(self, arrays: Iterable[Any]) -> Any:
        """The tree with these arrays."""
        left = iter(arrays)
        leaves = [next(left) if leaf is None else leaf for leaf in self.leaves]
        return jax.tree.unflatten(self.structure, leaves)


def apart(tree: Any) -> tuple[list[Any], Constants]:
    """The arrays of a tree, and all else of it."""
    leaves, structure = jax.tree.flatten(tree)
    variable = [isinstance(leaf, np.ndarray | np.generic | jax.Array) for leaf in leaves]
    fixed = tuple(None if it else leaf for it, leaf in zip(variable, leaves, strict=True))
    arrays = [leaf for it, leaf in zip(variable, leaves, strict=True) if it]
    return arrays, Constants(structure, fixed)


def _compiled(function: Any, tree: Any, leaves: list[np.ndarray], shape: Any) -> list[np.ndarray]:
    """The results by one program for all lengths: the last of its pieces is filled up."""
    flat = [np.broadcast_to(leaf, shape).ravel() for leaf in leaves]
    length = len(flat[0])
    pieces = -(-length // _TOGETHER)
    filled = [np.split(np.resize(leaf, pieces * _TOGETHER), pieces) for leaf in flat]
    found = [
        jax.tree.leaves(_at_many(function)(*tree.unflatten(piece)))
        for piece in zip(*filled, strict=True)
    ]
    return [np.concatenate(parts)[:length].reshape(shape) for parts in zip(*found, strict=True)]


@functools.cache
def _at_many(function: Any) -> Any:
    return jax.jit(jax.vmap(function))
