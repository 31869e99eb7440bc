"""Dot products of packed values, and multiply-adds of mixed precision. Source: AMD CDNA4 ISA, "VOP3P", "VOP2"."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mxassay.gfx950.floating import bf16_to_f32, canonical, clamped, fma_f32
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.lanewise import reads_of
from mxassay.gfx950.moderegister import limited
from mxassay.gfx950.operands import Read, destination, raw, source
from mxassay.gfx950.pairs import constant_halves, pair_source
from mxassay.gfx950.registry import CERTAIN, INFERRED, Build, Context, Step, define
from mxassay.gfx950.wave import Cohort

F32, I64 = np.float32, np.int64
Unpack = Callable[[Any], list[Any]]


def _accumulator(inst: Instruction, kind: str, context: Context) -> Read:
    """The addend: S2, or the old result in the forms that have two sources."""
    if len(inst.src) == 2:
        return reads_of(inst, [f"dst:{kind}"], context)[0]
    if (inst["neg"] | inst["neg_hi"]) >> 2 & 1:
        context.refuse(inst, "a float modifier on the addend of a dot product")
    return source(inst, 2, kind, context)


def _float_dot(kind: str, convert: Callable[[Any], Any], addend_first: bool) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        """Each product and each sum rounded to float32, in the order of AMD's pseudocode."""
        first, second = (pair_source(inst, slot, kind, context) for slot in (0, 1))
        addend, write = _accumulator(inst, "f32", context), destination(inst, "f32", context)

        def step(wv: Cohort) -> None:
            products = convert(first(wv)) * convert(second(wv))
            low, high, c = products[..., 0], products[..., 1], addend(wv)
            write(wv, (c + low) + high if addend_first else (low + high) + c)

        return step

    return build


def _pairs_of(kind: str) -> Callable[[Instruction, int, Context], Read]:
    def make(inst: Instruction, slot: int, context: Context) -> Read:
        read = pair_source(inst, slot, kind, context)
        return lambda wv: read(wv).astype(I64)

    return make


def _fields_of(width: int, signed: bool) -> Callable[[Instruction, int, Context], Read]:
    """The 32 / width numbers of a register, along a new last axis."""
    count = 32 // width
    up = (32 - width - width * np.arange(count)).astype(np.uint32)
    down = 32 - width

    def make(inst: Instruction, slot: int, context: Context) -> Read:
        if inst["neg"] or inst["neg_hi"]:
            context.refuse(inst, "a float modifier on a packed integer operand")
        read = source(inst, slot, "u32", context)

        def fields(wv: Cohort) -> Any:
            high = np.asarray(read(wv))[..., None] << up
            return (high.view(np.int32) >> np.int32(down) if signed else high >> np.uint32(down)).astype(I64)

        return fields

    return make


def _integer_dot(make: Callable[[Instruction, int, Context], Read], kind: str) -> Build:
    limits = np.iinfo(np.int32 if kind == "i32" else np.uint32)

    def build(inst: Instruction, context: Context) -> Step:
        first, second = (make(inst, slot, context) for slot in (0, 1))
        addend, write = _accumulator(inst, kind, context), destination(inst, kind, context)
        saturates = inst["clamp"]

        def step(wv: Cohort) -> None:
            total = (first(wv) * second(wv)).sum(axis=-1) + addend(wv)
            if saturates:
                total = np.clip(total, limits.min, limits.max)
            write(wv, (total & I64(0xFFFFFFFF)).astype(np.uint32).view(limits.dtype))

        return step

    return build


_ORDER = "AMD CDNA4 ISA, V_DOT2_F32_F16 and its kin: operations and their order; no source fixes the width between them"
define("v_dot2_f32_f16", _float_dot("f16", lambda x: x.astype(F32), True), INFERRED, _ORDER)
define("v_dot2_f32_bf16", _float_dot("b16", bf16_to_f32, False), INFERRED, _ORDER)
define("v_dot2c_f32_f16", _float_dot("f16", lambda x: x.astype(F32), True), INFERRED, _ORDER, reads_dst=True)
define("v_dot2c_f32_bf16", _float_dot("b16", bf16_to_f32, True), INFERRED, _ORDER, reads_dst=True)
_INTEGERS = {
    ("2", "i32", "i16"): _pairs_of("i16"), ("2", "u32", "u16"): _pairs_of("u16"),
    ("4", "i32", "i8"): _fields_of(8, True), ("4", "u32", "u8"): _fields_of(8, False),
    ("8", "i32", "i4"): _fields_of(4, True), ("8", "u32", "u4"): _fields_of(4, False),
}  # fmt: skip
for (_count, _out, _in), _make in _INTEGERS.items():
    define(
        f"v_dot{_count}_{_out}_{_in}", _integer_dot(_make, _out), CERTAIN, "AMD CDNA4 ISA, V_DOT4_I32_I8 and its kin"
    )
    if _out == "i32":
        define(
            f"v_dot{_count}c_{_out}_{_in}", _integer_dot(_make, _out), CERTAIN, "AMD CDNA4 ISA, V_DOT4C_I32_I8",
            reads_dst=True,
        )  # fmt: skip


def _half_of(word: Read, place: int) -> Read:
    return lambda wv: (word(wv) >> np.uint32(16 * place)).astype(np.uint16).view(np.float16).astype(F32)


def _fixed(value: Any) -> Read:
    return lambda wv: value


def _mixed_source(inst: Instruction, slot: int, context: Context) -> Read:
    """A float32, or with OP_SEL_HI the half that OP_SEL names; NEG_HI is ABS here, taken before NEG."""
    operand = inst.src[slot]
    half = inst["op_sel_hi2"] if slot == 2 else inst["op_sel_hi"] >> slot & 1
    absolute, negated = inst["neg_hi"] >> slot & 1, inst["neg"] >> slot & 1
    if half:
        place = inst["op_sel"] >> slot & 1
        read = _half_of(raw(operand, inst, context), place)
        if not operand.is_register:
            fixed = constant_halves(operand, "f16").view(np.float16)[place].astype(F32)
            read = _fixed(fixed)
    else:
        read = source(inst, slot, "f32", context)
    if not (absolute or negated):
        return read

    def modified(wv: Cohort) -> Any:
        value = np.abs(read(wv)) if absolute else read(wv)
        return np.negative(value) if negated else value

    return modified


def _mixed(part: int | None) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        """`part` is the half that a float16 result goes to, None for a float32 result."""
        if context.mode.denorm_32 != 3 or context.mode.denorm_16_64 != 3:
            context.refuse(inst, "flushed denormals in a mixed operation")
        a, b, c = (_mixed_source(inst, slot, context) for slot in range(3))
        if part is None:
            write = destination(inst, "f32", context)
            return lambda wv: write(wv, fma_f32(a(wv), b(wv), c(wv)))
        index = inst.dst[0].index

        def step(wv: Cohort) -> None:
            operands = [read(wv) for read in (a, b, c)]
            value = canonical(limited(wv, fma_f32(*operands).astype(np.float16), operands))
            if inst["clamp"]:
                value = clamped(value, context.mode.dx10_clamp)
            halves = wv.v[index].view(np.float16).reshape(wv.count, 64, 2)[..., part]
            np.copyto(halves, value, where=wv.mask)

        return step

    return build


# gfx950 fuses at these opcodes, which AMD's table still calls V_MAD_MIX (LLVM VOP3PInstructions.td, HasFmaMixInsts).
_MIX = "AMD CDNA4 ISA, V_MAD_MIX_F32, fused (LLVM VOP3PInstructions.td, HasFmaMixInsts)"
define("v_mad_mix_f32", _mixed(None), CERTAIN, _MIX)
define("v_mad_mixlo_f16", _mixed(0), INFERRED, f"{_MIX}; rounded to float32, then to float16", reads_dst=True)
define("v_mad_mixhi_f16", _mixed(1), INFERRED, f"{_MIX}; rounded to float32, then to float16", reads_dst=True)
