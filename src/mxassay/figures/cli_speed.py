"""How soon the command line answers."""

import sys

from mxassay.figures.figure import Figure, Wish
from mxassay.figures.groups import Measured
from mxassay.figures.measure import processes

_HELP_BAR_S = 0.15


def measure(wish: Wish) -> Measured:
    """`mxassay --help` as a process of its own, beside a Python that does nothing."""
    repeats = 4 * wish.repeats
    found = processes(
        {"help": [sys.executable, "-m", "mxassay", "--help"], "bare": [sys.executable, "-c", "pass"]}, repeats
    )
    bare, helped = found["bare"].median, found["help"]
    return Measured(
        (
            Figure(
                id="mxassay --help",
                group="cli",
                unit="s",
                bar=_HELP_BAR_S,
                peer=f"python -c pass: {bare:.3f} s",
                ratio=helped.median / bare,
                **helped.row(),
            ),
        )
    )
