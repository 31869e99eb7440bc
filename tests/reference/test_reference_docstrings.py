"""Every example in a docstring of the reference runs."""

import doctest
import importlib
import pkgutil

import pytest
import torch

import mxassay.reference

MODULES = sorted(module.name for module in pkgutil.iter_modules(mxassay.reference.__path__))


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(f"mxassay.reference.{name}")
    names = {**vars(mxassay.reference), **vars(module), "torch": torch}
    assert doctest.testmod(module, extraglobs=names).failed == 0


@pytest.mark.parametrize("name", [name for name in mxassay.reference.__all__ if name[0].islower()])
def test_public_functions_have_an_example(name):
    assert ">>>" in getattr(mxassay.reference, name).__doc__
