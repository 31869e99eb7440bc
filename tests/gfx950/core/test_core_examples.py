"""The examples in the core's docstrings."""

import doctest
import importlib

import numpy as np
import pytest


@pytest.mark.parametrize(("name", "examples"), [("decode", 1), ("memory", 3)])
def test_the_examples_hold(name, examples):
    module = importlib.import_module(f"mxassay.gfx950.{name}")
    outcome = doctest.testmod(module, extraglobs={"np": np})
    assert outcome == (0, examples)
