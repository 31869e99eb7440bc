"""How steps read operands and write results: every encoding's modifiers, once, for all operations.

`source` and `destination` are called when a step is built and return closures over fixed register numbers. A type is
one of the words of `TYPES`; 16-bit values are read and written in the half that OP_SEL or SDWA names, 64-bit values
span two registers. Arrays are (waves, 64), (waves, 1) for SGPRs, or numpy scalars for constants.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.floating import canonical, clamped, flush
from mxassay.gfx950.instruction import Instruction, Operand
from mxassay.gfx950.lanes import dpp_source, dpp_writes, sdwa_result, sdwa_source
from mxassay.gfx950.registry import Context
from mxassay.gfx950.wave import Cohort, Lanes, Mask, join, lanes_of, packed

__all__ = ["TYPES", "Read", "Write", "constant", "destination", "mask_destination", "mask_source", "raw", "source"]

Read = Callable[[Cohort], Any]
Write = Callable[[Cohort, Any], None]
# "b32" and "b64" are bits that float modifiers may touch (v_cndmask_b32, v_mov_b32); u and i types take none.
TYPES: dict[str, Any] = {
    "u32": np.uint32, "i32": np.int32, "f32": np.float32, "b32": np.uint32, "u64": np.uint64, "i64": np.int64,
    "f64": np.float64, "b64": np.uint64, "u16": np.uint16, "i16": np.int16, "f16": np.float16, "b16": np.uint16,
}  # fmt: skip
_BITS: dict[int, Any] = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def raw(operand: Operand, inst: Instruction, context: Context, word: int = 0) -> Read:
    """Read the 32-bit register `word` of an operand as uint32, without modifiers."""
    index = operand.index + word
    if operand.file == "v":
        return lambda wv: wv.v[index]
    if operand.file == "a":
        return lambda wv: wv.a[index]
    if operand.file == "s":
        return lambda wv: wv.s[index][:, None]
    if operand.file == "special":
        return _special(operand, inst, context)
    bits = constant(operand, "u32" if operand.count == 1 else "u64")
    value = np.uint32(int(bits) >> 32 * word & 0xFFFFFFFF)
    return lambda wv: value


def _special(operand: Operand, inst: Instruction, context: Context) -> Callable[[Cohort], Lanes]:
    if operand.value == "scc":
        return lambda wv: wv.scc[:, None].astype(np.uint32)
    if operand.value == "vccz":
        return lambda wv: (wv.pair(106) == 0)[:, None].astype(np.uint32)
    if operand.value == "execz":
        return lambda wv: (wv.exec == 0)[:, None].astype(np.uint32)
    return context.refuse(inst, f"no value for the operand {operand.value}")


def constant(operand: Operand, kind: str) -> Any:
    """An inline constant or literal as a numpy scalar of that type (AMD CDNA4 ISA, "Inline constants", "Literal
    constants").

    Inline integers stand for their bits, sign-extended; inline floats take the operand's format. A literal is
    zero-extended to u64 and b64, sign-extended to i64, and the upper half of f64.
    """
    dtype = np.dtype(TYPES[kind])
    bits_type = _BITS[dtype.itemsize]
    width = dtype.itemsize * 8
    value = operand.value
    if operand.file == "float":
        form: Any = {2: np.float16, 4: np.float32, 8: np.float64}[dtype.itemsize]
        # 1/(2 pi) is given by its bits: 0x3e22f983 in float32.
        return form(value).view(bits_type).view(dtype)
    assert isinstance(value, int)
    if operand.file == "literal" and width == 64:
        if kind == "f64":
            value <<= 32
        elif kind == "i64" and value & 0x80000000:
            value -= 1 << 32
    return bits_type(value & (1 << width) - 1).view(dtype)


def source(inst: Instruction, slot: int, kind: str, context: Context) -> Read:
    """Read source number `slot` as `kind`, with the encoding's selection (DPP, SDWA, OP_SEL), then ABS, then NEG."""
    operand = inst.src[slot]
    read = _selected(inst, operand, slot, kind, context)
    absolute, negated = _float_modifiers(inst, operand, slot)
    dtype = np.dtype(TYPES[kind])
    if absolute or negated:
        if kind[0] in "ui":
            context.refuse(inst, f"a float modifier on the {kind} operand {operand}")
        read = _modified(read, dtype, absolute, negated)
    if kind[0] == "f" and _denormals(kind, context) in (0, 2):
        plain = read
        return lambda wv: flush(plain(wv))
    return read


def _denormals(kind: str, context: Context) -> int:
    return context.mode.denorm_32 if kind == "f32" else context.mode.denorm_16_64


def _float_modifiers(inst: Instruction, operand: Operand, slot: int) -> tuple[bool, bool]:
    if slot > 2 or not operand.role.startswith("src"):
        return False, False
    if inst.encoding in ("VOP3", "VOP3SD"):
        return bool(inst["abs"] >> slot & 1), bool(inst["neg"] >> slot & 1)
    return bool(inst[f"src{slot}_abs"]), bool(inst[f"src{slot}_neg"])


def _modified(read: Read, dtype: np.dtype[Any], absolute: bool, negated: bool) -> Read:
    bits_type = _BITS[dtype.itemsize]
    sign = bits_type(1 << dtype.itemsize * 8 - 1)
    keep = bits_type(~sign)

    def modified(wv: Cohort) -> Any:
        bits = read(wv).view(bits_type)
        if absolute:
            bits = bits & keep
        if negated:
            bits = bits ^ sign
        return bits.view(dtype)

    return modified


def _selected(inst: Instruction, operand: Operand, slot: int, kind: str, context: Context) -> Read:
    dtype = np.dtype(TYPES[kind])
    if operand.file == "v" and dtype.itemsize == 4 and "_" not in inst.encoding:
        return _plain_vgpr(operand.index, kind)  # what nearly all instructions have
    if operand.file in ("int", "float", "literal"):
        value = constant(operand, kind)
        return lambda wv: value
    if dtype.itemsize == 8:
        low, high = raw(operand, inst, context, 0), raw(operand, inst, context, 1)
        if inst.encoding.endswith("_DPP") and slot == 0:
            low, high = dpp_source(low, inst, context), dpp_source(high, inst, context)
        return lambda wv: join(low(wv), high(wv)).view(dtype)
    word = raw(operand, inst, context)
    if inst.encoding.endswith("_DPP") and slot == 0:
        word = dpp_source(word, inst, context)
    if inst.encoding.endswith("_SDWA") and slot < 2:
        word = sdwa_source(word, inst[f"src{slot}_sel"], inst[f"src{slot}_sext"])
    if dtype.itemsize == 4:
        return word if dtype == np.uint32 else lambda wv: word(wv).view(dtype)
    half = inst["op_sel"] >> slot & 1 if inst.encoding == "VOP3" else 0
    return lambda wv: _half(word(wv), half).view(dtype)


def _plain_vgpr(index: int, kind: str) -> Read:
    if kind == "i32":
        return lambda wv: wv.vi[index]
    if kind == "f32":
        return lambda wv: wv.vf[index]
    return lambda wv: wv.v[index]


def _half(word: Lanes, half: int) -> NDArray[np.uint16]:
    if isinstance(word, np.ndarray) and word.flags.c_contiguous:
        return word.view(np.uint16)[..., half::2]
    return (word >> np.uint32(16 * half) & np.uint32(0xFFFF)).astype(np.uint16)


def destination(
    inst: Instruction, kind: str, context: Context, slot: int = 0, keep: bool = False, moves: bool = False
) -> Write:
    """Write destination number `slot`, a VGPR or AGPR, in the lanes EXEC has on; OMOD, CLAMP, SDWA and DPP applied.

    `keep`: a 16-bit result leaves the other half of its register alone (else the upper half becomes zero). `moves`: the
    values are bits of operands, whose NaNs are to stay as they are.
    """
    operand = inst.dst[slot]
    if operand.file not in ("v", "a"):
        context.refuse(inst, f"a vector result in {operand}")
    dtype = np.dtype(TYPES[kind])
    shape = _shaped(inst, kind, context, moves)
    index, file = operand.index, operand.file

    def put(wv: Cohort, word: int, value: Lanes, mask: Mask | None) -> None:
        register = (wv.v if file == "v" else wv.a)[index + word]
        if mask is None:
            register[...] = value
        else:
            np.copyto(register, value, where=mask)

    allowed = dpp_writes(inst) if inst.encoding.endswith("_DPP") else None
    sdwa = inst.encoding.endswith("_SDWA")
    if dtype.itemsize == 4 and file == "v" and allowed is None and not sdwa:
        return _into_vgpr(index, kind, shape)
    half = inst["op_sel"] >> 3 & 1 if inst.encoding == "VOP3" and dtype.itemsize == 2 else 0
    keep = keep or half == 1  # a result in the high half leaves the low one alone (AMD CDNA4 ISA, "VOP3", OP_SEL)

    def write(wv: Cohort, value: Any) -> None:
        mask = None if wv.full else wv.mask
        if allowed is not None:
            on = allowed(wv)
            mask = on if mask is None else on & mask
        if shape is not None:
            value = shape(value)
        if dtype.itemsize == 8:
            value = np.asarray(value).view(np.uint64)
            put(wv, 0, (value & np.uint64(0xFFFFFFFF)).astype(np.uint32), mask)
            put(wv, 1, (value >> np.uint64(32)).astype(np.uint32), mask)
            return
        if dtype.itemsize == 2:
            value = np.asarray(value).view(np.uint16).astype(np.uint32)
            if keep:
                old = (wv.v if file == "v" else wv.a)[index]
                other = np.uint32(0xFFFF if half else 0xFFFF0000)
                value = old & other | (value << np.uint32(16) if half else value)
        elif dtype != np.uint32:
            value = np.asarray(value).view(np.uint32)
        if sdwa:
            value = sdwa_result((wv.v if file == "v" else wv.a)[index], value, inst["dst_sel"], inst["dst_unused"])
        put(wv, 0, value, mask)

    return write


def _into_vgpr(index: int, kind: str, shape: Callable[[Any], Any] | None) -> Write:
    """A `destination` of 32 bits without selections: what nearly all instructions have."""
    name = {"i32": "vi", "f32": "vf"}.get(kind, "v")

    def write(wv: Cohort, value: Any) -> None:
        if shape is not None:
            value = shape(value)
        register = getattr(wv, name)[index]
        if wv.full:
            register[...] = value
        else:
            np.copyto(register, value, where=wv.mask)

    return write


def _shaped(inst: Instruction, kind: str, context: Context, moves: bool) -> Callable[[Any], Any] | None:
    """OMOD, CLAMP, denormal flushing and default NaNs of float results; integer CLAMP is the operation's own
    business."""
    omod, clamp = inst["omod"], inst["clamp"]
    if inst.op.startswith("v_bitop3"):
        omod = 0
    if kind not in ("f32", "f16", "f64"):
        if omod:
            context.refuse(inst, f"OMOD of a {kind} result")
        return None
    dtype = TYPES[kind]
    if context.mode.round_32 if kind == "f32" else context.mode.round_16_64:
        context.refuse(inst, "a rounding mode other than nearest even")
    flushed = _denormals(kind, context) in (0, 1)
    # AMD CDNA4 ISA, "Output modifiers": 1 is times 2, 2 times 4, 3 divided by 2, -0 becomes +0; all ignored where
    # denormals are kept or IEEE is on (so too LLVM SIFoldOperands).
    ignored = context.mode.ieee or _denormals(kind, context) not in (0, 1)
    factor = None if ignored else {0: None, 1: dtype(2), 2: dtype(4), 3: dtype(0.5)}[omod]
    if factor is None and not clamp and not flushed:
        return None if moves else canonical

    def shaped(value: Any) -> Any:
        if not moves:
            value = canonical(value)
        if factor is not None:
            value = flush(value * factor) + dtype(0)
        if clamp:
            value = clamped(value, context.mode.dx10_clamp)
        return flush(value) if flushed else value

    return shaped


def mask_source(operand: Operand, inst: Instruction, context: Context) -> Callable[[Cohort], Mask]:
    """Read a 64-bit lane mask (an SGPR pair, VCC, or a constant) as bool (waves, 64)."""
    if operand.file == "s":
        index = operand.index
        return lambda wv: lanes_of(wv.pair(index))
    if operand.file == "int":
        bits = np.array([constant(operand, "u64")])
        fixed = lanes_of(bits)
        return lambda wv: fixed
    return context.refuse(inst, f"a lane mask from {operand}")


def mask_destination(operand: Operand, inst: Instruction, context: Context) -> Callable[[Cohort, Mask], None]:
    """Write a lane mask to an SGPR pair or VCC: zero in lanes that EXEC has off (AMD CDNA4 ISA, "VOPC")."""
    if operand.file != "s":
        context.refuse(inst, f"a lane mask in {operand}")
    index = operand.index

    def write(wv: Cohort, mask: Mask) -> None:
        bits = packed(mask if mask.shape == wv.mask.shape else np.broadcast_to(mask, wv.mask.shape))
        wv.set_pair(index, bits if wv.full else bits & wv.exec)

    return write
