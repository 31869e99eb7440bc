"""A tree with a suite of three small tests in place of the real one, so that a trial takes seconds."""

import pytest

from mxassay.properties.faults import processes
from mxassay.properties.faults import tree as trees
from mxassay.properties.faults.trial import Setting

TINY = """
import os
import time

import pytest
from hypothesis import given, strategies as st

from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE


@given(n=st.integers(0, 15), k=st.integers(0, 31))
def test_first_rows(n, k):
    assert WEIGHT_PRESHUFFLE.bind((16, 32)).offset((n, k)) == k // 16 * 256 + n * 16 + k % 16


@pytest.mark.mx_property("layout-formula")
@given(row=st.integers(0, 255), group=st.integers(0, 7))
def test_scales(row, group):
    if os.environ.get("SLOW") and row > 0:
        time.sleep(600)
    offset = row // 32 * 256 + group % 4 * 64 + row % 16 * 4 + group // 4 * 2 + row % 32 // 16
    assert SCALE_SHUFFLE.bind((256, 8)).offset((row, group)) == offset


def test_without_hypothesis():
    assert WEIGHT_PRESHUFFLE.source.startswith("aiter")
"""


@pytest.fixture(autouse=True, scope="session")
def _stopped():
    yield
    processes.stop()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """`snapshot`, with the suite's chapters replaced by TINY."""

    def make(root):
        tree = trees.snapshot(root)
        for chapter in (root / "properties").glob("test_*.py"):
            chapter.unlink()
        (root / "properties" / "test_tiny.py").write_text(TINY)
        return tree

    return make


@pytest.fixture
def setting(tmp_path):
    return Setting("quick", seed=0, compiled=tmp_path / "triton", threads=1)
