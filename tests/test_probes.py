"""The probes on real CPU devices: they do the work they claim, and time it to its end."""

import json
import os
import time

import jax
import numpy as np
import pytest

import scaleopt as so
from probes import matmul
from probes.cell import mesh_of
from probes.context import Confinement, DeviceError, describe, physical_cores, start_devices
from probes.plan import Effort, device_counts
from probes.sweep import sweep
from probes.timing import LoadMeter, seconds_of, spin

pytestmark = pytest.mark.timed

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


def test_a_sweep_writes_what_it_measured(tmp_path, devices, monkeypatch):
    monkeypatch.setattr(matmul, "scout_side", lambda _: 64)
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
