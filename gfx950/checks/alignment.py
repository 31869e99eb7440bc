"""`alignment`: an address that is no multiple of what its access needs.

Memory takes items of a dword at a dword, narrower ones at their size, and atomics at their size. Scalar loads drop the
two lowest bits of the address without a word, and loads straight to LDS those of M0. LDS takes two dwords at 8 bytes
and four at 16: in unaligned mode, which ROCm sets, a card splits such an access, elsewhere it goes wrong. Sources: AMD
CDNA4 ISA, "Memory alignment", "Scalar memory operations"; LLVM SITargetLowering::allowsMisalignedMemoryAccessesImpl.
"""

from functools import partial

import numpy as np

from mxassay.gfx950.checks.run import Check, Hooks, Run, first_lane
from mxassay.gfx950.instruction import M0, Instruction
from mxassay.gfx950.observe import Access
from mxassay.gfx950.wave import Cohort

__all__ = ["AlignmentCheck"]

_LDS = {1: 1, 2: 2, 4: 4, 8: 8, 12: 4, 16: 16}


class AlignmentCheck(Check):
    def begin(self, run: Run) -> None:
        self.run = run

    def watch(self, inst: Instruction) -> Hooks | None:
        if inst.encoding == "SMEM" and inst.dst:
            return Hooks(before=partial(self._scalar, inst))
        if inst.encoding not in ("MUBUF", "FLAT", "GLOBAL", "SCRATCH", "DS"):
            return None
        to_lds = any(operand.role == "m0" for operand in inst.src)
        return Hooks(before=partial(self._m0, inst) if to_lds else None, access=partial(self._access, inst))

    def _access(self, inst: Instruction, cohort: Cohort, access: Access) -> None:
        if inst.encoding != "DS" and access.space == "lds":
            return
        if access.kind == "atomic":
            need = access.size
        else:
            need = _LDS[access.size] if access.space == "lds" else min(access.size, 4)
        wrong = ((access.address & (need - 1)) != 0) & access.mask
        if wrong.any():
            row, lane = first_lane(wrong)
            address = int(access.address[row, lane])
            buffer = self.run.buffer_at(address) if access.space == "global" else access.space.upper()
            self.run.report(
                "alignment", inst,
                f"the address of {access.size} bytes must be a multiple of {need}, not {address:#x}",
                wave=int(cohort.wave[row]), lane=lane, address=address, buffer=buffer,
                repeats=int(wrong.any(axis=1).sum()),
            )  # fmt: skip

    def _scalar(self, inst: Instruction, cohort: Cohort) -> None:
        base, extra = inst.operand("sbase"), inst.operand("soffset")
        assert base is not None
        low = cohort.s[base.index] + np.uint32(inst["offset"] & 3 if inst["imm"] else 0)
        if inst["soffset_en"] and extra is not None and extra.file == "s":
            low = low + cohort.s[extra.index]
        self._low_bits(inst, cohort, low, "the address of a scalar load")

    def _m0(self, inst: Instruction, cohort: Cohort) -> None:
        self._low_bits(inst, cohort, cohort.s[M0] + np.uint32(inst["offset"] & 3), "the place in LDS")

    def _low_bits(
        self, inst: Instruction, cohort: Cohort, low: "np.ndarray[tuple[int], np.dtype[np.uint32]]", what: str
    ) -> None:
        wrong = (low & np.uint32(3)) != 0
        if wrong.any():
            row = int(wrong.argmax())
            self.run.report(
                "alignment", inst,
                f"{what} must be a multiple of 4, not {int(low[row] & np.uint32(3))} more, which the card drops",
                wave=int(cohort.wave[row]), repeats=int(wrong.sum()),
            )  # fmt: skip
