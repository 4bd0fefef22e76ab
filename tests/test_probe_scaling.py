"""The training step: its work, its one collective, and the host's time in it."""

import jax
import numpy as np
import pandas as pd
import pytest
from jax.flatten_util import ravel_pytree

from probes import scaling
from probes.cell import ProbeError
from probes.timing import seconds_of

pytestmark = pytest.mark.timed


def test_step_flops_are_what_xla_counts(devices):
    """The products are counted exactly; what is left is linear in weights and activations."""
    shape = scaling.Shape(width=256, batch=128)
    random = np.random.default_rng(0)
    weights = [random.standard_normal((256, 256), np.float32) for _ in range(2)]
    data = [random.standard_normal((128, 256), np.float32) for _ in range(2)]
    gradient = jax.jit(jax.grad(scaling._loss)).lower(weights, *data).compile()
    counted = (gradient.cost_analysis() or {})["flops"]
    assert shape.flops <= counted < 1.01 * shape.flops
    assert shape.gradient_bytes == ravel_pytree(weights)[0].nbytes


def test_a_data_parallel_step_is_the_step_on_one_device(devices):
    shape = scaling.Shape(32, 16)
    on_one, on_two = (scaling._build(devices, count, shape, 0.0)()[0] for count in (1, 2))
    for left, right in zip(on_one, on_two, strict=True):
        assert np.allclose(np.asarray(left), np.asarray(right), rtol=1e-5, atol=1e-6)


def test_injected_time_is_in_the_samples(devices):
    cells = [cell for cell in scaling.cells(devices, [1], 256) if cell.label.startswith("strong")]
    times = pd.Series(dtype=float)
    for cell in cells:
        program = cell.build()
        program()
        times[f"{cell.flops} {cell.injected_s}"] = min(seconds_of(program) for _ in range(25))
    with_it = next(cell for cell in cells if cell.injected_s)
    added = times[f"{with_it.flops} {with_it.injected_s}"] - times[f"{with_it.flops} 0.0"]
    # The best of 25 on a machine that others may use: the step itself takes under a millisecond.
    assert added == pytest.approx(with_it.injected_s, abs=1.5e-3)


def test_steps_that_are_not_waited_for_are_the_same_steps(devices):
    shape = scaling.Shape(32, 16)
    one_by_one = scaling._build(devices, 2, shape, 0.0)()[0]
    ahead, loss = scaling._build(devices, 2, shape, 0.0, chain=3)()
    first = scaling._build(devices, 2, shape, 0.0)()[1]
    assert float(np.sum(loss)) < float(np.sum(first))
    assert not np.allclose(np.asarray(ahead[0]), np.asarray(one_by_one[0]))


def test_few_steps_are_in_flight(devices):
    """A CPU backend hangs with some forty collectives that nobody waits for."""
    cells = scaling.survey_cells(devices, [1, 2], 256)
    assert {cell.injected_s for cell in cells} == {0.0, 2e-3}
    assert all(1 < cell.chain <= 16 for cell in cells)


def test_a_step_without_its_all_reduce_is_refused(devices, monkeypatch):
    monkeypatch.setattr(scaling, "_step", lambda weights, inputs, _: (weights, inputs[:1, 0]))
    with pytest.raises(ProbeError, match="the program runs 0 all-reduces"):
        scaling._build(devices, 2, scaling.Shape(32, 16), 0.0)


def test_a_step_without_its_products_is_refused(devices, monkeypatch):
    monkeypatch.setattr(scaling, "_step", lambda weights, inputs, _: (weights, inputs[:1, 0]))
    with pytest.raises(ProbeError, match="the program runs 0 products"):
        scaling._build(devices, 1, scaling.Shape(32, 16), 0.0)


def test_a_step_that_does_not_learn_is_refused(devices, monkeypatch):
    monkeypatch.setattr(scaling, "_LEARNING_RATE", 0.0)
    with pytest.raises(ProbeError, match="does not lower the loss"):
        scaling._build(devices, 2, scaling.Shape(32, 16), 0.0)
