"""How long the property suite takes."""

import sys
import tempfile

from mxassay.figures.figure import Figure, Wish
from mxassay.figures.groups import Measured
from mxassay.figures.measure import processes

_QUICK_BAR_S = 60.0


def measure(wish: Wish) -> Measured:
    """The quick profile on our own kernel and the emulated card, with compiled kernels kept from a run before."""
    with tempfile.TemporaryDirectory(prefix="mxassay-") as folder:
        words = [sys.executable, "-m", "mxassay", "check", "--profile", "quick", "--shapes", "1,16,64"]
        words += ["--device", "emulated", "--database", folder]
        sample = processes({"quick profile": words}, 1)["quick profile"]
    note = "whole command, second run; tests dealt to as many processes as there are cores"
    return Measured(
        (Figure(id="quick profile, warm", group="suite", unit="s", bar=_QUICK_BAR_S, note=note, **sample.row()),)
    )
