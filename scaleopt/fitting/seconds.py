"""What a model says of rows and how that moves with each parameter: all that a fit compiles.

A fit is small linear algebra on the host about one question: the seconds of each row at these
parameters, and their slopes. Compiling takes far longer than answering, so only the model is
compiled, and one program serves many tables: rows are repeated up to a power
of two, and many points are asked for in blocks of one size.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.data.schema import OPS
from scaleopt.fitting.parameters import Parameters, Point
from scaleopt.fitting.rows import Observe

_FEWEST_ROWS = 256
_BLOCK = 64
"""How many points are asked for at once, of few rows."""
_MOST_NUMBERS = 1 << 22
"""Slopes at once, beyond which points are taken one by one."""
_PROGRAMS = 512


class RowSeconds:
    """The seconds of some rows under a model, at any values of its free numbers.

    Args:
        observe: the seconds of each row under a model.
        parameters: the free numbers.
        columns: what `observe` takes, prepared; a value for each row or one for all.
    """

    def __init__(
        self, observe: Observe, parameters: Parameters, columns: dict[str, np.ndarray]
    ) -> None:
        self.observe, self.parameters = observe, parameters
        self.shape = np.broadcast_shapes(*(each.shape for each in columns.values()))
        self.rows = int(np.prod(self.shape))
        self.columns = {
            name: np.broadcast_to(each, self.shape).ravel() for name, each in columns.items()
        }
        leaves, structure = jax.tree.flatten((observe, parameters))
        variable = [isinstance(leaf, np.ndarray | np.generic | Array) for leaf in leaves]
        fixed = tuple(None if it else leaf for it, leaf in zip(variable, leaves, strict=True))
        self._program = _program(structure, fixed)
        self._free = len(parameters.names)
        padded = max(_FEWEST_ROWS, 1 << (self.rows - 1).bit_length())
        self._block = _BLOCK if _BLOCK * padded * self._free <= _MOST_NUMBERS else 1
        with jax.enable_x64(True):
            # Put there once, and not by `asarray`, which compiles a program of its own.
            self._known = jax.device_put(
                (
                    [leaf for it, leaf in zip(variable, leaves, strict=True) if it],
                    {name: np.resize(each, padded) for name, each in self.columns.items()},
                )
            )

    def of(self, rows: np.ndarray) -> "RowSeconds":
        """Those of some of the rows."""
        columns = {name: each[rows] for name, each in self.columns.items()}
        return RowSeconds(self.observe, self.parameters, columns)

    def __call__(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The seconds at each of several values, and their slopes.

        Args:
            theta: (points, parameters).

        Returns:
            (points, rows) and (points, parameters, rows).
        """
        if len(theta) == 1:
            return self._asked(theta)
        seconds = np.empty((len(theta), self.rows))
        slopes = np.empty((len(theta), self._free, self.rows))
        for start in range(0, len(theta), self._block):
            block = slice(start, start + self._block)
            seconds[block], slopes[block] = self._asked(theta[block], self._block)
        return seconds, slopes

    def _asked(self, theta: np.ndarray, points: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """The answer of the program for so many points, of which those given are kept."""
        padded = theta if len(theta) == points else np.resize(theta, (points, self._free))
        with jax.enable_x64(True):
            found = self._program(*self._known, padded)
        seconds, slopes = (np.asarray(each)[: len(theta), ..., : self.rows] for each in found)
        return seconds, slopes


@lru_cache(_PROGRAMS)
def _program(structure: Any, fixed: tuple[Any, ...]) -> Callable[..., tuple[Array, Array]]:
    """The compiled program of a model, in which all that is no array is constant."""

    def at_points(
        arrays: list[Array], columns: dict[str, Array], theta: Array
    ) -> tuple[Array, Array]:
        left = iter(arrays)
        leaves = [next(left) if leaf is None else leaf for leaf in fixed]
        observe, parameters = jax.tree.unflatten(structure, leaves)
        rows = len(next(iter(columns.values())))

        def seconds(values: Array) -> Array:
            return jnp.broadcast_to(observe(parameters.model(values), columns), (rows,))

        def with_slopes(values: Array) -> tuple[Array, Array]:
            found, along = jax.linearize(seconds, values)
            return found, jax.vmap(along)(jnp.eye(len(values)))

        return jax.vmap(with_slopes)(theta)

    return jax.jit(at_points)


def log_time_and_slope(
    observe: Observe, parameters: Parameters, point: Point, columns: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Log T of rows, and its slope by each u.

    Args:
        observe: the seconds of each row under a model.
        parameters: the free numbers.
        point: where they stand.
        columns: what `observe` takes; their shape is that of the result.

    Returns:
        (...) and (..., parameters).
    """
    seconds = RowSeconds(observe, parameters, prepare_columns(columns))
    time, slope = (each[0] for each in seconds(point.values()[None]))
    with np.errstate(divide="ignore", invalid="ignore"):
        log_time, slope = np.log(time), slope.T * point.slopes() / time[:, None]
    return log_time.reshape(seconds.shape), slope.reshape(*seconds.shape, -1)


def prepare_columns(columns: dict[str, Any]) -> dict[str, np.ndarray]:
    """Numbers as float64 arrays, operations as codes."""
    arrays = {}
    for name, value in columns.items():
        if name == "op":
            names = np.asarray(value)
            wrong = set(names.ravel().tolist()) - set(OPS)
            if wrong:
                raise ValueError(f"op {sorted(wrong)} is not known; use one of {', '.join(OPS)}")
            arrays[name] = np.vectorize(OPS.index, otypes=[int])(names)
        else:
            arrays[name] = np.asarray(value, np.float64)
    return arrays
