"""Every study says its question, command and finding, and has its figure beside it."""

import ast
import importlib
import inspect
import io
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "studies"
SHARED = {"frame.py", "training_runs.py"}
"""What studies have in common, and no studies themselves."""
STUDIES = sorted(path for path in FOLDER.glob("*.py") if path.name not in SHARED)


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_says_what_it_asks_and_found(path):
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert doc.splitlines()[0].endswith("?")
    assert f"Command: python studies/{path.name}" in doc
    assert "Finding: " in doc
    assert (FOLDER / "figures" / f"{path.stem}.png").stat().st_size > 10_000


def test_a_study_runs_as_its_command_says():
    command = [sys.executable, str(FOLDER / "amdahl_ceiling.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "How fast can" in done.stdout
    assert "90.99" in done.stdout


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_draws_its_figure(path):
    study = importlib.import_module(path.stem)
    if inspect.signature(study.draw).parameters:
        pytest.skip("its figure is of a simulation or a measurement that takes minutes")
    picture = io.BytesIO()
    study.draw().savefig(picture)
    assert picture.tell() > 10_000
