"""Work for campaigns under test that needs no kernel: quick, slow, deadly."""

import os
import signal
import time
from pathlib import Path


def outcome(wire):
    return {
        "shape": wire["shape"], "kernel": "made up", "device": wire["device"], "property": "gemm-agreement",
        "plan": wire["plan_words"], "verdict": "PASS", "outputs": 1, "bit_differences": 0, "seconds": 0.0,
        "compile_seconds": 0.0, "dialect": wire["dialect"], "seed": wire["seed"], "message": "", "worker": os.getpid(),
    }  # fmt: skip


def quick(wire):
    return outcome(wire)


def slow(wire):
    """Notes that it began, in the folder that stands for an aiter checkout, and takes a while."""
    Path(wire["aiter"], f"{wire['seed']}-{os.getpid()}").touch()
    time.sleep(0.3)
    return outcome(wire)


def deadly(wire):
    """Seed 1 kills its worker, always."""
    if wire["seed"] == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return outcome(wire)
