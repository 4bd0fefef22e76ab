"""A function of numbers at many places, by NumPy: XLA would take longer to compile it than to run.

A plan needs the models at some ten thousand places, once. Compiled, that is there after most of a
second; so the function is traced for single numbers, and each operation of the trace is done on
whole arrays of the host. A function that gathers or adds up on its way has no such trace, and is
compiled as ever.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np
from jax.extend.core import Jaxpr, Literal

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
    leaves, tree = jax.tree.flatten(as_numbers(arguments))
    shape = np.broadcast_shapes(*(leaf.shape for leaf in leaves))
    number = jax.ShapeDtypeStruct((), np.float64)
    with jax.enable_x64(True):
        traced = function.trace(*tree.unflatten([number] * len(leaves)))
        program = traced.jaxpr
        if _is_elementwise(program.jaxpr):
            # What a branch not taken comes to, such as 1/0, is no news here as it is none to XLA.
            with np.errstate(all="ignore"):
                found = _done(program.jaxpr, program.consts, leaves)
        else:
            found = _compiled(function, tree, leaves, shape)
    values = [np.broadcast_to(value, shape) for value in found]
    return jax.tree.unflatten(jax.tree.structure(traced.out_info), values)


def as_numbers(tree: Any) -> Any:
    """A tree with every number a float64 array of the host."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tree)


def _steps(program: Jaxpr) -> Iterator[Any]:
    """The operations of a trace, with those of the functions in it."""
    for step in program.eqns:
        if step.primitive.name == "jit":
            yield from _steps(step.params["jaxpr"].jaxpr)
        else:
            yield step


@functools.lru_cache(maxsize=64)
def _is_elementwise(program: Jaxpr) -> bool:
    """Whether each operation takes single numbers to one number that NumPy makes of them too."""
    return all(
        (step.primitive.name in _NUMPY or step.primitive.name in _OTHERWISE)
        and all(not variable.aval.shape for variable in (*step.invars, *step.outvars))
        # Division and the like mean something else for whole numbers.
        and not np.issubdtype(step.outvars[0].aval.dtype, np.integer)
        for step in _steps(program)
    )


def _done(program: Jaxpr, constants: Iterable[Any], arguments: Iterable[Any]) -> list[Any]:
    """The results of a trace, operation by operation."""
    known: dict[Any, Any] = dict(zip(program.constvars, constants, strict=True))
    known.update(zip(program.invars, arguments, strict=True))

    def value(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else known[variable]

    for step in program.eqns:
        given = [value(variable) for variable in step.invars]
        name, how = step.primitive.name, step.params
        if name == "jit":
            found = _done(how["jaxpr"].jaxpr, how["jaxpr"].consts, given)
        else:
            found = [_NUMPY[name](*given) if name in _NUMPY else _OTHERWISE[name](how, *given)]
        known.update(zip(step.outvars, found, strict=True))
    return [value(variable) for variable in program.outvars]


_NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "pow": np.power,
    "max": np.maximum,
    "min": np.minimum,
    "log": np.log,
    "log1p": np.log1p,
    "exp": np.exp,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "square": np.square,
    "tanh": np.tanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "neg": np.negative,
    "abs": np.abs,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "is_finite": np.isfinite,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
}
_OTHERWISE: dict[str, Callable[..., Any]] = {
    "convert_element_type": lambda how, value: np.asarray(value, how["new_dtype"]),
    "integer_pow": lambda how, value: np.power(value, how["y"]),
    "select_n": lambda how, which, first, second: np.where(which, second, first),
}


def _compiled(function: Any, tree: Any, leaves: list[np.ndarray], shape: Any) -> list[np.ndarray]:
    """The results by one program for all lengths: the last of its pieces is filled up."""
    flat = [np.broadcast_to(leaf, shape).ravel() for leaf in leaves]
    length = len(flat[0])
    pieces = -(-length // _TOGETHER)
    filled = [np.split(np.resize(leaf, pieces * _TOGETHER), pieces) for leaf in flat]
    found = [
        jax.tree.leaves(_program(function)(*tree.unflatten(piece)))
        for piece in zip(*filled, strict=True)
    ]
    return [np.concatenate(parts)[:length].reshape(shape) for parts in zip(*found, strict=True)]


@functools.cache
def _program(function: Any) -> Any:
    return jax.jit(jax.vmap(function))
