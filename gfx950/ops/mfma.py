"""Dense matrix multiply of float64, float32, float16, bfloat16, FP8, BF8 and int8: V_MFMA_*, one row of data each.

EXEC and MODE don't count, nothing is flushed, NaN results are the default NaN. Integers are exact and wrap. Floats are
added as `Options.accumulation` says; float32 and float64 operands always by fused multiply-adds, k ascending, as
CDNA1 to CDNA3 were measured to do (MMA-Sim, arXiv:2511.10909). For gfx950 all that is inferred.
"""

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.accumulate import Groups, accumulation, sequential
from mxassay.gfx950.fused import fma_f64
from mxassay.gfx950.instruction import Instruction, Operand
from mxassay.gfx950.operand_matrices import ELEMENTS, Element, Shape, b_lanes, columns
from mxassay.gfx950.operands import constant
from mxassay.gfx950.registry import CERTAIN, INFERRED, Build, Context, Step, define
from mxassay.gfx950.wave import Cohort

__all__ = ["GROUPS", "accumulator", "integers", "registers_of"]

Words = NDArray[np.uint32]
_CHUNK = 64  # waves a time: their operands as float64 stay inside a core's second-level cache


def registers_of(operand: Operand) -> Callable[[Cohort], Words]:
    """The operand's registers, uint32 (registers, waves, 64), not copied."""
    part, file = slice(operand.index, operand.index + operand.count), operand.file
    return lambda wv: (wv.v if file == "v" else wv.a)[part]


def accumulator(operand: Operand, count: int, kind: str) -> Callable[[Cohort], Words]:
    """C as uint32 (count, waves, 64): registers, or a constant of type `kind` in all of them."""
    if operand.file in ("v", "a"):
        return registers_of(operand)
    value = constant(operand, kind)
    words = np.array([value]).view(np.uint32)
    pattern = np.tile(words, count // len(words))[:, None, None]
    return lambda wv: np.broadcast_to(pattern, (count, wv.count, 64))


def _picked(inst: Instruction, shape: Shape, context: Context) -> NDArray[np.int64] | None:
    """The block of A that each block uses: CBSZ makes groups of 2^CBSZ blocks, ABID names one of each."""
    cbsz, abid = inst["cbsz"], inst["abid"]
    if not cbsz and not abid:
        return None
    if shape.wide or 1 << cbsz > shape.blocks or abid >> cbsz:
        context.refuse(inst, f"CBSZ {cbsz} and ABID {abid} with {shape.blocks} blocks")
    return (np.arange(shape.blocks) >> cbsz << cbsz) + abid


def _build(shape: Shape, kind_a: str, kind_b: str) -> Build:
    element_a, element_b = ELEMENTS[kind_a], ELEMENTS[kind_b]

    def build(inst: Instruction, context: Context) -> Step:
        a_operand, b_operand, c_operand = inst.src
        pick = _picked(inst, shape, context)
        lanes = b_lanes(inst["blgp"])
        if lanes is not None and kind_a != "f64" and shape.blocks == 1 and kind_a != "f32":
            context.refuse(inst, "BLGP on an instruction that doesn't take it")
        if kind_a == "f64":
            lanes = None
        read_a, read_b = registers_of(a_operand), registers_of(b_operand)
        read_c = accumulator(c_operand, shape.results, {"f64": "f64", "i8": "i32"}.get(kind_a, "f32"))
        write = registers_of(inst.dst[0])
        multiply = _multiply(inst, kind_a, element_a, element_b, shape, context)

        def step(wv: Cohort) -> None:
            a, b, c, d = read_a(wv), read_b(wv), read_c(wv), write(wv)
            for start in range(0, wv.count, _CHUNK):
                part = slice(start, start + _CHUNK)
                words_b = b[:, part] if lanes is None else b[:, part].take(lanes, axis=2)
                left = shape.operand(element_a.unpack(columns(a[:, part])), pick)
                right = shape.operand(element_b.unpack(columns(words_b)))
                d[:, part] = shape.registers_of(multiply(left, right, c[:, part]))

        return step

    return build


Multiply = Callable[[NDArray[np.floating], NDArray[np.floating], Words], NDArray[np.generic]]


def _multiply(
    inst: Instruction, kind: str, element_a: Element, element_b: Element, shape: Shape, context: Context
) -> Multiply:
    if kind == "i8":
        return lambda a, b, c: integers(a, b) + shape.results_of(c, np.int32)
    if kind == "f64":
        # BLGP stands for NEG here (LLVM SIInstrInfo, F64 MFMA; AMD CDNA3 ISA, "VOP3P-MAI").
        signs = [-1.0 if inst["blgp"] >> slot & 1 else 1.0 for slot in range(3)]
        return lambda a, b, c: _chain_f64(a * signs[0], b, shape.results_of(c, np.float64) * signs[2], signs[1])
    if kind == "f32":
        return lambda a, b, c: sequential(a, b, shape.results_of(c, np.float32))
    add = accumulation(context.accumulation, context.differences)
    groups = Groups(*GROUPS[element_a.bits], (element_a.least, element_b.least))
    return lambda a, b, c: add(a, b, shape.results_of(c, np.float32), groups)


# MMA-Sim, CDNA3: 8 products of 16-bit floats a group, 16 of FP8 or BF8, even and odd k apart.
GROUPS = {16: (8, False), 8: (16, True)}


def integers(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.int32]:
    """Exact: at most 64 products below 2^14 in magnitude, in float32."""
    products: NDArray[np.int32] = np.matmul(a, b.transpose(0, 2, 1)).astype(np.int32)
    return products


def _chain_f64(
    a: NDArray[np.floating], b: NDArray[np.floating], c: NDArray[np.float64], sign: float
) -> NDArray[np.float64]:
    total = c
    for k in range(a.shape[2]):
        total = fma_f64(a[:, :, None, k], sign * b[:, None, :, k], total)
    return total


_NAME = re.compile(r"v_mfma_[fi]\d+_(\d+)x\1x(\d+)_(?:(\d+)b_)?(\w+)")
_FLOATS = "16x16x1_4b_f32 32x32x1_2b_f32 4x4x1_16b_f32 32x32x2_f32 16x16x4_f32"
_SHORTS = "32x32x4_2b 16x16x4_4b 4x4x4_16b 32x32x8 16x16x16 16x16x32 32x32x16"
_BYTES = "32x32x4_2b_i8 16x16x4_4b_i8 4x4x4_16b_i8 32x32x16_i8 16x16x32_i8 16x16x64_i8 32x32x32_i8"
_EIGHTS = ("fp8", "bf8")
_EIGHTS = ("fp8", "bf8")
_OPERATIONS = [
    *(f"v_mfma_f32_{shape}" for shape in _FLOATS.split()),
    *(f"v_mfma_f32_{shape}_{kind}" for kind in ("f16", "bf16") for shape in _SHORTS.split()),
    *(f"v_mfma_i32_{shape}" for shape in _BYTES.split()),
    *(f"v_mfma_f32_{shape}_{a}_{b}" for shape in ("16x16x32", "32x32x16") for a in _EIGHTS for b in _EIGHTS),
    "v_mfma_f64_16x16x4_f64",
    "v_mfma_f64_4x4x4_4b_f64",
]  # fmt: skip

for _operation in _OPERATIONS:
    _found = _NAME.fullmatch(_operation)
    assert _found is not None
    _rows, _k, _blocks, _kinds = _found.groups()
    _kind_a, _, _kind_b = _kinds.partition("_")
    _shape = Shape(int(_rows), int(_k), int(_blocks or 1), wide=_kind_a == "f64")
    _exact = _kind_a == "i8"
    define(
        _operation, _build(_shape, _kind_a, _kind_b or _kind_a), CERTAIN if _exact else INFERRED,
        "AMD matrix instruction calculator; "
        + ("exact integers, wrapping" if _exact else "accumulation: MMA-Sim on CDNA3, or declared model (exact)"),
    )  # fmt: skip
