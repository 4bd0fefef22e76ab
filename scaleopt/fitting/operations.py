"""A function of numbers as operations of NumPy, which a trace of JAX lists: nothing is compiled.

Each operation of the trace is done on whole arrays of the host, one after another. What an
operation of XLA is to NumPy stands in the tables at the end; a trace with any other has no such
program.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:  # loading it takes longer than a fit
    from jax.extend.core import ClosedJaxpr, Jaxpr


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
        # What a branch not taken comes to, such as 1/0, is no news here as it is none to XLA.
        with np.errstate(all="ignore"):
            return self.run(*arguments)

    def run(self, *arguments: Any) -> list[Any]:
        """The same for a caller who has told NumPy already not to warn."""
        values = [*self.values]
        values[: self.arguments] = arguments
        for do, given, gives in self._taken:
            values[gives] = do(*given(values))
        return [values[place] for place in self.results]

    @cached_property
    def _taken(self) -> list[tuple[Callable[..., Any], Callable[..., Any], int]]:
        """The steps, each with what takes its arguments out of the values."""
        return [(do, _taker(*given), gives) for do, given, gives in self.steps]

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


def _taker(first: int, *others: int) -> Callable[[list[Any]], Any]:
    """What takes the values at these places out of a list."""
    # An item got alone would come without a sequence around it.
    return itemgetter(first, *others) if others else itemgetter(slice(first, first + 1))


@lru_cache(256)
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
            # JAX's own kind of array would call NumPy's functions by way of Python.
            self._done[key] = self.place(np.asarray(literal.val))
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


@cache
def _as_type(dtype: Any) -> Callable[[Any], np.ndarray]:
    return lambda value: np.asarray(value, dtype)


@cache
def _power(exponent: int) -> Callable[[Any], Any]:
    return lambda value: np.asarray(value) ** exponent


def _chosen(which: Any, first: Any, second: Any) -> np.ndarray:
    return np.where(which, second, first)


_OTHERWISE: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "convert_element_type": lambda how: _as_type(how["new_dtype"]),
    "integer_pow": lambda how: _power(how["y"]),
    "select_n": lambda _: _chosen,
}
