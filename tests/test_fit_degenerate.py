"""Data as bad as reality: what cannot be told is said, and what cannot be fitted is refused."""

import numpy as np
import pandas as pd
import pytest
from jax.tree_util import Partial

import scaleopt as so
from scaleopt.fitting.estimate import MOST_ROWS
from scaleopt.units import Seconds


def amdahl(devices, *, serial: Seconds, work: Seconds):
    return serial + work / devices


LAW = Partial(amdahl, serial=1.0, work=1.0)


def table_of(devices, time):
    return pd.DataFrame({"op": "step", "devices": np.asarray(devices, float), "time_s": time})


def test_a_time_that_is_always_the_same_is_all_serial():
    found = so.fit(LAW, table_of(np.tile([1, 2, 4, 8], 6), 3.0))
    assert found.failure is None
    assert found.model.keywords["serial"] == pytest.approx(3.0, rel=1e-6)
    # The noise cannot be told from rounding, so neither can the work from none.
    assert found.interval()[1].keywords["work"] < 1e-6


@pytest.mark.parametrize("devices", [[1.0, 2.0], [2.0]])
def test_rows_as_few_as_parameters_leave_everything_open(devices):
    found = so.fit(LAW, table_of(devices, 1 + 8 / np.asarray(devices)))
    assert "no more independent rows than parameters" in found.unidentified[0]
    assert np.all(np.isinf(found.ranges()[1]))
    assert np.isinf(found.predict(devices=1024.0).high)


def test_one_number_of_devices_tells_the_sum_alone():
    found = so.fit(LAW, table_of(np.full(12, 4.0), 3.0 * np.tile([0.99, 1.0, 1.01], 4)))
    assert "serial and work cannot be told apart" in found.unidentified[0]
    assert found.predict(devices=4.0).time == pytest.approx(3.0, rel=0.01)
    assert found.predict(devices=4.0).high < 3.2
    assert np.isinf(found.predict(devices=8.0).high)


def test_a_column_that_is_there_twice_is_refused():
    table = table_of([1, 2, 4], [9.0, 5.0, 3.0])
    both = pd.concat([table, table[["devices"]]], axis=1)
    with pytest.raises(ValueError, match="the column 'devices' twice"):
        so.fit(LAW, both)


@pytest.mark.parametrize("time", [0.0, -1.0, np.nan, np.inf])
def test_a_time_that_is_none_is_refused(time):
    with pytest.raises(ValueError, match=r"row 1: time_s is .*; it must be a number above 0"):
        so.fit(LAW, table_of([1, 2, 4], [9.0, time, 3.0]))


def test_more_rows_than_memory_is_kept_for_are_refused():
    rows = table_of(np.ones(MOST_ROWS + 1), 1.0)
    with pytest.raises(ValueError, match=r"2000001 rows.*table.sample\(2000000\)"):
        so.fit(LAW, rows)


def test_an_option_that_is_not_known_is_refused():
    table = table_of([1, 2, 4], [9.0, 5.0, 3.0])
    with pytest.raises(ValueError, match="loss='huber'; choose one of tukey, squares"):
        so.fit(LAW, table, loss="huber")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="residuals='relative'; choose one of log, absolute"):
        so.fit(LAW, table, residuals="relative")  # pyright: ignore[reportArgumentType]
