"""Which numbers of a model are free, and in which coordinate each is solved.

Rates, latencies and times are positive and span twenty orders of magnitude, so a parameter θ is
solved as u = log θ: no bounds, and errors are relative. Where the data hardly see a parameter its
log runs away, and the usual interval collapses to a point at 0. Such a parameter is solved in the
coordinate in which time is linear, and in which it may turn negative: θ = s u for what costs time
(a latency), θ = s / u for what saves it (a rate). A fraction goes through its odds.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, get_type_hints

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

_NEUTRAL_AT_ONE = ("fraction", "share")


class Coordinate:
    """How a parameter θ depends on the unconstrained number u that is solved for."""

    LOG = 0
    """θ = exp(u)"""
    LINEAR = 1
    """θ = scale · u"""
    RECIPROCAL = 2
    """θ = scale / u"""
    ODDS = 3
    """θ = 1 / (1 + exp(−u))"""


class Point(NamedTuple):
    """A place in the space that is searched: one entry for each free parameter."""

    u: np.ndarray
    coordinate: np.ndarray
    scale: np.ndarray
    frozen: np.ndarray
    """True where u stays as it is."""
    highest: np.ndarray
    """The largest possible u of a parameter in a coordinate without bounds of its own."""

    def values(self) -> Any:
        """θ, the parameters themselves; within a JAX program a tracer, else a NumPy array."""
        xp = np if isinstance(self.u, np.ndarray) else jnp
        if xp is np and not self.coordinate.any():
            return np.exp(self.u)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            branches = [
                xp.exp(self.u),
                self.scale * self.u,
                self.scale / self.u,
                1 / (1 + xp.exp(-self.u)),
            ]
            return xp.choose(self.coordinate, branches, mode="clip")

    def slopes(self) -> np.ndarray:
        """dθ/du of each parameter; each θ depends on its own u alone."""
        if not self.coordinate.any():
            return np.exp(self.u)
        u, scale = np.asarray(self.u), np.asarray(self.scale)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            odds = 1 / (2 + np.exp(u) + np.exp(-u))
            branches = [np.exp(u), scale, -scale / u**2, odds]
            return np.choose(np.asarray(self.coordinate), branches, mode="clip")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Parameters:
    """The free numbers of a model, and the model they came from."""

    template: Any
    """The model with every number a float64 array; fixed ones keep their value."""
    free: tuple[int, ...] = field(metadata={"static": True})
    """Positions of the free leaves among the model's leaves."""
    starts: tuple[int, ...] = field(metadata={"static": True})
    """For each of them where its numbers begin; leaves that share a number begin at the same."""
    names: tuple[str, ...] = field(metadata={"static": True})
    """One name for each free number; those of an array carry an index."""
    units: tuple[str, ...] = field(metadata={"static": True})
    fraction: tuple[bool, ...] = field(metadata={"static": True})

    def values(self) -> np.ndarray:
        """The starting values, one for each free number."""
        leaves, values = jax.tree.leaves(self.template), np.empty(len(self.names))
        for place, start in zip(self.free, self.starts, strict=True):
            own = np.ravel(leaves[place])
            values[start : start + own.size] = own
        return values

    def model(self, values: Array | np.ndarray | tuple[Array, ...]) -> Any:
        """The model with these values in place of its free numbers."""
        leaves, structure = jax.tree.flatten(self.template)
        for place, start in zip(self.free, self.starts, strict=True):
            shape = np.shape(leaves[place])
            own = values[start : start + int(np.prod(shape))]
            if isinstance(own, tuple):
                leaves[place] = jnp.stack(own).reshape(shape) if shape else own[0]
            else:
                leaves[place] = own.reshape(shape)
        return jax.tree.unflatten(structure, leaves)

    def start(self) -> Point:
        """The starting point: logs, and odds for fractions."""
        values, fraction = self.values(), np.array(self.fraction)
        odds = np.log(values / np.where(fraction, 1 - values, 1.0))
        return Point(
            np.where(fraction, odds, np.log(values)),
            np.where(fraction, Coordinate.ODDS, Coordinate.LOG),
            np.ones_like(values),
            np.zeros(len(values), bool),
            np.full(len(values), np.inf),
        )


def free_parameters(model: Any, fixed: tuple[str, ...] = ()) -> Parameters:
    """The free numbers of a model: each of its positive floats that is not named as fixed.

    A number that is 0 is a term left out and stays 0, and so does a fraction or share at 1: no
    logarithm moves the one, and the other is neutral. Counts are known and stay too: integers, and
    what is annotated as one.

    Args:
        model: a callable pytree.
        fixed: names of numbers that keep their value.

    Raises:
        ValueError: a name in `fixed` that the model does not have, a negative or infinite start,
            a fraction above 1, or no free number at all.
    """
    model = jax.tree.map(
        lambda leaf: np.asarray(leaf, np.float64) if eqx.is_inexact_array_like(leaf) else leaf,
        model,
    )
    free, starts, names, units, fraction, known = [], [], [], [], [], []
    for place, (path, leaf) in enumerate(jax.tree_util.tree_flatten_with_path(model)[0]):
        name, unit, tag = _describe(model, path)
        is_fraction = tag == "fraction"
        known.append(name)
        if not (isinstance(leaf, np.ndarray) and leaf.dtype == np.float64) or name in fixed:
            continue
        if tag == "count" or np.all(leaf == 0) or (tag in _NEUTRAL_AT_ONE and np.all(leaf == 1)):
            continue
        if not np.all((leaf > 0) & (leaf < (1 if is_fraction else np.inf))):
            domain = "strictly between 0 and 1" if is_fraction else "positive and finite"
            raise ValueError(
                f"{name} starts at {leaf}; it is fitted in log space, so it must start {domain}: "
                f"give another start, or fix it with fixed=({name!r},)"
            )
        free.append(place)
        starts.append(len(names))
        indices = [""] if leaf.ndim == 0 else [f"{list(i)}" for i in np.ndindex(leaf.shape)]
        names += [name + index for index in indices]
        units += [unit] * leaf.size
        fraction += [is_fraction] * leaf.size
    for name in fixed:
        if name not in known:
            raise ValueError(f"fixed={name!r} is not a number of the model; it has {known}")
    if not free:
        raise ValueError(
            f"the model has no free number among {known}; give at least one a positive float "
            "as its start (an integer is a count and stays, and so does a 0)"
        )
    return Parameters(model, *map(tuple, (free, starts, names, units, fraction)))


@lru_cache(256)
def _hints(owner: type) -> dict[str, Any]:
    """The annotations of a class."""
    return get_type_hints(owner, include_extras=True)


def _describe(model: Any, path: tuple[Any, ...]) -> tuple[str, str, str]:
    """Name, unit and tag of a leaf, as its annotation tells."""
    owner, hints, name = model, {}, ""
    for key in path:
        if isinstance(key, jax.tree_util.GetAttrKey):
            name = f"{name}.{key.name}" if name else key.name
            hints = {name: _hints(type(owner)).get(key.name)}
            owner = getattr(owner, key.name)
        elif isinstance(key, jax.tree_util.DictKey):
            name = f"{name}.{key.key}" if name else str(key.key)
            function = getattr(owner, "func", None)
            annotated = get_type_hints(function, include_extras=True) if function else {}
            hints = {name: annotated.get(str(key.key))}
        elif isinstance(key, jax.tree_util.SequenceKey):
            name = f"{name}[{key.idx}]"
    metadata = getattr(hints.get(name), "__metadata__", ("1",))
    return name or "value", metadata[0], metadata[1] if len(metadata) > 1 else ""
