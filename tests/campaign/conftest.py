"""Makes the campaigns' work importable, here and in workers, which inherit the path."""

import os
import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)

import campaign_work  # noqa: E402


@pytest.fixture
def work():
    return campaign_work


@pytest.fixture(autouse=True)
def inherited(monkeypatch):
    """Dask's workers are fresh interpreters."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH", "")])))
