"""The probes on real CPU devices: they do the work they claim, and time it to its end."""

import json
import os
import time

import jax
import numpy as np
import pandas as pd
import pytest
from jax.flatten_util import ravel_pytree

import scaleopt as so
from probes import collectives, matmul, scaling
from probes.cell import ProbeError, count_in_program, mesh_of, require
from probes.context import Confinement, DeviceError, describe, physical_cores, start_devices
from probes.plan import Effort, device_counts
from probes.sweep import sweep
from probes.timing import LoadMeter, seconds_of, spin


def compiled_of(cell):
    """The compiled program that a cell times."""
    return getattr(cell.build(), "func")  # noqa: B009


TINY = Effort(0.1, 2, 2, 2, 2**12, 64)


def test_a_sample_ends_when_the_work_does():
    def wait(x):
        time.sleep(0.05)
        return x

    def program():
        shape = jax.ShapeDtypeStruct((), np.float32)
        return jax.jit(lambda x: jax.pure_callback(wait, shape, x))(np.float32(1))

    program()
    assert seconds_of(program) >= 0.05


def test_spinning_takes_as_long_as_it_says():
    # Never shorter; the least of five, since the machine may take the processor away meanwhile.
    assert 0.02 <= min(seconds_of(lambda: spin(0.02)) for _ in range(5)) < 0.03


def test_load_is_that_of_others():
    meter = LoadMeter()
    spin(0.3)
    assert meter.cores() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize("count", [1, 2])
def test_matmul_flops_are_what_xla_counts(devices, count):
    for cell in matmul.cells(devices, [count], 256):
        compiled = compiled_of(cell)
        counted = compiled.cost_analysis()["flops"] * count
        assert cell.flops is not None
        assert counted == pytest.approx(cell.flops * cell.chain, rel=0.01)


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


@pytest.mark.parametrize("chain", [1, 8])
def test_an_all_reduce_is_in_the_program(devices, chain):
    (cell,) = [c for c in collectives.cells(devices, [2], [512]) if c.chain == chain]
    assert count_in_program(compiled_of(cell), "all-reduce") == min(chain, 2)
    summed = np.asarray(cell.build()())
    assert np.array_equal(summed[0], summed[1])


def test_a_program_without_its_work_is_refused():
    with pytest.raises(ProbeError, match="all_reduce of 8 B: the program holds 0 all-reduces"):
        require(False, "all_reduce of 8 B", "the program holds 0 all-reduces")


def test_a_data_parallel_step_is_the_step_on_one_device(devices):
    shape = scaling.Shape(32, 16)
    on_one, on_two = (scaling._build(devices, count, shape, 0.0)()[0] for count in (1, 2))
    for left, right in zip(on_one, on_two, strict=True):
        assert np.allclose(np.asarray(left), np.asarray(right), rtol=1e-5, atol=1e-6)


def test_every_count_of_devices_up_to_eight():
    assert device_counts(1) == [1]
    assert device_counts(6) == [1, 2, 3, 4, 5, 6]
    assert device_counts(64) == [1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64]
    assert device_counts(12)[-2:] == [8, 12]


def test_a_process_is_confined_and_released():
    before = os.sched_getaffinity(0)
    confinement = Confinement(physical_cores(), active=True)
    confinement.hold(1)
    assert len(os.sched_getaffinity(0)) == 1
    confinement.release()
    assert os.sched_getaffinity(0) == before


def test_devices_that_are_not_there_are_refused():
    with pytest.raises(DeviceError, match="fresh process"):
        start_devices(1000)
    with pytest.raises(DeviceError, match="at least one"):
        start_devices(0)


def test_a_mesh_has_the_devices_asked_for(devices):
    assert list(mesh_of(devices, 2).devices) == devices


def test_a_sweep_writes_what_it_measured(tmp_path, devices):
    path, heard = tmp_path / "t.csv", []
    context = describe(devices)
    with so.MeasurementWriter(path, context) as writer:
        sweep(devices, writer, TINY, lambda done, what: heard.append((done, what)))
    table, found = so.read_measurements(path)
    assert found == json.loads(json.dumps(context))
    assert set(table["op"]) == {"matmul", "all_reduce", "step"}
    assert set(table["devices"]) == {1, 2}
    assert set(table["round"]) == {0, 1}
    assert (table["time_s"] > 0).all()
    assert (table.loc[table["op"] == "all_reduce", "devices"] > 1).all()
    crowded = table["devices"] > len(physical_cores())
    assert (table["oversubscribed"] == crowded).all()
    shares = [done for done, _ in heard]
    assert shares == sorted(shares)
    orders = [table[table["round"] == n].drop(columns=["round", "time_s"]) for n in (0, 1)]
    assert not orders[0].reset_index(drop=True).equals(orders[1].reset_index(drop=True))


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
