"""Scaled matrix multiply: V_MFMA_SCALE_F32_16X16X128_F8F6F4 and 32X32X64.

D = C + sum over blocks of 2^(sa + sb - 254) * sum over the block's 32 k of a * b, exact, then rounded once to float32
(RNE). The order and width of the card's own sum are not public: exact-then-round is a declared model, right wherever
every order agrees. EXEC and MODE don't count; NEG and ABS apply to C alone; nothing is flushed.

Layout (AMD CDNA4 ISA, "Matrix arithmetic instructions"): with R rows (16 or 32), A[m, k] lies in lane m + R*(k/32),
VGPR (k%32)/8, nibble k%8 for FP4, and B alike with n for m; one lane holds one block of 32. The scale of (row, block)
is a byte of that lane's scale VGPR. D[i, j] lies in lane j + R*(i/4 mod 64/R), VGPR 4*(i/(4*64/R)) + i%4.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.instruction import Instruction, Operand
from mxassay.gfx950.matrix import FORMATS, block_products, scaled_accumulate
from mxassay.gfx950.operands import constant, raw
from mxassay.gfx950.registry import INFERRED, Build, Context, Step, define
from mxassay.gfx950.wave import Cohort

_CHUNK = 64  # waves a time: their operands as float32 stay inside a core's second-level cache


def accumulator(operand: Operand, registers: int, inst: Instruction) -> Callable[[Cohort], NDArray[np.float32]]:
    """Read C as float32 (registers, waves, 64), with its NEG and ABS."""
    if operand.file in ("v", "a"):
        index, file = operand.index, operand.file

        def plain(wv: Cohort) -> NDArray[np.float32]:
            return (wv.v if file == "v" else wv.a)[index : index + registers].view(np.float32)
    else:
        value = constant(operand, "f32")

        def plain(wv: Cohort) -> NDArray[np.float32]:
            return np.broadcast_to(value, (registers, wv.count, 64))

    if inst["neg_hi"] >> 2 & 1:
        absolute = plain
        plain = lambda wv: np.abs(absolute(wv))  # noqa: E731
    if inst["neg"] >> 2 & 1:
        positive = plain
        plain = lambda wv: -positive(wv)  # noqa: E731
    return plain


def placed(rows: int) -> Callable[[Any], Any]:
    """(waves, i, j) into the destination's layout (registers, waves, 64)."""
    bands = 64 // rows

    def place(total: Any) -> Any:
        waves = total.shape[0]
        parts = total.reshape(waves, rows // (4 * bands), bands, 4, rows).transpose(1, 3, 0, 2, 4)
        return np.ascontiguousarray(parts).reshape(rows * rows // 64, waves, 64)

    return place


def _scales(operand: Operand, byte: int, inst: Instruction, context: Context) -> Callable[[Cohort], NDArray[np.uint8]]:
    read = raw(operand, inst, context)
    if operand.file in ("v", "a"):
        return lambda wv: read(wv).view(np.uint8)[:, byte::4]
    shift = np.uint32(8 * byte)
    return lambda wv: np.broadcast_to(read(wv) >> shift, (wv.count, 64)).astype(np.uint8)


def _build(rows: int) -> Build:
    registers = rows * rows // 64
    place = placed(rows)

    def build(inst: Instruction, context: Context) -> Step:
        form_a, form_b = FORMATS.get(inst["cbsz"]), FORMATS.get(inst["blgp"])
        if form_a is None or form_b is None:
            context.refuse(inst, f"operand formats CBSZ {inst['cbsz']} and BLGP {inst['blgp']}")
        if inst["neg"] & 3 or inst["neg_hi"] & 3:
            context.refuse(inst, "a modifier on A or B")
        a_operand, b_operand, c_operand, scale_a, scale_b = inst.src
        # The byte of the scale VGPR is {OP_SEL_HI[n], OP_SEL[n]}, n = 0 for A and 1 for B.
        byte_a, byte_b = ((inst["op_sel_hi"] >> n & 1) << 1 | (inst["op_sel"] >> n & 1) for n in (0, 1))
        read_sa, read_sb = _scales(scale_a, byte_a, inst, context), _scales(scale_b, byte_b, inst, context)
        read_c = accumulator(c_operand, registers, inst)
        target, first = inst.dst[0].file, inst.dst[0].index
        bits = form_a.top + form_b.top + 5 - form_a.unit - form_b.unit

        def step(wv: Cohort) -> None:
            a = (wv.v if a_operand.file == "v" else wv.a)[a_operand.index : a_operand.index + form_a.registers]
            b = (wv.v if b_operand.file == "v" else wv.a)[b_operand.index : b_operand.index + form_b.registers]
            c, sa, sb = read_c(wv), read_sa(wv), read_sb(wv)
            d = (wv.v if target == "v" else wv.a)[first : first + registers].view(np.float32)
            for start in range(0, wv.count, _CHUNK):
                part = slice(start, start + _CHUNK)
                products = block_products(a[:, part], b[:, part], form_a, form_b, rows)
                d[:, part] = scaled_accumulate(products, sa[part], sb[part], c[:, part], bits, place)

        return step

    return build


for _name, _rows in (("16x16x128", 16), ("32x32x64", 32)):
    define(
        f"v_mfma_scale_f32_{_name}_f8f6f4", _build(_rows), INFERRED,
        "AMD CDNA4 ISA, matrix arithmetic; internal sum: declared model (exact, then rounded)",
    )  # fmt: skip
