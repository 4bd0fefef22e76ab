"""The contracts themselves, each read from the annotations of a formula or model."""

from collections.abc import Callable, Mapping
from typing import Any

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np

from scaleopt.testing.strategies import quantities
from scaleopt.testing.subject import OutsideDomainError, Subject, subject

_EXAMPLES = 20


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
    check_limits(of, examples)


def check_transformations(of: Subject, examples: int = _EXAMPLES) -> None:
    """Eager, jitted and vmapped results are the same."""
    with jax.enable_x64(True):
        mapped = jax.jit(jax.vmap(lambda numbers: of(numbers)))

        def check(drawn: dict[str, float]) -> None:
            # As arrays: Python's own arithmetic raises where JAX divides by zero.
            numbers = {name: jnp.asarray(number, float) for name, number in drawn.items()}
            eager = np.asarray(of(numbers))
            assert of.result_unit != "s" or not np.isnan(eager), (
                f"{of.name}: the time is not a number, for {drawn}"
            )
            stacked = {name: jnp.stack([number, number]) for name, number in numbers.items()}
            for how, result in (("jit", of.jitted(drawn)), ("vmap", mapped(stacked)[0])):
                assert np.allclose(eager, np.asarray(result), rtol=1e-9, equal_nan=True), (
                    f"{of.name} under {how} gives {result}, eager {eager}, for {drawn}"
                )

        _each(of, check, examples, edges=True)


def check_gradients(of: Subject, examples: int = _EXAMPLES) -> None:
    """Gradients are finite wherever the result is, and lie between one-sided differences."""
    with jax.enable_x64(True):
        derive = jax.jit(jax.value_and_grad(lambda numbers: jnp.sum(of(numbers))))

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
                if of.units[name][1] == "count" and number - step < 1:
                    continue  # below one device no law says anything
                above = (float(of.jitted(numbers | {name: number + step})) - float(result)) / step
                below = (float(result) - float(of.jitted(numbers | {name: number - step}))) / step
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
        scales = st.tuples(*[st.floats(0.1, 10.0)] * 3)

        def check(drawn: tuple[dict[str, float], tuple[float, ...]]) -> None:
            numbers, (second, byte, flop) = drawn
            flop = 1.0 if of.counted else flop
            size = {"s": second, "B": byte, "FLOP": flop, "1": 1.0, "USD": 1.0}
            other = {name: x * _factor(of.units[name][0], size) for name, x in numbers.items()}
            expected = float(of.jitted(numbers)) * _factor(of.result_unit, size)
            found = float(of.jitted(other))
            assert np.isclose(found, expected, rtol=1e-9, equal_nan=True), (
                f"{of.name} is not in {of.result_unit}: with seconds x {second:.3g}, bytes x "
                f"{byte:.3g}, FLOP x {flop:.3g} it gives {found}, not {expected}, at {numbers}"
            )

        _run(st.tuples(_numbers(of, edges=False), scales), check, examples)


def check_directions(of: Subject, examples: int = _EXAMPLES) -> None:
    """A time never falls when a latency, size, work or excess grows, nor rises with a rate."""
    if of.result_unit != "s":
        return
    with jax.enable_x64(True):

        def check(numbers: dict[str, float]) -> None:
            before = float(of.jitted(numbers))
            for name, (unit, tag) in of.units.items():
                if unit == "1" and tag != "excess":
                    continue
                after = float(of.jitted(numbers | {name: 1.5 * numbers[name]}))
                rising = unit not in ("FLOP/s", "B/s")
                change = (after - before) * (1 if rising else -1)
                assert change >= -1e-12 * abs(before), (
                    f"{of.name}: the time goes from {before} to {after} s when {name} is half as "
                    f"large again, at {numbers}"
                )

        _each(of, check, examples)


def check_limits(of: Subject, examples: int = _EXAMPLES) -> None:
    """A time is never negative; and at an end of the domain is what it approaches.

    The ends are no latency, no bytes, no work, a fraction of 0 or 1. A count has none: half a
    device does not exist, and a tree's levels are a staircase.
    """
    with jax.enable_x64(True):

        def check(numbers: dict[str, float]) -> None:
            usual = float(of.jitted(numbers))
            assert of.result_unit != "s" or not usual < 0, (
                f"{of.name}: the time is {usual} s, below 0, at {numbers}"
            )
            for name, (unit, tag) in of.units.items():
                for end in _ends(unit, tag):
                    # Near 1 only so far as digits go; near 0 beyond what any other term could be.
                    shares = (1e-6, 1e-9, 0.0) if end else (1e-12, 1e-24, 0.0)
                    near, nearer, there = (
                        float(of.jitted(numbers | {name: end + share * (numbers[name] - end)}))
                        for share in shares
                    )
                    if np.isinf(there):
                        approached = abs(nearer) > abs(near)
                    else:
                        # A thousand times nearer leaves a root a thirtieth of what was missing.
                        rounding = 1e-9 * (abs(there) + abs(usual))
                        approached = abs(nearer - there) <= 0.1 * abs(near - there) + rounding
                    assert approached or np.isnan(there), (
                        f"{of.name}: towards {name} = {end} it goes to {nearer}, and there it is "
                        f"{there}, at {numbers}"
                    )

        _each(of, check, examples)


def _ends(unit: str, tag: str) -> tuple[float, ...]:
    """Where the domain of a quantity ends at a value that a formula must have."""
    if tag == "fraction":
        return 0.0, 1.0
    return (0.0,) if unit in ("s", "B", "FLOP", "s/B") or tag == "excess" else ()


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

    def within(drawn: Any) -> None:
        try:
            check(drawn)
        except OutsideDomainError:
            hypothesis.reject()

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
    quiet(hypothesis.given(strategy)(within))()
