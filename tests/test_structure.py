"""Imports go down the floors, formulas stay pure, and importing does nothing."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import probes
import scaleopt

PACKAGE, PROBES = Path(scaleopt.__file__).parent, Path(probes.__file__).parent
FLOORS = {
    "units": 0,
    "models": 1,
    "data": 1,
    "fitting": 2,
    "planning": 3,
    "show": 4,
    "testing": 2,
    "cli": 5,
}
FILES = sorted([*PACKAGE.rglob("*.py"), *PROBES.rglob("*.py")])


def imported(path):
    """Every module that a file imports, wherever in it."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def floor_of(module):
    parts = module.split(".")
    return parts[1] if parts[0] == "scaleopt" and len(parts) > 1 else None


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_imports_go_down(path):
    inside = path.is_relative_to(PACKAGE)
    here = path.relative_to(PACKAGE).parts[0].removesuffix(".py") if inside else "probes"
    for module in imported(path):
        assert not module.startswith(("jax._src", "jax.core")), module
        there = floor_of(module)
        if here == "probes" and there:
            assert there in ("units", "data"), f"probes import {module}"
        elif inside and module.split(".")[0] == "probes":
            assert here == "cli", f"{path.name} imports {module}"
        elif there in FLOORS and here in FLOORS and there != here:
            assert FLOORS[there] < FLOORS[here], f"{path.name} imports {module}, a floor above"


@pytest.mark.parametrize("path", sorted((PACKAGE / "models").glob("*.py")), ids=lambda p: p.name)
def test_formulas_are_pure_jax(path):
    roots = {module.split(".")[0] for module in imported(path)}
    assert roots <= {"jax", "equinox", "scaleopt", "typing", "collections"}


def test_only_timing_reads_a_clock():
    readers = [
        path.name
        for path in FILES
        if {"time", "datetime"} & {module.split(".")[0] for module in imported(path)}
    ]
    assert readers == ["timing.py"]


def in_new_process(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_importing_changes_no_configuration_and_starts_no_device():
    code = """
import json, jax
before = dict(jax.config.values)
import scaleopt
for name in scaleopt.__all__: getattr(scaleopt, name)
same = before == dict(jax.config.values)
jax.config.update("jax_num_cpu_devices", 3)  # raises where a backend has started
print(json.dumps([same, len(jax.devices())]))
"""
    assert in_new_process(code) == [True, 3]


def test_help_does_not_wait_for_jax():
    code = """
import json, sys
import scaleopt.cli
heavy = {"jax", "numpy", "pandas", "matplotlib", "scipy", "equinox"}
print(json.dumps(sorted(heavy & set(sys.modules))))
"""
    assert in_new_process(code) == []


def test_every_public_name_is_there():
    public = [name for name in dir(scaleopt) if not name.startswith("_")]
    assert {"calibrate", "fit", "optimal_devices", "StepTime"} <= set(public)
    for name in public:
        assert getattr(scaleopt, name).__doc__, name
