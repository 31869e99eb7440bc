"""Makes planted kernels and their assembler importable."""

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(FOLDER / "checks"), str(FOLDER / "witness")]

import planted  # noqa: E402


@pytest.fixture
def plant():
    return planted.planted
