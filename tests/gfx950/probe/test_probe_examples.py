"""The examples of the probe's, the pins' and the assembler's docstrings."""

import doctest

import pytest

from mxassay.gfx950 import assembler, pins
from mxassay.gfx950.probe import asking


@pytest.mark.parametrize("module", [assembler, pins, asking], ids=lambda module: module.__name__)
def test_examples(module):
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed
