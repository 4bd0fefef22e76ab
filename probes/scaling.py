"""A real data-parallel training step: forward, backward, one all-reduce of gradients, update.

The model is two square layers, so that work and gradient bytes are set apart by batch and width.
Strong scaling keeps the batch while devices are added, weak scaling keeps the batch of each. Some
steps carry a known busy time on the host, in the column `injected_s`: a fit that takes it into
account must leave the machine's own serial time unchanged.

A step that waits for its results adds the host's work to that of the devices. In a survey steps are
also dispatched one after another and only the last is waited for, method "chain k" with the busy
time before each: then the host's work hides behind that of the devices, as it does in training.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from probes.cell import AXIS, Cell, mesh_of, require, spread
from probes.context import Device
from probes.proof import count_in_program, matrix_products
from probes.shards import local, place
from probes.timing import Program, spin

_LAYERS = 2
_FLOAT = 4
_LEARNING_RATE = 1e-3
_INJECTED_S = 2e-3
_IN_FLIGHT = 8
"""Steps, and so collectives, that are not waited for: from about 40 on a CPU backend hangs."""
_PRODUCTS = 5


class Shape(NamedTuple):
    """A model and its batch over all devices."""

    width: int
    batch: int

    @property
    def flops(self) -> float:
        """Two FLOP a weight and sample forward, four backward, less the first layer's input."""
        return (6.0 * _LAYERS - 2.0) * self.batch * self.width**2

    @property
    def gradient_bytes(self) -> float:
        """Bytes of the gradients on each device."""
        return float(_FLOAT * _LAYERS * self.width**2)


def cells(devices: list[Device], counts: list[int], side: int) -> list[Cell]:
    """Steps of several works and gradient sizes, strong and weak, on each count of devices.

    Args:
        devices: where to run.
        counts: how many devices share a step.
        side: of the largest matrix product of the matmul probe; steps take about as long.
    """
    strong = _strong_shapes(counts, side)
    small = strong[1]
    planned = [
        (count, shape, injected, "strong")
        for count in counts
        for shape, injected in [*((shape, 0.0) for shape in strong), (small, _INJECTED_S)]
    ]
    weak = [(n, Shape(side // 4, side // 2 * n), 0.0, "weak") for n in counts if n > 1]
    return [_cell(devices, *planned_step) for planned_step in planned + weak]


def survey_cells(devices: list[Device], counts: list[int], side: int) -> list[Cell]:
    """Steps that are not waited for one by one, with and without a busy host.

    Args:
        devices: where to run.
        counts: how many devices share a step.
        side: of the largest matrix product of the matmul probe.
    """
    small = _strong_shapes(counts, side)[1]
    return [
        _cell(devices, count, small, injected, "strong, not waited for", _IN_FLIGHT)
        for count in counts
        for injected in (0.0, _INJECTED_S)
    ]


def _strong_shapes(counts: list[int], side: int) -> list[Shape]:
    """Steps whose batch every count of devices divides, or they would not be the same work."""
    shapes = [
        Shape(side // 2, side // 2),
        Shape(side // 4, side // 2),
        Shape(side // 4, 2 * side),
    ]
    return [_divisible(shape, math.lcm(*counts)) for shape in shapes]


def _cell(
    devices: list[Device], count: int, shape: Shape, injected: float, scaling: str, chain: int = 1
) -> Cell:
    return Cell(
        "step",
        count,
        partial(_build, devices, count, shape, injected, chain),
        flops=shape.flops,
        size_bytes=shape.gradient_bytes,
        injected_s=injected,
        chain=chain,
        label=f"{scaling}, batch {shape.batch}, width {shape.width}",
    )


def _divisible(shape: Shape, parts: int) -> Shape:
    """The shape with the least batch, not below its own, that divides into so many parts."""
    return shape._replace(batch=-(-shape.batch // parts) * parts)


def _loss(weights: list[jax.Array], inputs: jax.Array, targets: jax.Array) -> jax.Array:
    hidden = jax.nn.relu(inputs @ weights[0])
    return jnp.sum((hidden @ weights[1] - targets) ** 2)


def _step(
    weights: list[jax.Array], inputs: jax.Array, targets: jax.Array
) -> tuple[list[jax.Array], jax.Array]:
    # As they are, the weights are the same on all devices, and differentiating would sum their
    # gradients weight by weight; as varying ones their gradients stay local, for one sum of all.
    local = jax.tree.map(lambda weight: jax.lax.pcast(weight, AXIS, to="varying"), weights)
    loss, gradients = jax.value_and_grad(_loss)(local, inputs, targets)
    flat, restore = ravel_pytree(gradients)
    samples = inputs.shape[0] * jax.lax.axis_size(AXIS)
    summed = restore(jax.lax.psum(flat, AXIS) / samples)
    return [w - _LEARNING_RATE * g for w, g in zip(weights, summed, strict=True)], loss[None]


def _build(
    devices: list[Device], count: int, shape: Shape, injected: float, chain: int = 1
) -> Program:
    mesh = mesh_of(devices, count)
    random = np.random.default_rng(shape.width)
    scale = 1 / np.sqrt(shape.width)
    square = (shape.width, shape.width)
    weights = [
        place((scale * random.standard_normal(square)).astype(np.float32), mesh, jax.P())
        for _ in range(_LAYERS)
    ]
    data = [
        spread(random.standard_normal((shape.batch, shape.width)).astype(np.float32), mesh)
        for _ in range(2)
    ]
    mapped = jax.shard_map(
        _step,
        mesh=mesh,
        in_specs=(jax.P(), jax.P(AXIS), jax.P(AXIS)),
        out_specs=(jax.P(), jax.P(AXIS)),
    )
    compiled = jax.jit(mapped).lower(weights, *data).compile()
    name = f"step of batch {shape.batch}, width {shape.width} on {count}"
    found = count_in_program(compiled, "all-reduce")
    require(found == 1 or count == 1, name, f"the program runs {found} all-reduces, not 1")
    found = matrix_products(compiled)
    require(found >= _PRODUCTS, name, f"the program runs {found} products, not {_PRODUCTS}")
    before = float(np.sum(local(compiled(weights, *data)[1])))
    after = float(np.sum(local(compiled(compiled(weights, *data)[0], *data)[1])))
    require(after < before, name, "a step does not lower the loss")

    def program() -> object:
        found = weights, None
        for _ in range(chain):
            if injected:
                spin(injected)
            found = compiled(found[0], *data)
        return found

    return program
