"""Relative register numbers: while S_SET_GPR_IDX_ON holds, M0[7:0] is added to the vector registers of VALU
instructions.

Source: AMD CDNA4 ISA, "VGPR indexing"; S_SET_GPR_IDX_ON, _OFF, _IDX, _MODE. A stretch of code between ON and OFF must
lie in one block, so that which operands move is known when steps are built; jumps into or out of it are refused.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mxassay.gfx950.faults import KernelFault
from mxassay.gfx950.instruction import M0, Instruction, Operand
from mxassay.gfx950.registry import Build, Context, Step
from mxassay.gfx950.wave import Cohort

__all__ = ["indexed", "mode_after"]

_ON, _OFF, _MODE = "s_set_gpr_idx_on", "s_set_gpr_idx_off", "s_set_gpr_idx_mode"
_SOURCES = {"src0": 1, "src1": 2, "src2": 4}
_DESTINATION = 8


def mode_after(inst: Instruction, mode: int) -> int:
    """Which operands move after this instruction: 1 SRC0, 2 SRC1, 4 SRC2, 8 VDST, or-ed; 0 when indexing is off."""
    if inst.op == _ON:
        return inst.src[1].index & 15  # the raw field, not what an operand of that number would hold
    if inst.op == _OFF:
        return 0
    return inst["simm16"] & 15 if inst.op == _MODE else mode


def indexed(inst: Instruction, mode: int, build: Build, context: Context) -> Step | None:
    """The step of a VALU instruction under indexing; None where indexing doesn't touch it."""
    if not inst.encoding.startswith("VOP") or not any(_moves(operand, mode) for operand in (*inst.dst, *inst.src)):
        return None
    built: dict[int, Step] = {}

    def at(wv: Cohort, shift: int) -> Step:
        found = built.get(shift)
        if found is None:
            moved = _moved(inst, mode, shift)
            for operand in (*moved.dst, *moved.src):
                if operand.file in "va" and operand.index + operand.count > len(wv.v if operand.file == "v" else wv.a):
                    raise KernelFault(f"an indexed register must exist, not so {operand}", moved, context.kernel)
            made = build(moved, context)
            assert made is not None
            found = built[shift] = _as_step(made)
        return found

    def step(wv: Cohort) -> None:
        shifts = wv.s[M0] & np.uint32(0xFF)
        first = int(shifts[0])
        if (shifts == first).all():
            at(wv, first)(wv)
            return
        for shift in np.unique(shifts):
            rows = np.flatnonzero(shifts == shift)
            part = wv.take(rows)
            at(part, int(shift))(part)
            _give_back(wv, part, rows)

    return step


def _as_step(made: Callable[[Cohort], object]) -> Step:
    return made  # type: ignore[return-value]


def _moves(operand: Operand, mode: int) -> bool:
    bit = _DESTINATION if operand.role == "vdst" else _SOURCES.get(operand.role, 0)
    return operand.file in ("v", "a") and bool(mode & bit)


def _moved(inst: Instruction, mode: int, shift: int) -> Instruction:
    def move(operand: Operand) -> Operand:
        return replace(operand, index=operand.index + shift) if _moves(operand, mode) else operand

    return replace(inst, dst=tuple(map(move, inst.dst)), src=tuple(map(move, inst.src)))


def _give_back(wv: Cohort, part: Cohort, rows: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> None:
    wv.v[:, rows], wv.a[:, rows], wv.s[:, rows], wv.scc[rows] = part.v, part.a, part.s, part.scc
    lanes = wv.exec.copy()
    lanes[rows] = part.exec
    wv.set_exec(lanes)
