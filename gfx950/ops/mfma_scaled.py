"""Matrix multiply of FP8, BF8, FP6, BF6 and FP4, scaled by blocks of 32 k or not: V_MFMA_SCALE_F32_*_F8F6F4 and
V_MFMA_F32_*_F8F6F4.

D = C + sum over blocks of 2^(sa + sb - 254) * sum over the block's 32 k of a * b, added as `Options.accumulation` says;
the order and width of the card's own sum are not public. EXEC and MODE don't count; NEG and ABS apply to C alone (in
the scaled form); nothing is flushed; scale byte 255 gives NaN.

Layout (AMD CDNA4 ISA, "Matrix arithmetic instructions"): with R rows (16 or 32), A[m, k] of FP6, BF6 and FP4 lies in
lane m + R*(k/32), item k%32; of FP8 and BF8 in lane m + R*(k/16 mod 64/R), item 16*(k/1024*R) + k%16, so that a lane
holds two runs of 16 k (as Triton lowers tl.dot_scaled); B alike with n for m. The scale of (row, block) is a byte of
lane row + R*block of the scale VGPR. D[i, j] lies in lane j + R*(i/4 mod 64/R), VGPR 4*(i/(4*64/R)) + i%4.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.accumulate import Groups, accumulation
from mxassay.gfx950.instruction import Instruction, Operand
from mxassay.gfx950.matrix import (
    E8M0_VALUES,
    FORMATS,
    MatrixFormat,
    block_bits,
    block_products,
    scaled_accumulate,
)
from mxassay.gfx950.operand_matrices import Shape
from mxassay.gfx950.operands import raw
from mxassay.gfx950.ops.mfma import accumulator, registers_of
from mxassay.gfx950.registry import INFERRED, Build, Context, Step, define
from mxassay.gfx950.wave import Cohort

Words = NDArray[np.uint32]
Scales = NDArray[np.uint8] | None
_CHUNK = 64  # waves a time: their operands as float32 stay inside a core's second-level cache
_BLOCK = 32


def _c_of(operand: Operand, registers: int, inst: Instruction, scaled: bool) -> Callable[[Cohort], Any]:
    """C as float32 (registers, waves, 64), with its NEG and ABS (whose bits mean other things in the unscaled form)."""
    words = accumulator(operand, registers, "f32")
    absolute, negated = (bool(scaled and inst[name] >> 2 & 1) for name in ("neg_hi", "neg"))

    def read(wv: Cohort) -> Any:
        c = words(wv).view(np.float32)
        if absolute:
            c = np.abs(c)
        return -c if negated else c

    return read


def placed(rows: int) -> Callable[[Any], Any]:
    """(waves, i, j) into the destination's layout (registers, waves, 64)."""
    bands = 64 // rows

    def place(total: Any) -> Any:
        waves = total.shape[0]
        parts = total.reshape(waves, rows // (4 * bands), bands, 4, rows).transpose(1, 3, 0, 2, 4)
        return np.ascontiguousarray(parts).reshape(rows * rows // 64, waves, 64)

    return place


def _scales(inst: Instruction, slot: int, context: Context) -> Callable[[Cohort], Scales]:
    """Scale bytes (waves, 64) of A (slot 0) or B (1); None where the instruction has none.

    The byte of the scale VGPR is {OP_SEL_HI[n], OP_SEL[n]}, n = 0 for A and 1 for B.
    """
    if len(inst.src) == 3:
        return lambda wv: None
    operand = inst.src[3 + slot]
    byte = (inst["op_sel_hi"] >> slot & 1) << 1 | (inst["op_sel"] >> slot & 1)
    read = raw(operand, inst, context)
    if operand.file in ("v", "a"):
        return lambda wv: read(wv).view(np.uint8)[:, byte::4]
    shift = np.uint32(8 * byte)
    return lambda wv: np.broadcast_to(read(wv) >> shift, (wv.count, 64)).astype(np.uint8)


Multiply = Callable[[Words, Words, Scales, Scales, Any], Any]  # operands, scales, C in its layout -> D in its layout


def _in_blocks(form_a: MatrixFormat, form_b: MatrixFormat, rows: int) -> Multiply:
    """Short sums of narrow formats: block products in float32, exact by their bits."""
    place, bits = placed(rows), block_bits(form_a, form_b)
    ones = np.full((_CHUNK, 64), 127, np.uint8)

    def multiply(a: Words, b: Words, sa: Scales, sb: Scales, c: Any) -> Any:
        products = block_products(a, b, form_a, form_b, rows)
        plain = ones[: a.shape[1]]
        return scaled_accumulate(products, plain if sa is None else sa, plain if sb is None else sb, c, bits, place)

    return multiply


# MMA-Sim, CDNA3: 16 products of FP8 a group, even and odd k apart; for the other formats a declared guess.
_GROUP = (16, True)


def _in_rows(form_a: MatrixFormat, form_b: MatrixFormat, rows: int, context: Context) -> Multiply:
    """Any formats: whole rows in float64, scales multiplied in, which is exact."""
    shape = Shape(rows, 2048 // rows)
    add = accumulation(context.accumulation, context.differences)
    groups = Groups(*_GROUP, (form_a.least, form_b.least))

    def multiply(a: Words, b: Words, sa: Scales, sb: Scales, c: Any) -> Any:
        left, right = _scaled_rows(form_a, a, sa, rows), _scaled_rows(form_b, b, sb, rows)
        sums = add(left, right, shape.results_of(np.asarray(c).view(np.uint32), np.float32), groups)
        return shape.registers_of(sums).view(np.float32)

    return multiply


def _scaled_rows(form: MatrixFormat, words: Words, scales: Scales, rows: int) -> NDArray[np.float64]:
    values = form.rows(words, rows).astype(np.float64)
    if scales is None:
        return values
    by_row = E8M0_VALUES.take(scales).reshape(-1, 64 // rows, rows).transpose(0, 2, 1)
    scaled = values.reshape(*by_row.shape, _BLOCK) * by_row[..., None]
    return scaled.reshape(values.shape)


def _build(rows: int) -> Build:
    registers = rows * rows // 64

    def build(inst: Instruction, context: Context) -> Step:
        form_a, form_b = FORMATS.get(inst["cbsz"]), FORMATS.get(inst["blgp"])
        if form_a is None or form_b is None:
            context.refuse(inst, f"operand formats CBSZ {inst['cbsz']} and BLGP {inst['blgp']}")
        scaled = len(inst.src) == 5
        if scaled and (inst["neg"] & 3 or inst["neg_hi"] & 3):
            context.refuse(inst, "a modifier on A or B")
        read_a, read_b = registers_of(inst.src[0]), registers_of(inst.src[1])
        read_sa, read_sb = _scales(inst, 0, context), _scales(inst, 1, context)
        read_c, write = _c_of(inst.src[2], registers, inst, scaled), registers_of(inst.dst[0])
        declared = context.accumulation == "exact" and context.differences is None
        short = block_bits(form_a, form_b) <= 24 and not (form_a.interleaved or form_b.interleaved)
        quick = short and declared
        multiply = _in_blocks(form_a, form_b, rows) if quick else _in_rows(form_a, form_b, rows, context)

        def step(wv: Cohort) -> None:
            a, b = read_a(wv)[: form_a.registers], read_b(wv)[: form_b.registers]
            c, sa, sb = read_c(wv), read_sa(wv), read_sb(wv)
            d = write(wv).view(np.float32)
            for start in range(0, wv.count, _CHUNK):
                part = slice(start, start + _CHUNK)
                scale_a, scale_b = (None if scale is None else scale[part] for scale in (sa, sb))
                d[:, part] = multiply(a[:, part], b[:, part], scale_a, scale_b, c[:, part])

        return step

    return build


for _name, _rows in (("16x16x128", 16), ("32x32x64", 32)):
    for _scaled in ("scale_", ""):
        define(
            f"v_mfma_{_scaled}f32_{_name}_f8f6f4", _build(_rows), INFERRED,
            "AMD CDNA4 ISA, matrix arithmetic; internal sum: declared model (exact, then rounded)",
        )  # fmt: skip
