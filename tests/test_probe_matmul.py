"""Products: counted in the program, checked to their values, of every shape and type."""

import jax
import numpy as np
import pytest

from probes import matmul
from probes.cell import ProbeError
from probes.matmul import Product
from probes.proof import matrix_products

pytestmark = pytest.mark.timed


@pytest.mark.parametrize("count", [1, 2])
def test_matmul_flops_are_what_xla_counts(devices, count):
    for cell in matmul.cells(devices, [count], 256):
        compiled = getattr(cell.build(), "func")  # noqa: B009
        counted = compiled.cost_analysis()["flops"] * count
        assert cell.flops is not None
        assert counted == pytest.approx(cell.flops * cell.chain, rel=0.01)


@pytest.mark.parametrize("chain", [1, 4])
@pytest.mark.parametrize(
    "product",
    [Product(64, 64), Product(16, 128), Product(512, 16), Product(64, 64, "bfloat16")],
    ids=str,
)
def test_products_run_as_often_as_the_cell_says(devices, product, chain):
    cell = matmul._cell(devices, 2, product, chain)
    compiled = getattr(cell.build(), "func")  # noqa: B009
    assert matrix_products(compiled) == chain
    counted = compiled.cost_analysis()["flops"]
    assert product.dtype != "float32" or counted == pytest.approx(chain * product.flops, rel=0.01)


def test_what_a_chain_must_give_is_what_products_give():
    random = np.random.default_rng(0)
    left, mirror = random.standard_normal((8, 32)), random.standard_normal(32)
    mirror /= np.linalg.norm(mirror)
    turned = np.roll(np.eye(32) - 2 * np.outer(mirror, mirror), 1, axis=1)
    assert np.allclose(matmul._turned(left, mirror, 3), left @ turned @ turned @ turned)
    assert np.allclose(turned @ turned.T, np.eye(32))


@pytest.mark.parametrize("chain", [1, 4])
def test_a_wrong_product_is_refused(devices, monkeypatch, chain):
    # As if one product were missing.
    right = matmul._turned
    monkeypatch.setattr(matmul, "_turned", lambda x, mirror, times: right(x, mirror, times - 1))
    with pytest.raises(ProbeError, match="the product is wrong"):
        matmul._build(devices, 1, Product(64, 64), chain)


def test_a_product_that_was_optimised_away_is_refused(devices, monkeypatch):
    monkeypatch.setattr(jax, "shard_map", lambda program, **_: lambda x, q: x + q)
    with pytest.raises(ProbeError, match="the program runs 0 products, not 1"):
        matmul._build(devices, 1, Product(64, 64), 1)


def test_a_survey_adds_what_one_rate_does_not_explain(devices):
    plain, extra = (make(devices, [1], 256) for make in (matmul.cells, matmul.survey_cells))
    assert all(cell.dtype == "float32" and cell.moved_bytes is None for cell in plain)
    for cell in extra:
        assert cell.dtype == "bfloat16" or cell.moved_bytes
    assert {cell.dtype for cell in extra} == {"float32", "bfloat16"}
