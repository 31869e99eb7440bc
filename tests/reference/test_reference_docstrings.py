"""Every example in a docstring of the reference runs."""

import doctest
import importlib
import pkgutil
from dataclasses import is_dataclass
from types import ModuleType

import pytest
import torch

import mxassay.reference

MODULES = sorted(module.name for module in pkgutil.iter_modules(mxassay.reference.__path__))


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(f"mxassay.reference.{name}")
    names = {**vars(mxassay.reference), **vars(module), "torch": torch}
    assert doctest.testmod(module, extraglobs=names).failed == 0


def test_every_public_name_is_exported_and_no_other():
    public = {name for name, value in vars(mxassay.reference).items() if not isinstance(value, ModuleType)}
    assert set(mxassay.reference.__all__) == {name for name in public if not name.startswith("_")}


@pytest.mark.parametrize("name", MODULES)
def test_records_are_frozen(name):
    classes = [
        each for each in vars(importlib.import_module(f"mxassay.reference.{name}")).values() if is_dataclass(each)
    ]
    assert all(each.__dataclass_params__.frozen for each in classes if isinstance(each, type))


@pytest.mark.parametrize("name", [name for name in mxassay.reference.__all__ if name[0].islower()])
def test_public_functions_have_an_example(name):
    assert ">>>" in getattr(mxassay.reference, name).__doc__
