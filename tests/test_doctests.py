"""The examples in the docstrings of the installed packages."""

import doctest
import importlib
import pkgutil

import pytest

import probes
import scaleopt

MODULES = sorted(
    module.name
    for package in (scaleopt, probes)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(importlib.import_module(name), optionflags=flags).failed == 0
