"""Counts of work and bytes against XLA's own, for shapes and types drawn at random."""

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.xla import counted

import scaleopt as so

sides = st.integers(2, 300)
dtypes = st.sampled_from([jnp.float32, jnp.bfloat16, jnp.float16])
few = settings(max_examples=25)  # each draw lowers a program


def array(*shape, dtype):
    return jax.ShapeDtypeStruct(shape, dtype)


@few
@given(sides, sides, sides, dtypes)
def test_a_matrix_product(m, k, n, dtype):
    flops, moved = counted(jnp.matmul, array(m, k, dtype=dtype), array(k, n, dtype=dtype))
    item = jnp.dtype(dtype).itemsize
    assert float(so.gemm_flops(m, k, n)) == flops
    assert float(so.gemm_bytes(m, k, n, item)) == moved
    assert float(so.gemm_intensity(m, k, n, item)) == pytest.approx(flops / moved, rel=1e-5)


@few
@given(sides, sides, dtypes)
def test_a_matrix_times_a_vector(m, n, dtype):
    flops, moved = counted(jnp.matmul, array(m, n, dtype=dtype), array(n, 1, dtype=dtype))
    intensity = so.gemv_intensity(m, n, jnp.dtype(dtype).itemsize)
    assert float(intensity) == pytest.approx(flops / moved, rel=1e-5)


@few
@given(st.integers(1, 10_000), dtypes)
def test_operations_on_each_element(length, dtype):
    x, item = array(length, dtype=dtype), jnp.dtype(dtype).itemsize
    flops, moved = counted(jnp.add, x, x)
    assert float(so.elementwise_intensity(2, 1, 1, item)) == pytest.approx(flops / moved, rel=1e-5)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_saxpy(dtype):
    """As one fused pass: two operands in, one result out, and a scalar that does not count."""
    x = array(100_000, dtype=dtype)

    def saxpy(x, y):
        return 3 * x + y

    compiled = jax.jit(saxpy).lower(x, x).compile().cost_analysis()
    item = jnp.dtype(dtype).itemsize
    if dtype == jnp.float32:  # a CPU converts bfloat16 before and after, and counts that too
        assert compiled is not None
        found = compiled["flops"] / compiled["bytes accessed"]
        assert float(so.saxpy_intensity(item)) == pytest.approx(found, rel=1e-3)
    flops, _ = counted(saxpy, x, x)
    moved = 3 * 100_000 * item
    assert float(so.saxpy_intensity(item)) == pytest.approx(flops / moved, rel=1e-5)
