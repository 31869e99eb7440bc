"""The examples of the documentation strings."""

import doctest
import importlib
import pkgutil

import pytest

from mxassay.triage import report

NAMES = [f"{report.__name__}.{module.name}" for module in pkgutil.iter_modules(report.__path__)]


@pytest.mark.parametrize("name", NAMES)
def test_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples():
    assert sum(doctest.testmod(importlib.import_module(name)).attempted for name in NAMES) >= 10
