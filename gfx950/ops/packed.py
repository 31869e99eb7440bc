"""Packed operations on two 32-bit values. Source: AMD CDNA4 ISA, "VOP3P"."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mxassay.gfx950.floating import canonical, clamped, flush, fma_f32
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.operands import Read, constant, raw
from mxassay.gfx950.registry import CERTAIN, Build, Context, Step, define, semantics
from mxassay.gfx950.wave import Cohort

_SIGN = np.uint32(0x80000000)


def _half(inst: Instruction, slot: int, high: bool, context: Context) -> Read:
    """The float32 of source `slot` that one half of the result uses: OP_SEL for the low half, OP_SEL_HI for the high
    one."""
    operand = inst.src[slot]
    if high:
        select = inst["op_sel_hi2"] if slot == 2 else inst["op_sel_hi"] >> slot & 1
    else:
        select = inst["op_sel"] >> slot & 1
    negate = inst["neg_hi" if high else "neg"] >> slot & 1
    if operand.file in ("int", "float"):
        # An inline constant fills both halves (LLVM SIFoldOperands, packed float32 constants).
        value = constant(operand, "f32")
        return lambda wv: -value if negate else value
    read = raw(operand, inst, context, select)
    if context.mode.denorm_32 in (0, 2):
        return lambda wv: flush((read(wv) ^ _SIGN if negate else read(wv)).view(np.float32))
    if negate:
        return lambda wv: (read(wv) ^ _SIGN).view(np.float32)
    return lambda wv: read(wv).view(np.float32)


def _pair(function: Callable[..., Any], sources: int) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        mode = context.mode
        if mode.round_32:
            context.refuse(inst, "a rounding mode other than nearest even")
        reads = [[_half(inst, slot, high, context) for slot in range(sources)] for high in (False, True)]
        index, clamp, flushed = inst.dst[0].index, inst["clamp"], mode.denorm_32 in (0, 1)

        def step(wv: Cohort) -> None:
            halves = [np.asarray(function(*(read(wv) for read in half))) for half in reads]
            for word, value in enumerate(halves):
                value = canonical(value)
                if clamp:
                    value = clamped(value, mode.dx10_clamp)
                if flushed:
                    value = flush(value)
                if wv.full:
                    wv.vf[index + word] = value
                else:
                    np.copyto(wv.vf[index + word], value, where=wv.mask)

        return step

    return build


for _name, _function, _count in (("add", np.add, 2), ("mul", np.multiply, 2), ("fma", fma_f32, 3)):
    define(f"v_pk_{_name}_f32", _pair(_function, _count), CERTAIN, "AMD CDNA4 ISA, V_PK_ADD_F32 and its kin")


@semantics("v_pk_mov_b32", fidelity=CERTAIN, source="AMD CDNA4 ISA, V_PK_MOV_B32")
def _move(inst: Instruction, context: Context) -> Step:
    """The low result is the word of S0 that OP_SEL[0] names, the high one the word of S1 that OP_SEL[1] names."""
    if inst["neg"] or inst["neg_hi"] or inst["clamp"]:
        context.refuse(inst, "a float modifier on a packed move")
    low, high = (raw(inst.src[slot], inst, context, inst["op_sel"] >> slot & 1) for slot in (0, 1))
    index = inst.dst[0].index

    def step(wv: Cohort) -> None:
        second = high(wv)
        if inst.src[1].file == "v" and inst.src[1].index + (inst["op_sel"] >> 1 & 1) == index:
            second = second.copy()
        for word, value in ((0, low(wv)), (1, second)):
            if wv.full:
                wv.v[index + word] = value
            else:
                np.copyto(wv.v[index + word], value, where=wv.mask)

    return step
