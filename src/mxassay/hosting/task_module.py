"""The contest's `task` module, which every submission imports for its type names.

Source: gpu-mode reference-kernels, problems/amd_202602/mxfp4-mm/task.py.
"""

import sys
import types
from typing import Any, TypedDict


class TestSpec(TypedDict):
    """One test of the contest: sizes in elements, and the seed of its inputs."""

    m: int
    n: int
    k: int
    seed: int


def make_task_module() -> types.ModuleType:
    """`task` with `input_t`, `output_t` and `TestSpec`. The types accept anything; the checks look at the values."""
    task = types.ModuleType("task", __doc__)
    task.__dict__.update(input_t=Any, output_t=Any, TestSpec=TestSpec)
    return task


def install_task() -> None:
    """Supply `task`, unless the submission brings one that is already imported."""
    sys.modules.setdefault("task", make_task_module())
