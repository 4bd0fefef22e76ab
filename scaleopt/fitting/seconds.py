"""What a model says of rows and how that moves with each parameter: all that a fit compiles.

A fit is small linear algebra on the host about one question: the seconds of each row at these
parameters, and their slopes. One point and a few thousand rows are answered by NumPy on the model's
trace, long before a program would be compiled. Many points are asked of a compiled one, in blocks
of one size; rows are repeated up to a power of two, so that one program serves many tables.
"""

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.data.schema import OPS
from scaleopt.fitting.lengths import program_length
from scaleopt.fitting.on_host import Constants, apart
from scaleopt.fitting.operations import Program, program_of
from scaleopt.fitting.parameters import Parameters, Point
from scaleopt.fitting.rows import Observe

_FEWEST_ROWS = 256
_BLOCK = 64
"""How many points are asked for at once, of few rows."""
_MOST_NUMBERS = 1 << 22
"""Slopes at once, beyond which points are taken one by one."""
_FEW_NUMBERS, _FEW_STEPS = 1 << 16, 400
"""Slopes and operations up to which NumPy answers for one point."""
_PROGRAMS = 512
_CODES = {op: float(code) for code, op in enumerate(OPS)}


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
            name: np.broadcast_to(columns[name], self.shape).ravel() for name in sorted(columns)
        }
        self._arrays, self._constants = apart((observe, parameters))
        self._free = len(parameters.names)

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
        with np.errstate(all="ignore"):
            return self.asked(theta)

    def asked(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same for a caller who has told NumPy already not to warn."""
        if len(theta) == 1:
            program = self.by_numpy
            return self._asked(theta) if program is None else self._reckoned(program, theta[0])
        seconds = np.empty((len(theta), self.rows))
        slopes = np.empty((len(theta), self._free, self.rows))
        size = _BLOCK if _BLOCK * self._padded * self._free <= _MOST_NUMBERS else 1
        for start in range(0, len(theta), size):
            block = slice(start, start + size)
            seconds[block], slopes[block] = self._asked(theta[block], size)
        return seconds, slopes

    @property
    def _padded(self) -> int:
        """As many rows as a compiled program is for."""
        return program_length(self.rows, _FEWEST_ROWS)

    @cached_property
    def by_numpy(self) -> Program | None:
        """The model of these rows as operations of NumPy; None where they are too many."""
        if self.rows * self._free > _FEW_NUMBERS:
            return None
        shapes = tuple(jax.ShapeDtypeStruct(each.shape, each.dtype) for each in self._arrays)
        program = _program(self._constants, shapes, tuple(self.columns), self._free)
        if program is None or len(program.steps) > _FEW_STEPS:
            return None
        along = np.eye(self._free)[..., None]
        return program.knowing(*along, *self._arrays, *self.columns.values())

    def _reckoned(self, program: Program, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The answer of NumPy for one point."""
        seconds, slopes = program.run(*theta)
        shape = (self._free, self.rows)
        if np.shape(slopes) != shape or np.shape(seconds) != shape[1:]:
            seconds, slopes = np.broadcast_to(seconds, shape[1:]), np.broadcast_to(slopes, shape)
        return seconds[None], slopes[None]

    def _asked(self, theta: np.ndarray, points: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """The answer of the program for so many points, of which those given are kept."""
        padded = theta if len(theta) == points else np.resize(theta, (points, self._free))
        with jax.enable_x64(True):
            found = _at_many(self._constants)(padded, *self._known)
        seconds, slopes = (np.asarray(each)[: len(theta), ..., : self.rows] for each in found)
        return seconds, slopes

    @cached_property
    def _known(self) -> tuple[list[Array], dict[str, Array]]:
        """The model's arrays and the columns as a compiled program takes them."""
        columns = {name: np.resize(each, self._padded) for name, each in self.columns.items()}
        # Put there once, and not by `asarray`, which compiles a program of its own.
        return jax.device_put((self._arrays, columns))


@lru_cache(_PROGRAMS)
def _along(constants: Constants) -> Any:
    """The seconds of rows at a point, and their slope along a direction."""

    @jax.jit
    def along(
        theta: tuple[Array, ...],
        direction: tuple[Array, ...],
        arrays: list[Array],
        columns: dict[str, Array],
    ) -> tuple[Array, Array]:
        observe, parameters = constants.joined(arrays)
        rows = len(next(iter(columns.values())))

        def seconds(theta: tuple[Array, ...]) -> Array:
            return jnp.broadcast_to(observe(parameters.model(theta), columns), (rows,))

        return jax.jvp(seconds, (theta,), (direction,))

    return along


@lru_cache(_PROGRAMS)
def _program(
    constants: Constants,
    arrays: tuple[jax.ShapeDtypeStruct, ...],
    columns: tuple[str, ...],
    free: int,
) -> Program | None:
    """The same by NumPy, where it can be."""
    number = (jax.ShapeDtypeStruct((), np.float64),) * free
    rows = jax.ShapeDtypeStruct((_FEWEST_ROWS,), np.float64)
    with jax.enable_x64(True):
        traced = _along(constants).trace(number, number, [*arrays], dict.fromkeys(columns, rows))
    return program_of(traced.jaxpr, rows.shape)


@lru_cache(_PROGRAMS)
def _at_many(constants: Constants) -> Callable[..., tuple[Array, Array]]:
    """A compiled program of the same at many points, along each parameter."""
    along = _along(constants)

    def at_point(
        theta: Array, arrays: list[Array], columns: dict[str, Array]
    ) -> tuple[Array, Array]:
        def towards(direction: Array) -> tuple[Array, Array]:
            return along(tuple(theta), tuple(direction), arrays, columns)

        return jax.vmap(towards, out_axes=(None, 0))(jnp.eye(len(theta)))

    return jax.jit(jax.vmap(at_point, in_axes=(0, None, None)))


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
    return log_time_at(RowSeconds(observe, parameters, prepare_columns(columns)), point)


def log_time_at(seconds: RowSeconds, point: Point) -> tuple[np.ndarray, np.ndarray]:
    """The same of rows that are asked for more than once."""
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
            wrong = {*names.ravel().tolist()} - _CODES.keys()
            if wrong:
                raise ValueError(f"op {sorted(wrong)} is not known; use one of {', '.join(OPS)}")
            codes = [_CODES[op] for op in names.ravel().tolist()]
            arrays[name] = np.array(codes).reshape(names.shape)
        else:
            arrays[name] = np.asarray(value, np.float64)
    return arrays
