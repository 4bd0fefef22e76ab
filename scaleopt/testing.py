"""Contracts that any formula or model must keep, for ours and for yours.

    from scaleopt.testing import check_model
    check_model(my_step_time)          # a formula, or an `equinox.Module` that gives seconds

Everything is read from the annotations of `scaleopt.units`: which numbers are physically meaningful
(the strategies here draw them), which dimension the result must have, and in which direction a
time may move. A broken contract is an `AssertionError` that names the argument and the law.
"""

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

try:
    import hypothesis
    import hypothesis.strategies as st
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "scaleopt.testing draws its numbers with hypothesis; install it with "
        "pip install 'scaleopt[test]'"
    ) from error

Number = st.SearchStrategy[float]

_RANGES = {
    "s": (1e-9, 1e3),
    "B": (1.0, 1e13),
    "FLOP": (1e3, 1e20),
    "FLOP/s": (1e6, 1e16),
    "B/s": (1e6, 1e14),
    "s/B": (1e-14, 1e-6),
    "FLOP/B": (1e-3, 1e5),
    "1/s": (1e-3, 1e7),
    "USD/s": (1e-6, 1e2),
}
"""What a quantity of each unit is in reality, from a wire's latency to a day's work."""
_TAGGED = {
    "count": (1.0, 1e5),
    "fraction": (0.01, 0.99),
    "share": (0.01, 1.5),
    "ratio": (1e-2, 1e5),
}
_EXAMPLES = 20


@dataclasses.dataclass(frozen=True)
class Subject:
    """A formula or model as a function of named numbers with units."""

    name: str
    units: Mapping[str, tuple[str, str]]
    """Unit and tag ("count", "fraction", "ratio" or "") of each argument."""
    result_unit: str
    counted: bool
    """Whether the result's FLOP are counted from numbers without a unit."""
    function: Callable[..., Any]

    def __call__(self, numbers: Mapping[str, Any]) -> Any:
        """The result for these numbers."""
        return self.function(**numbers)


def quantities(unit: str, tag: str = "", *, edges: bool = False) -> Number:
    """Physically meaningful numbers of a unit, spread evenly over their orders of magnitude.

    Args:
        unit: such as "s", "B/s", "FLOP"; "1" with a tag.
        tag: "count", "fraction" or "ratio" for numbers without a unit.
        edges: whether to draw the ends of the domain too: no bytes, one device, a fraction of 0.
    """
    low, high = reality(unit, tag)
    inner = st.floats(math.log(low), math.log(high)).map(math.exp)
    if tag == "fraction":
        inner = st.floats(low, high)
    if not edges:
        return inner
    ends = {"count": [1.0, 2.0], "fraction": [0.0, 1.0], "share": [1.0], "ratio": [1.0]}.get(
        tag, []
    )
    if unit in ("s", "B", "FLOP", "s/B"):
        ends = [0.0]
    return st.one_of(inner, st.sampled_from(ends)) if ends else inner


def reality(unit: str, tag: str = "") -> tuple[float, float]:
    """The least and the most that a quantity of this unit is in reality.

    Args:
        unit: such as "s", "B/s", "FLOP"; "1" with a tag.
        tag: "count", "fraction", "share" or "ratio" for numbers without a unit.
    """
    return _TAGGED[tag] if unit == "1" else _RANGES[unit]


def subject(model: Any) -> Subject:
    """A formula, or a model whose fields and call arguments are the numbers, as a `Subject`.

    Raises:
        TypeError: an argument or result without a unit in its annotation.
    """
    if isinstance(model, eqx.Module):
        kind = type(model)
        hints = get_type_hints(kind, include_extras=True)
        fields = {f.name: hints[f.name] for f in dataclasses.fields(kind)}
        call = get_type_hints(kind.__call__, include_extras=True)
        result = call.pop("return", None)
        call = _numbers_of(kind.__call__, call)

        def function(**numbers: Any) -> Any:
            try:
                built = kind(**{name: numbers[name] for name in fields})
            except ValueError:
                hypothesis.reject()  # the model itself says that this is outside its domain
            return built(**{name: numbers[name] for name in call})  # pyright: ignore[reportCallIssue]

        annotated = fields | call
        name = kind.__name__
    else:
        annotated = get_type_hints(model, include_extras=True)
        result = annotated.pop("return", None)
        annotated = _numbers_of(model, annotated)
        function, name = model, model.__name__
    units = {argument: _unit(hint, f"{name}: {argument}") for argument, hint in annotated.items()}
    unit, tag = _unit(result, f"{name}: its result")
    return Subject(name, units, unit, tag == "counted", function)


def check_model(model: Any, *, examples: int = _EXAMPLES) -> None:
    """Hold a formula or model to every contract.

    Args:
        model: a function annotated with units, or an `equinox.Module` whose fields and call are.
        examples: how many draws for each contract.

    Raises:
        AssertionError: a broken contract, with the argument, the law and the numbers.
        TypeError: an annotation without a unit.
    """
    of = subject(model)
    check_transformations(of, examples)
    check_gradients(of, examples)
    check_dimensions(of, examples)
    check_directions(of, examples)


def check_transformations(of: Subject, examples: int = _EXAMPLES) -> None:
    """Eager, jitted and vmapped results are the same."""
    with jax.enable_x64(True):
        jitted = jax.jit(of.function)
        mapped = jax.jit(jax.vmap(lambda numbers: of(numbers)))

        def check(drawn: dict[str, float]) -> None:
            # As arrays: Python's own arithmetic raises where JAX divides by zero.
            numbers = {name: jnp.asarray(number, float) for name, number in drawn.items()}
            eager = np.asarray(of(numbers))
            stacked = {name: jnp.stack([number, number]) for name, number in numbers.items()}
            for how, result in (("jit", jitted(**numbers)), ("vmap", mapped(stacked)[0])):
                assert np.allclose(eager, np.asarray(result), rtol=1e-9, equal_nan=True), (
                    f"{of.name} under {how} gives {result}, eager {eager}, for {drawn}"
                )

        _each(of, check, examples, edges=True)


def check_gradients(of: Subject, examples: int = _EXAMPLES) -> None:
    """Gradients are finite wherever the result is, and lie between one-sided differences."""
    with jax.enable_x64(True):
        derive = jax.jit(jax.value_and_grad(lambda numbers: jnp.sum(of(numbers))))
        value = jax.jit(lambda numbers: of(numbers))

        def finite(numbers: dict[str, float]) -> None:
            result, gradient = derive(numbers)
            for name, slope in gradient.items():
                assert not np.isfinite(result) or np.isfinite(slope), (
                    f"{of.name}: the derivative by {name} is {slope} at {numbers}"
                )

        def between(numbers: dict[str, float]) -> None:
            result, gradient = derive(numbers)
            for name, number in numbers.items():
                step = 1e-6 * number
                above = (float(value(numbers | {name: number + step})) - float(result)) / step
                below = (float(result) - float(value(numbers | {name: number - step}))) / step
                # A difference of 1e-6 keeps nine digits of the value and bends by as much again.
                room = 1e-5 * max(abs(above), abs(below)) + 1e-8 * abs(float(result) / number)
                slope = float(gradient[name])
                if not (np.isfinite(above) and np.isfinite(below)):
                    continue  # the step left the domain
                assert min(above, below) - room <= slope <= max(above, below) + room, (
                    f"{of.name}: the derivative by {name} is {slope}, differences give {below} and "
                    f"{above}, at {numbers}"
                )

        _each(of, finite, examples, edges=True)
        _each(of, between, examples)


def check_dimensions(of: Subject, examples: int = _EXAMPLES) -> None:
    """In other units of time, bytes and work the same formula gives the same quantity."""
    with jax.enable_x64(True):
        value = jax.jit(lambda numbers: of(numbers))
        scales = st.tuples(*[st.floats(0.1, 10.0)] * 3)

        def check(drawn: tuple[dict[str, float], tuple[float, ...]]) -> None:
            numbers, (second, byte, flop) = drawn
            flop = 1.0 if of.counted else flop
            size = {"s": second, "B": byte, "FLOP": flop, "1": 1.0, "USD": 1.0}
            other = {name: x * _factor(of.units[name][0], size) for name, x in numbers.items()}
            expected = float(value(numbers)) * _factor(of.result_unit, size)
            found = float(value(other))
            assert np.isclose(found, expected, rtol=1e-9, equal_nan=True), (
                f"{of.name} is not in {of.result_unit}: with seconds x {second:.3g}, bytes x "
                f"{byte:.3g}, FLOP x {flop:.3g} it gives {found}, not {expected}, at {numbers}"
            )

        _run(st.tuples(_numbers(of, edges=False), scales), check, examples)


def check_directions(of: Subject, examples: int = _EXAMPLES) -> None:
    """A time never falls when a latency, a size or a work grows, nor rises with a rate."""
    if of.result_unit != "s":
        return
    with jax.enable_x64(True):
        value = jax.jit(lambda numbers: of(numbers))

        def check(numbers: dict[str, float]) -> None:
            before = float(value(numbers))
            for name, (unit, _) in of.units.items():
                if unit == "1":
                    continue
                after = float(value(numbers | {name: 1.5 * numbers[name]}))
                rising = unit not in ("FLOP/s", "B/s")
                change = (after - before) * (1 if rising else -1)
                assert change >= -1e-12 * abs(before), (
                    f"{of.name}: the time goes from {before} to {after} s when {name} is half as "
                    f"large again, at {numbers}"
                )

        _each(of, check, examples)


def _numbers_of(function: Callable[..., Any], hints: Mapping[str, Any]) -> dict[str, Any]:
    """The annotated arguments, and those without a default, which need an annotation."""
    known = inspect.signature(function).parameters
    return {
        name: hint
        for name, hint in hints.items()
        if hasattr(hint, "__metadata__") or known[name].default is inspect.Parameter.empty
    }


def _unit(hint: Any, what: str) -> tuple[str, str]:
    """Unit and tag of an annotation; a number that may also be None has those of the number."""
    either = [part for part in get_args(hint) if hasattr(part, "__metadata__")]
    hint = either[0] if get_origin(hint) in (Union, UnionType) and either else hint
    metadata = getattr(hint, "__metadata__", None)
    if metadata is None:
        raise TypeError(f"{what} has no unit; annotate it from scaleopt.units, such as Seconds")
    return metadata[0], metadata[1] if len(metadata) > 1 else ""


def _factor(unit: str, size: Mapping[str, float]) -> float:
    """How a number of this unit changes when the base units do."""
    above, _, below = unit.partition("/")
    return size[above] / (size[below] if below else 1.0)


def _numbers(of: Subject, *, edges: bool) -> st.SearchStrategy[dict[str, float]]:
    drawn = {name: quantities(*unit, edges=edges) for name, unit in of.units.items()}
    return st.fixed_dictionaries(drawn)


def _each(of: Subject, check: Callable[[Any], None], examples: int, *, edges: bool = False) -> None:
    _run(_numbers(of, edges=edges), check, examples)


def _run(strategy: st.SearchStrategy[Any], check: Callable[[Any], None], examples: int) -> None:
    """The check on so many draws, the same ones each time, the simplest failing one reported."""
    quiet = hypothesis.settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=[
            hypothesis.HealthCheck.too_slow,
            hypothesis.HealthCheck.filter_too_much,
        ],
    )
    quiet(hypothesis.given(strategy)(check))()
