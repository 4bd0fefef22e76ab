"""A formula or a model seen as a function of named numbers, each with a unit."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import equinox as eqx
import jax


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

    @functools.cached_property
    def jitted(self) -> Callable[[Mapping[str, Any]], Any]:
        """The same, compiled once for all checks."""
        return jax.jit(lambda numbers: self(numbers))


class OutsideDomainError(ValueError):
    """A model refuses numbers that lie outside its own domain."""


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
            except ValueError as error:
                raise OutsideDomainError(str(error)) from error
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
