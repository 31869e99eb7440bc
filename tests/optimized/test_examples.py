"""The examples in the docstrings run and give what they say."""

import doctest
import importlib
import os
import pkgutil

import pytest

import mxassay.optimized

MODULES = [f"mxassay.optimized.{module.name}" for module in pkgutil.iter_modules(mxassay.optimized.__path__)]


@pytest.mark.skipif(os.environ.get("MXASSAY_DEVICE") == "cuda", reason="the examples use CPU tensors")
@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    names = {"torch": importlib.import_module("torch")}
    result = doctest.testmod(importlib.import_module(name), extraglobs=names, verbose=False)
    assert result.failed == 0
