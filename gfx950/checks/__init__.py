"""What an emulator can see and hardware can't: checks of a running kernel, each with a name.

`Checks("races,waitcnt")` is an observer for `Options(observer=...)`; `CHECKS` says what each check states. Findings
name the pc, the source line, wave, lane, address and buffer.
"""

from mxassay.gfx950.checks.catalogue import CHECKS, CheckInfo
from mxassay.gfx950.checks.checks import Checks
from mxassay.gfx950.checks.counts import KernelCounts
from mxassay.gfx950.checks.finding import Finding
from mxassay.gfx950.checks.run import StrictError
from mxassay.gfx950.checks.traffic import PlaceCount

__all__ = ["CHECKS", "CheckInfo", "Checks", "Finding", "KernelCounts", "PlaceCount", "StrictError"]
