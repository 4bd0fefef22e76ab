"""`scaleopt next` as a user gives it."""

import json

import pytest
import simulated
from typer.testing import CliRunner

import scaleopt as so
from scaleopt.cli import app

CONTEXT = {"device_kind": "simulated", "devices": 8, "platform": "gpu"}


def call(*arguments):
    return CliRunner().invoke(app, ["next", *map(str, arguments)])


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    rows = simulated.table(0, works=(1e14,), sizes=(1e8,), reduced=(1e3, 1e9))
    so.write_measurements(path, rows, CONTEXT)
    return path


def test_it_names_measurements_and_what_they_cost(table):
    done = call(table, "--count", 6, "--json")
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert sum(row["times"] for row in rows) == 6
    assert all(row["cost_s"] > 0 and row["devices"] <= 8 for row in rows)


def test_it_says_so_in_words(table):
    text = call(table, "--target", "time", "--max-devices", 32, "--count", 3).stdout
    assert "the time on 32 devices is known to ±" in text


def test_a_target_that_is_not_known_is_refused(table):
    done = call(table, "--target", "speed")
    assert done.exit_code == 2
    assert "choose one of devices, time" in done.output
