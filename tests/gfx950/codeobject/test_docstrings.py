"""The examples in the docstrings run."""

import doctest
import importlib

import pytest

MODULES = (
    "bundle", "codeobject", "debuglines", "descriptor", "elf", "flow", "footprint", "hazardrules", "hazards",
    "metadata", "msgpack", "occupancy", "relocate", "static",
)  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    assert doctest.testmod(importlib.import_module(f"mxassay.gfx950.{name}")).failed == 0


def test_some_are_there():
    finder = doctest.DocTestFinder()
    modules = [importlib.import_module(f"mxassay.gfx950.{name}") for name in MODULES]
    assert sum(bool(test.examples) for module in modules for test in finder.find(module)) >= 4
