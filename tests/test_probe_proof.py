"""What XLA removes, merges and lifts out of loops, and that reading the program tells it.

Each program below looks as if it did the work of a probe; none of them does, and the count of what
is left says so.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from probes.cell import AXIS, ProbeError, mesh_of, require, spread
from probes.proof import count_in_program, instructions, matrix_products, passes_over

LOOP = 4


def varying(x):
    return lax.pcast(x, AXIS, to="varying")


def compiled(devices, program, *operands):
    """A program on two devices, each with its own half of every operand."""
    mesh = mesh_of(devices, 2)
    mapped = jax.shard_map(program, mesh=mesh, in_specs=jax.P(AXIS), out_specs=jax.P(AXIS))
    shards = [spread(operand, mesh) for operand in operands]
    return jax.jit(mapped).lower(*shards).compile()


@pytest.fixture(scope="module")
def numbers():
    return np.random.default_rng(0).random(64, dtype=np.float32)


def of_a_literal(x):
    return x + lax.psum(2.0, AXIS)


def unused(x):
    lax.psum(x, AXIS)
    return x


def equal(x):
    return varying(lax.psum(x, AXIS) + lax.psum(x, AXIS))


def independent(x):
    return varying(lax.psum(x, AXIS) * lax.psum(jnp.sin(x), AXIS))


def lifted_out_of_a_loop(x):
    return lax.fori_loop(0, LOOP, lambda _, carry: carry + varying(lax.psum(x, AXIS)), x)


FOOLED = [(of_a_literal, 1, 0), (unused, 1, 0), (equal, 2, 1), (independent, 2, 1)]


@pytest.mark.parametrize(
    ("program", "written", "left"),
    [*FOOLED, (lifted_out_of_a_loop, LOOP, 1)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_an_all_reduce_that_does_not_run_is_not_counted(devices, numbers, program, written, left):
    found = count_in_program(compiled(devices, program, numbers), "all-reduce")
    assert found == left
    with pytest.raises(ProbeError, match=f"the program runs {left}"):
        require(found == written, "all_reduce", f"the program runs {found}")


def test_an_all_reduce_that_carries_the_data_runs_as_often_as_the_loop_turns(devices, numbers):
    def chained(x):
        return lax.fori_loop(0, LOOP, lambda _, carry: varying(lax.psum(carry, AXIS)), x)

    assert count_in_program(compiled(devices, chained, numbers), "all-reduce") == LOOP


def test_loops_within_loops_multiply(devices, numbers):
    def inner(_, carry):
        return lax.fori_loop(0, 3, lambda _, x: varying(lax.psum(x, AXIS)), carry)

    def outer(x):
        return lax.fori_loop(0, LOOP, inner, x)

    assert count_in_program(compiled(devices, outer, numbers), "all-reduce") == 3 * LOOP


def test_a_loop_that_turns_as_often_as_data_says_counts_as_told(devices, numbers):
    def until(x):
        return lax.while_loop(
            lambda carry: jnp.sum(carry) < 1e6, lambda carry: varying(lax.psum(carry, AXIS)), x
        )

    program = compiled(devices, until, numbers)
    assert count_in_program(program, "all-reduce") == 1
    assert count_in_program(program, "all-reduce", trips=7) == 7


SQUARE = np.random.default_rng(1).random((64, 64), dtype=np.float32)


def test_a_product_of_constants_is_folded_away():
    program = jax.jit(lambda: jnp.asarray(SQUARE) @ jnp.asarray(SQUARE)).lower().compile()
    assert matrix_products(program) == 0


def test_a_product_that_does_not_change_is_lifted_out_of_its_loop():
    def repeated(x, q):
        return lax.fori_loop(0, LOOP, lambda _, carry: carry + x @ q, x)

    def chained(x, q):
        return lax.fori_loop(0, LOOP, lambda _, carry: carry @ q, x)

    assert matrix_products(jax.jit(repeated).lower(SQUARE, SQUARE).compile()) == 1
    assert matrix_products(jax.jit(chained).lower(SQUARE, SQUARE).compile()) == LOOP


def scaled_twice(a):
    return lax.fori_loop(0, LOOP, lambda _, x: lax.optimization_barrier(x * 2) * 3, a)


def scaled_by_one(a):
    return lax.fori_loop(0, LOOP, lambda _, x: x * 1.0, a)


@pytest.mark.parametrize(
    ("program", "operands", "written"),
    [(scaled_twice, 1, 2 * LOOP), (scaled_by_one, 1, LOOP)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_passes_over_memory_that_are_merged_or_dropped_are_not_counted(program, operands, written):
    arrays = [np.zeros(4_096, np.float32)] * operands
    assert passes_over(jax.jit(program).lower(*arrays).compile(), 4_096) < written


def test_instructions_say_whether_they_are_part_of_a_kernel():
    program = jax.jit(lambda x: jnp.sin(x) + jnp.cos(x)).lower(SQUARE).compile()
    found = {found.opcode: found.fused for found in instructions(program)}
    assert found["sine"]
    assert found["cosine"]
    assert not found["fusion"]
