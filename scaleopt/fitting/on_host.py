"""A function of numbers at many places, by NumPy: XLA would take longer to compile it than to run.

A fit asks a model a few dozen times about some hundred rows, a plan once about ten thousand places.
Compiled, the first answer is there after half a second; so the function is traced, and each
operation of the trace is done on whole arrays of the host. A function that gathers or adds up on
its way has no such trace, and is compiled as ever.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

if TYPE_CHECKING:  # loading it takes longer than a fit
    from jax.extend.core import ClosedJaxpr, Jaxpr

_TOGETHER = 16384
"""Places that one compiled program serves."""


class Step(NamedTuple):
    """An operation: on which values of the program, and which it gives."""

    do: Callable[..., Any]
    given: tuple[int, ...]
    gives: int


@dataclass(frozen=True)
class Program:
    """A trace as operations of NumPy, one after another, on a list of values.

    The first values are the arguments, whatever NumPy broadcasts; None stands where nothing is
    known yet.
    """

    steps: tuple[Step, ...]
    values: tuple[Any, ...]
    arguments: int
    results: tuple[int, ...]

    def __call__(self, *arguments: Any) -> list[Any]:
        """The results for these arguments."""
        values = [*self.values]
        values[: self.arguments] = arguments
        # What a branch not taken comes to, such as 1/0, is no news here as it is none to XLA.
        with np.errstate(all="ignore"):
            for do, given, gives in self.steps:
                values[gives] = do(*[values[place] for place in given])
        return [values[place] for place in self.results]

    def knowing(self, *last: Any) -> "Program":
        """The program of the other arguments: what hangs on these last ones alone is done now."""
        values, first = [*self.values], self.arguments - len(last)
        values[first : self.arguments] = last
        left = []
        with np.errstate(all="ignore"):
            for step in self.steps:
                given = [values[place] for place in step.given]
                if any(value is None for value in given):
                    left.append(step)
                else:
                    values[step.gives] = step.do(*given)
        used = {place for step in left for place in step.given} | {*self.results}
        kept = tuple(value if place in used else None for place, value in enumerate(values))
        return Program(tuple(left), kept, first, self.results)


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


@functools.lru_cache(maxsize=256)
def program_of(trace: "ClosedJaxpr", rows: tuple[int, ...] = ()) -> Program | None:
    """A trace as operations of NumPy; None where one of them is not of single numbers.

    Args:
        trace: of numbers, and of arrays of the shape `rows`.
        rows: an operation on such arrays counts where it is the same for each of their numbers.
    """
    if not _is_elementwise(trace.jaxpr, {(), rows}):
        return None
    building = _Building()
    inputs = [building.place(None) for _ in trace.jaxpr.invars]
    results = building.add(trace.jaxpr, trace.consts, inputs)
    wanted, steps = {*results}, []
    for step in reversed(building.steps):
        if step.gives in wanted:
            wanted.update(step.given)
            steps.append(step)
    return Program(tuple(reversed(steps)), tuple(building.values), len(inputs), tuple(results))


class _Building:
    """A list of values and of the steps between them; what was done already is not done again."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.steps: list[Step] = []
        self._done: dict[Any, int] = {}

    def place(self, value: Any) -> int:
        """Where a new value is."""
        self.values.append(value)
        return len(self.values) - 1

    def add(self, program: "Jaxpr", constants: Iterable[Any], inputs: list[int]) -> list[int]:
        """The places of a trace's results, whose arguments are at these places."""
        at: dict[Any, int] = dict(zip(program.invars, inputs, strict=True))
        at.update(zip(program.constvars, map(self.place, constants), strict=True))

        def placed(variable: Any) -> int:
            return self._literal(variable) if hasattr(variable, "val") else at[variable]

        for step in program.eqns:
            given, name, how = [*map(placed, step.invars)], step.primitive.name, step.params
            if name in _INNER:
                inner = how[_INNER[name]]
                found = self.add(inner.jaxpr, inner.consts, given)
            elif name in _SAME:
                found = given
            else:
                do = _NUMPY[name] if name in _NUMPY else _OTHERWISE[name](how)
                found = [self._step(do, tuple(given))]
            at.update(zip(step.outvars, found, strict=True))
        return [*map(placed, program.outvars)]

    def _literal(self, literal: Any) -> int:
        key = (literal.aval.dtype, float(literal.val).hex())
        if key not in self._done:
            self._done[key] = self.place(literal.val)
        return self._done[key]

    def _step(self, do: Callable[..., Any], given: tuple[int, ...]) -> int:
        if (do, given) not in self._done:
            self._done[do, given] = self.place(None)
            self.steps.append(Step(do, given, self._done[do, given]))
        return self._done[do, given]


def _steps(program: "Jaxpr") -> Iterator[Any]:
    """The operations of a trace, with those of the functions in it."""
    for step in program.eqns:
        if step.primitive.name in _INNER:
            yield from _steps(step.params[_INNER[step.primitive.name]].jaxpr)
        else:
            yield step


def _is_elementwise(program: "Jaxpr", shapes: set[tuple[int, ...]]) -> bool:
    """Whether each operation takes single numbers to one number that NumPy makes of them too."""
    constants: list[Any] = program.constvars
    return not any(constant.aval.shape for constant in constants) and all(
        (step.primitive.name in _NUMPY or step.primitive.name in {*_OTHERWISE, *_SAME})
        and all(variable.aval.shape in shapes for variable in (*step.invars, *step.outvars))
        and len(step.invars) <= 3  # select_n has as many cases as it likes
        # Division and the like mean something else for whole numbers.
        and not np.issubdtype(step.outvars[0].aval.dtype, np.integer)
        for step in _steps(program)
    )


_INNER = {"jit": "jaxpr", "custom_jvp_call": "call_jaxpr"}
"""Operations that are functions with a trace of their own, and where it is."""
_SAME = ("broadcast_in_dim", "copy", "stop_gradient")
"""Operations that leave each number as it is."""
_NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "pow": np.power,
    "max": np.maximum,
    "min": np.minimum,
    "log": np.log,
    "log1p": np.log1p,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "square": np.square,
    "tanh": np.tanh,
    "sign": np.sign,
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


@functools.cache
def _as_type(dtype: Any) -> Callable[[Any], np.ndarray]:
    return lambda value: np.asarray(value, dtype)


@functools.cache
def _power(exponent: int) -> Callable[[Any], Any]:
    return lambda value: np.asarray(value) ** exponent


def _chosen(which: Any, first: Any, second: Any) -> np.ndarray:
    return np.where(which, second, first)


_OTHERWISE: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "convert_element_type": lambda how: _as_type(how["new_dtype"]),
    "integer_pow": lambda how: _power(how["y"]),
    "select_n": lambda _: _chosen,
}


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
