"""Makes the modules of this folder and of the witnesses' importable, and hands out planted kernels and buffers."""

import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "witness")]

import planted  # noqa: E402


@pytest.fixture
def plant():
    return planted.planted


@pytest.fixture
def words():
    """A buffer of uint32, counting up from 0."""
    return lambda count=64: np.arange(count, dtype=np.uint32)
