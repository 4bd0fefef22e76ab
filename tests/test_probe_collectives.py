"""Every collective: in the program as often as it says, with the result of NumPy; or refused."""

import jax
import numpy as np
import pytest

from probes import collectives
from probes.cell import ProbeError
from probes.collectives import COLLECTIVES
from probes.proof import count_in_program

pytestmark = pytest.mark.timed


@pytest.fixture(scope="module")
def all_four():
    return jax.devices()[:4]


def cells_of(devices, op, count, size, chain=None):
    found = collectives.cells(devices, [count], [size], ops=(op,))
    return [cell for cell in found if chain in (None, cell.chain)]


def program_of(cell):
    return getattr(cell.build(), "func")  # noqa: B009


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("op", COLLECTIVES)
def test_a_collective_runs_as_often_as_its_cell_says(all_four, op, count):
    single, chained = cells_of(all_four, op, count, 1_200)
    assert (single.chain, chained.chain) == (1, 8)
    for cell in (single, chained):
        found = count_in_program(program_of(cell), COLLECTIVES[op].instruction)
        assert found == cell.chain


WHOLE = np.arange(8, dtype=np.float32)
"""Of which each of two devices holds a half, or each all."""
BY_HAND = {
    "all_reduce": (np.stack([WHOLE, 10 * WHOLE]), np.stack([11 * WHOLE] * 2)),
    "all_gather": (WHOLE.reshape(2, 4), np.stack([WHOLE] * 2)),
    "reduce_scatter": (np.stack([WHOLE, 10 * WHOLE]), 11 * WHOLE.reshape(2, 4)),
    "all_to_all": (WHOLE.reshape(2, 4), np.array([[0, 1, 4, 5], [2, 3, 6, 7]], np.float32)),
    "permute": (WHOLE.reshape(2, 4), np.array([[4, 5, 6, 7], [0, 1, 2, 3]], np.float32)),
}


@pytest.mark.parametrize("op", COLLECTIVES)
def test_what_is_expected_is_what_the_operation_means(op):
    before, after = BY_HAND[op]
    assert np.array_equal(COLLECTIVES[op].by_hand(before), after)


@pytest.mark.parametrize("op", COLLECTIVES)
def test_sizes_are_of_the_full_array(all_four, op):
    """In every collective but all-reduce a full array of M is held in parts, before or after."""
    (cell,) = cells_of(all_four, op, 4, 2**10, chain=1)
    (operand,) = getattr(cell.build(), "args")  # noqa: B009
    full_on_each = op in ("all_reduce", "reduce_scatter")
    assert cell.size_bytes == 2**10
    assert operand.nbytes == 2**10 * (4 if full_on_each else 1)


@pytest.mark.parametrize(
    ("op", "least"),
    [
        ("all_reduce", 4),
        ("all_gather", 12),
        ("reduce_scatter", 12),
        ("all_to_all", 36),
        ("permute", 12),
    ],
)
def test_the_smallest_array_has_something_for_every_device(all_four, op, least):
    found = {cell.size_bytes for cell in collectives.cells(all_four, [3], [4], ops=(op,))}
    assert found == {least}


def test_one_device_has_nothing_to_communicate(all_four):
    assert collectives.cells(all_four, [1], [1_024]) == []


@pytest.mark.parametrize("op", COLLECTIVES)
@pytest.mark.parametrize("chain", [1, 8])
def test_a_collective_that_was_optimised_away_is_refused(all_four, monkeypatch, op, chain):
    idle = COLLECTIVES[op]._replace(once=lambda x: x, onward=lambda result, _: result)
    monkeypatch.setitem(COLLECTIVES, op, idle)
    (cell,) = cells_of(all_four, op, 2, 1_024, chain)
    with pytest.raises(ProbeError, match=f"the program runs 0 {idle.instruction}, not {chain}"):
        cell.build()


@pytest.mark.parametrize("op", COLLECTIVES)
def test_a_chain_whose_links_do_not_hang_together_is_refused(all_four, monkeypatch, op):
    """Where the next operand is not made of the result, the result is not needed."""
    loose = COLLECTIVES[op]._replace(onward=lambda _, operand: operand)
    monkeypatch.setitem(COLLECTIVES, op, loose)
    (cell,) = cells_of(all_four, op, 2, 1_024, 8)
    with pytest.raises(ProbeError, match="the program runs 0"):
        cell.build()


@pytest.mark.parametrize("op", COLLECTIVES)
@pytest.mark.parametrize("chain", [1, 8])
def test_a_wrong_result_is_refused(all_four, monkeypatch, op, chain):
    right = COLLECTIVES[op].by_hand
    wrong = COLLECTIVES[op]._replace(by_hand=lambda rows: 1.001 * right(rows))
    if op == "all_gather" and chain > 1:
        wrong = wrong._replace(onward_by_hand=lambda _, rows: rows)
    monkeypatch.setitem(COLLECTIVES, op, wrong)
    (cell,) = cells_of(all_four, op, 3, 1_200, chain)
    with pytest.raises(ProbeError, match="the result is wrong"):
        cell.build()
