"""Packed 16-bit operands: reading two halves of a register as the two results use them, and writing both.

Source: AMD CDNA4 ISA, "VOP3P"; inline constants: LLVM AMDGPUBaseInfo, getInlineEncodingV216. Arrays are (waves, 64, 2),
(waves, 1, 2) for SGPRs or (2,) for constants; element 0 makes the low half.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.floating import canonical, clamped, flush
from mxassay.gfx950.instruction import Instruction, Operand
from mxassay.gfx950.lanes import dpp_source, dpp_writes
from mxassay.gfx950.operands import TYPES, Read, Write, raw
from mxassay.gfx950.registry import Context
from mxassay.gfx950.wave import Cohort

__all__ = ["constant_halves", "pair_destination", "pair_old", "pair_source", "selects"]


def selects(inst: Instruction, slot: int) -> tuple[int, int]:
    """Which half of source `slot` the low and the high result use. Encodings without OP_SEL_HI use each its own."""
    if not inst.encoding.startswith("VOP3P"):
        return 0, 1
    high = inst["op_sel_hi2"] if slot == 2 else inst["op_sel_hi"] >> slot & 1
    return inst["op_sel"] >> slot & 1, high


def constant_halves(operand: Operand, kind: str) -> NDArray[np.uint16]:
    """An inline constant's 32 bits as two halves: integers sign-extended; floats a float16 (or bfloat16) with zero
    above it in float instructions, a float32 in integer ones."""
    value = operand.value
    if operand.file == "float":
        single = int(np.float32(value).view(np.uint32))
        bits = {"f16": int(np.float16(value).view(np.uint16)), "b16": single >> 16}.get(kind, single)
    else:
        bits = int(value)
    return np.array([bits & 0xFFFFFFFF], np.uint32).view(np.uint16)


def _halves(inst: Instruction, slot: int, context: Context) -> Read:
    operand = inst.src[slot]
    index = operand.index
    if inst.encoding.endswith("_SDWA"):
        context.refuse(inst, "SDWA of a packed operand")
    if inst.encoding.endswith("_DPP") and slot == 0:
        moved = dpp_source(raw(operand, inst, context), inst, context)
        return lambda wv: np.ascontiguousarray(moved(wv)).view(np.uint16).reshape(wv.count, 64, 2)
    if operand.file == "v":
        return lambda wv: wv.v[index].view(np.uint16).reshape(wv.count, 64, 2)
    if operand.file == "a":
        return lambda wv: wv.a[index].view(np.uint16).reshape(wv.count, 64, 2)
    if operand.file == "s":
        return lambda wv: wv.s[index].view(np.uint16).reshape(wv.count, 1, 2)
    return context.refuse(inst, f"no packed value for the operand {operand}")


def pair_source(inst: Instruction, slot: int, kind: str, context: Context) -> Read:
    """Read source `slot` as pairs of `kind` (u16, i16, f16, or b16 for bfloat16 bits), selected, then negated."""
    operand, dtype = inst.src[slot], np.dtype(TYPES[kind])
    low, high = selects(inst, slot)
    flips = [(inst["neg"] >> slot & 1) << 15, (inst["neg_hi"] >> slot & 1) << 15]
    if not inst.encoding.startswith("VOP3P") and any(inst[name] for name in ("abs", "neg", f"src{slot}_abs")):
        context.refuse(inst, "a float modifier on a packed operand")
    if any(flips) and kind[0] in "ui":
        context.refuse(inst, f"a float modifier on the packed {kind} operand {operand}")
    if operand.file in ("int", "float"):
        fixed = (constant_halves(operand, kind)[[low, high]] ^ np.array(flips, np.uint16)).view(dtype)
        return lambda wv: fixed
    if operand.file == "literal":
        literal = np.array([operand.value], np.uint32).view(np.uint16)[[low, high]].view(dtype)
        return lambda wv: literal
    both = _halves(inst, slot, context)
    picked = {(0, 1): slice(None), (0, 0): slice(0, 1), (1, 1): slice(1, 2), (1, 0): slice(None, None, -1)}[low, high]

    def read(wv: Cohort) -> Any:
        return both(wv).view(dtype)[..., picked]

    if any(flips):
        signs = np.array(flips, np.uint16)
        return _flushing(lambda wv: (both(wv)[..., picked] ^ signs).view(dtype), kind, context)
    return _flushing(read, kind, context)


def _flushing(read: Read, kind: str, context: Context) -> Read:
    if kind == "f16" and context.mode.denorm_16_64 in (0, 2):
        return lambda wv: flush(read(wv))
    return read


def pair_old(inst: Instruction, kind: str) -> Read:
    """The destination's old halves."""
    index, dtype = inst.dst[0].index, TYPES[kind]
    return lambda wv: wv.v[index].view(dtype).reshape(wv.count, 64, 2)


def pair_destination(inst: Instruction, kind: str, context: Context, moves: bool = False) -> Write:
    """Write two halves of a VGPR in the lanes that are on; CLAMP of floats applied. `moves`: NaNs are operands' own."""
    if inst.dst[0].file != "v":
        context.refuse(inst, f"a packed result in {inst.dst[0]}")
    index, dtype = inst.dst[0].index, np.dtype(TYPES[kind])
    floats = kind == "f16"
    flushed = floats and context.mode.denorm_16_64 in (0, 1)
    if floats and context.mode.round_16_64:
        context.refuse(inst, "a rounding mode other than nearest even")
    if inst["omod"]:
        context.refuse(inst, "OMOD of a packed result")
    allowed = dpp_writes(inst) if inst.encoding.endswith("_DPP") else None
    clamp = inst["clamp"] and floats

    def write(wv: Cohort, value: Any) -> None:
        value = np.asarray(value)
        if floats and not moves:
            value = canonical(value)
        if clamp:
            value = clamped(value, context.mode.dx10_clamp)
        if flushed:
            value = flush(value)
        register = wv.v[index].view(dtype).reshape(wv.count, 64, 2)
        mask = None if wv.full else wv.mask
        if allowed is not None:
            on = allowed(wv)
            mask = on if mask is None else on & mask
        if mask is None:
            register[...] = value
        else:
            np.copyto(register, value, where=mask[..., None])

    return write
