"""Scaled matrix multiply: V_MFMA_SCALE_F32_16X16X128_F8F6F4 and 32X32X64, FP4 operands.

D = C + sum over blocks of 2^(sa + sb - 254) * sum over the block's 32 k of a * b, exact, then rounded once to float32 (RNE). The
order and width of the card's own sum are not public: exact-then-round is a declared model, right wherever every order agrees.

Layout (AMD CDNA4 ISA, "Matrix arithmetic instructions"): with R rows (16 or 32), A[m, k] lies in lane m + R*(k/32), VGPR (k%32)/8,
nibble k%8, and B alike with n for m; one lane holds one block of 32. The scale of (row, block) is a byte of that lane's scale VGPR.
D[i, j] lies in lane j + R*(i/4 mod 64/R), VGPR 4*(i/(4*64/R)) + i%4.
"""

from functools import cache
from typing import Any

import numpy as np
from mxassay.gfx950.floating import sum_to_f32
from mxassay.gfx950.instruction import Instruction, Operand
from mxassay.gfx950.operands import Read, constant, raw
from mxassay.gfx950.registry import INFERRED, Build, Context, Step, define
from mxassay.gfx950.wave import Cohort
from numpy.typing import NDArray

__all__ = ["E2M1_VALUES", "scaled_product"]

Floats = NDArray[np.float32]
E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_CHUNK = 32  # waves a time: their operands as float32 stay inside a core's second-level cache


@cache
def _quads() -> NDArray[np.complex128]:
    """Four E2M1 values (as one 16-byte item) by the 16 bits that hold them."""
    value = np.array([*E2M1_VALUES, *(-v for v in E2M1_VALUES)], np.float32)
    word = np.arange(1 << 16)
    return np.stack([value[word >> 4 * place & 15] for place in range(4)], axis=-1).view(np.complex128)[:, 0]


def _operand(words: NDArray[np.uint32], rows: int) -> Floats:
    """4 registers (4, waves, 64) as values (waves, rows, K), k counted block by block."""
    waves, blocks = words.shape[1], 64 // rows
    halves = words.view(np.uint16).reshape(4, waves, blocks, rows, 2)
    picked = _quads().take(halves.transpose(1, 3, 2, 0, 4))
    return picked.view(np.float32).reshape(waves, rows, blocks * 32)


def scaled_product(
    a: NDArray[np.uint32], b: NDArray[np.uint32], sa: NDArray[np.uint8], sb: NDArray[np.uint8], rows: int
) -> NDArray[np.float64]:
    """The exact sum of products as float64 (waves, rows, rows).

    a, b: registers (4, waves, 64); sa, sb: scale bytes (waves, 64). A sum that float64 can't hold exactly comes back as NaN
    would: never silently; see `_wide`.
    """
    waves, blocks = a.shape[1], 64 // rows
    ea, eb = (s.reshape(waves, blocks, rows).transpose(0, 2, 1).astype(np.int32) for s in (sa, sb))
    top_a, top_b = ea.max(axis=2), eb.max(axis=2)
    spread = int((top_a - ea.min(axis=2)).max() + (top_b - eb.min(axis=2)).max())
    left, right = _operand(a, rows), _operand(b, rows)
    # Terms are multiples of 1/4 and at most 36, 128 or 64 of them: their sum needs 15 bits, and the spread of the scales.
    if spread <= 9:
        for values, exponents, top in ((left, ea, top_a), (right, eb, top_b)):
            if (exponents != top[:, :, None]).any():
                relative = np.ldexp(np.float32(1), exponents - top[:, :, None])
                values.reshape(waves, rows, blocks, 32)[...] *= relative[..., None]
        total = np.matmul(left, right.transpose(0, 2, 1)).astype(np.float64)
        return np.ldexp(total, top_a[:, :, None] + top_b[:, None, :] - 254)
    wide_left = left.reshape(waves, rows, blocks, 32) * np.ldexp(1.0, ea - 127)[..., None]
    wide_right = right.reshape(waves, rows, blocks, 32) * np.ldexp(1.0, eb - 127)[..., None]
    shape = (waves, rows, blocks * 32)
    return np.matmul(wide_left.reshape(shape), wide_right.reshape(shape).transpose(0, 2, 1))


def _scales(operand: Operand, byte: int, inst: Instruction, context: Context) -> Read:
    read = raw(operand, inst, context)
    shift = np.uint32(8 * byte)

    def scales(wv: Cohort) -> NDArray[np.uint8]:
        return np.broadcast_to(read(wv) >> shift, (wv.count, 64)).astype(np.uint8)

    return scales


def _accumulator(operand: Operand, registers: int, inst: Instruction, context: Context) -> Any:
    if operand.file in ("v", "a"):
        index = operand.index
        return lambda wv: (wv.v if operand.file == "v" else wv.a)[index : index + registers].view(np.float32)
    value = constant(operand, "f32")
    return lambda wv: np.full((registers, wv.count, 64), value, np.float32)


def _build(rows: int) -> Build:
    registers = rows * rows // 64
    bands = 64 // rows  # lanes' groups along i

    def build(inst: Instruction, context: Context) -> Step:
        if inst["cbsz"] != 4 or inst["blgp"] != 4:
            context.refuse(inst, f"operand formats {inst['cbsz']} and {inst['blgp']} (only FP4, 4, is known)")
        if inst["neg"] & 3 or inst["neg_hi"] & 3:
            context.refuse(inst, "a modifier on A or B")
        first, second, third, scale_a, scale_b = inst.src
        byte_a = inst["op_sel_hi"] & 1 << 0 and 2
        byte_a = (inst["op_sel_hi"] & 1) << 1 | (inst["op_sel"] & 1)
        byte_b = (inst["op_sel_hi"] >> 1 & 1) << 1 | (inst["op_sel"] >> 1 & 1)
        read_sa, read_sb = _scales(scale_a, byte_a, inst, context), _scales(scale_b, byte_b, inst, context)
        read_c = _accumulator(third, registers, inst, context)
        negate_c, absolute_c = inst["neg"] >> 2 & 1, inst["neg_hi"] >> 2 & 1
        target, out = inst.dst[0], slice(inst.dst[0].index, inst.dst[0].index + registers)

        def step(wv: Cohort) -> None:
            a = (wv.v if first.file == "v" else wv.a)[first.index : first.index + 4]
            b = (wv.v if second.file == "v" else wv.a)[second.index : second.index + 4]
            c = read_c(wv)
            if absolute_c:
                c = np.abs(c)
            if negate_c:
                c = -c
            sa, sb = read_sa(wv), read_sb(wv)
            d = (wv.v if target.file == "v" else wv.a)[out].view(np.float32)
            for start in range(0, wv.count, _CHUNK):
                part = slice(start, start + _CHUNK)
                total = scaled_product(a[:, part], b[:, part], sa[part], sb[part], rows)
                waves = total.shape[0]
                # (waves, i, j) with i = (tile, band, r): VGPR 4*tile + r, lane rows*band + j.
                placed = total.reshape(waves, rows // (4 * bands), bands, 4, rows).transpose(1, 3, 0, 2, 4)
                placed = np.ascontiguousarray(placed).reshape(registers, waves, 64)
                d[:, part] = sum_to_f32(placed, c[:, part].astype(np.float64))

        return step

    return build


for _name, _rows in (("16x16x128", 16), ("32x32x64", 32)):
    define(
        f"v_mfma_scale_f32_{_name}_f8f6f4", _build(_rows), INFERRED,
        "AMD CDNA4 ISA, matrix arithmetic; internal sum: declared model (exact, then rounded)",
    )  # fmt: skip
