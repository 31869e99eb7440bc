"""Turning relative register numbers on and off. Source: AMD CDNA4 ISA, S_SET_GPR_IDX_*; see `mxassay.gfx950.indexing`
for what they do to other instructions."""

import numpy as np

from mxassay.gfx950.instruction import M0, Instruction
from mxassay.gfx950.registry import CERTAIN, Context, Step, define, semantics
from mxassay.gfx950.scalarwise import scalar_source
from mxassay.gfx950.wave import Cohort

_INDEX, _OPERANDS = np.uint32(0xFF), np.uint32(0xF000)
_ISA = "AMD CDNA4 ISA, S_SET_GPR_IDX_*"


@semantics("s_set_gpr_idx_on", "s_set_gpr_idx_idx", fidelity=CERTAIN, source=_ISA)
def _set_index(inst: Instruction, context: Context) -> Step:
    index = scalar_source(inst.src[0], "u32", inst, context)
    keep, operands = ~_INDEX, np.uint32(0)
    if inst.op == "s_set_gpr_idx_on":
        keep, operands = ~(_INDEX | _OPERANDS), np.uint32((inst.src[1].index & 15) << 12)

    def step(wv: Cohort) -> None:
        wv.s[M0] = wv.s[M0] & keep | index(wv) & _INDEX | operands

    return step


@semantics("s_set_gpr_idx_mode", fidelity=CERTAIN, source=_ISA)
def _set_mode(inst: Instruction, context: Context) -> Step:
    operands = np.uint32((inst["simm16"] & 15) << 12)

    def step(wv: Cohort) -> None:
        wv.s[M0] = wv.s[M0] & ~_OPERANDS | operands

    return step


define("s_set_gpr_idx_off", lambda inst, context: None, CERTAIN, _ISA)
