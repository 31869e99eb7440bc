"""Planted faults of many stages, each found at its stage in the machine code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FAULTS = (
    "scale-rule-floor",
    "nibbles-swapped-by-instruction",
    "conversion-reads-a-neighbour",
    "weight-tile-advances-linearly",
    "scale-halves-exchanged",
    "split-starts-in-packed-bytes",
    "accumulator-in-bfloat16",
    "all-splits-into-the-first-slot",
    "last-partial-not-read",
    "uneven-splits-taken-for-even",
    "linear-plan-reads-preshuffled",
    "remap-forgets-the-remainder",
    "last-column-of-tiles-not-launched",
)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    if not hasattr(os, "fork"):
        pytest.skip("needs a system that forks")
    script = Path(__file__).with_name("wrong_kernels.py")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("compiled"))}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path_factory.mktemp("planted")), *FAULTS],
        capture_output=True, text=True, env=environment, check=True,
    )  # fmt: skip
    return {entry["id"]: entry for entry in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_first_divergence_is_the_stage_of_the_fault(found, fault):
    entry = found[fault]
    assert entry["stage"] == entry["declared"], entry
