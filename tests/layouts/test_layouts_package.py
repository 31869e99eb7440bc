"""The package as a whole: docstring examples, exports, and an import that leaves torch alone."""

import doctest
import importlib
import subprocess
import sys
from dataclasses import is_dataclass

import pytest

import mxassay.layouts as layouts

MODULES = ["bound", "declaration", "explain", "formula", "golden", "matrix", "memory", "mfma", "movement"]
WITH_EXAMPLES = {"bound", "declaration", "explain", "matrix"}


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    module = importlib.import_module(f"mxassay.layouts.{name}")
    outcome = doctest.testmod(module)
    assert outcome.failed == 0
    assert (outcome.attempted > 0) == (name in WITH_EXAMPLES)


def test_every_export_exists_and_every_layout_is_exported():
    assert all(hasattr(layouts, name) for name in layouts.__all__)
    assert set(layouts.LAYOUTS) <= set(layouts.__all__)
    assert all(getattr(layouts, name) is layout for name, layout in layouts.LAYOUTS.items())


@pytest.mark.parametrize("name", MODULES)
def test_records_are_frozen(name):
    classes = [each for each in vars(importlib.import_module(f"mxassay.layouts.{name}")).values() if is_dataclass(each)]
    assert all(each.__dataclass_params__.frozen for each in classes if isinstance(each, type))


def test_texts_and_arithmetic_need_no_torch():
    code = (
        "import sys; from mxassay.layouts import LAYOUTS, describe, explain\n"
        "for layout in LAYOUTS.values():\n"
        "    describe(layout); explain(layout, None, (0,) * len(layout.axes))\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
