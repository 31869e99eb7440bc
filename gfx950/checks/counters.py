"""Which memory operations of each wave may still be under way: the model of VMCNT and LGKMCNT.

Vector memory operations, stores included, end in the order of their issue and are counted by VMCNT; LDS operations end
in order and scalar loads in any order, both counted by LGKMCNT; FLAT operations count in both. So LGKMCNT above 0 tells
about LDS operations only. EXPCNT is not modelled: on gfx950 no memory operation uses it (LLVM SIInsertWaitcnts,
"vmem write data" events are older).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.instruction import Instruction

__all__ = ["Counters", "waits_of"]

Column = NDArray[np.int64]
NO_VM, NO_LGKM = 63, 15  # the fields' largest values: no wait


def waits_of(inst: Instruction) -> tuple[int, int]:
    """VMCNT and LGKMCNT of an S_WAITCNT (AMD CDNA4 ISA, "S_WAITCNT": VMCNT in bits 15:14 and 3:0, LGKMCNT in 11:8).

    >>> waits_of(Instruction(0, 4, "s_waitcnt", "SOPP", (), (), {"simm16": 0xC07F}))
    (63, 0)
    """
    bits = inst["simm16"]
    return (bits >> 14 & 3) << 4 | bits & 15, bits >> 8 & 15


class Counters:
    """Of each wave by slot, for the counters "vm", "lds" and "smem": how many operations were issued, and how many are
    known to have ended. `flat`: the VMCNT place of the latest FLAT operation, whose data may come from LDS."""

    def __init__(self, slots: int) -> None:
        self.issued: dict[str, Column] = {name: np.zeros(slots, np.int64) for name in ("vm", "lds", "smem")}
        self.ended: dict[str, Column] = {name: np.zeros(slots, np.int64) for name in ("vm", "lds", "smem")}
        self.flat = np.zeros(slots, np.int64)

    def issue(self, rows: Any, counter: str) -> None:
        if counter == "flat":
            self.issued["vm"][rows] += 1
            self.issued["lds"][rows] += 1
            self.flat[rows] = self.issued["vm"][rows]
        else:
            self.issued[counter][rows] += 1

    def wait(self, rows: Any, vm: int, lgkm: int) -> None:
        if vm < NO_VM:
            issued, ended = self.issued["vm"][rows], self.ended["vm"][rows]
            known = issued - vm
            if vm:
                # With a FLAT operation under way nothing but VMCNT(0) tells which ones ended (LLVM SIInsertWaitcnts,
                # counterOutOfOrder).
                known = np.where(self.flat[rows] > ended, ended, known)
            self.ended["vm"][rows] = np.maximum(ended, known)
        if lgkm < NO_LGKM:
            issued, ended = self.issued["lds"][rows], self.ended["lds"][rows]
            self.ended["lds"][rows] = np.maximum(ended, issued - lgkm)
            if lgkm == 0:
                self.ended["smem"][rows] = self.issued["smem"][rows]
