"""How many cycles an instruction keeps its unit busy."""

import re

from mxassay.errors import UnsupportedError
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.timing.assumptions import Card

__all__ = ["matrix_cycles", "vector_cycles"]

_SHAPE = re.compile(r"_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_")
_SLOW = re.compile(r"v_(mul_(lo|hi)_[iu]32|rcp_|rsq_|sqrt_|exp_f|log_f|sin_|cos_|mad_[iu]64|.*_f64|cvt_.*f64.*|div_)")
_RATES = (
    (re.compile(r"(fp8|bf8|_i8|iu8)"), "fp8_flops"),
    (re.compile(r"(_f16|bf16)"), "half_flops"),
    (re.compile(r"_f64_\d+x\d+x\d+(?:_\d+b)?_f64"), "double_flops"),
    (re.compile(r"_f32_\d+x\d+x\d+(?:_\d+b)?_(f32|xf32)"), "single_flops"),
)
# CBSZ and BLGP: 0 and 1 are FP8 and BF8, 2 to 4 FP6, BF6 and FP4 (AMD CDNA4 ISA, "Dense matrix F8F6F4").
_FULL_BYTE = (0, 1)


def matrix_cycles(inst: Instruction, card: Card) -> int:
    """Cycles that an MFMA keeps its SIMD's matrix unit busy: its operations over its rate.

    A sparse form counts as the dense one of half its depth. Raises UnsupportedError for a form whose rate no source
    tells.

    >>> from mxassay.gfx950.timing.assumptions import CARD
    >>> fp4 = {"cbsz": 4, "blgp": 4}
    >>> matrix_cycles(Instruction(0, 8, "v_mfma_f32_16x16x128_f8f6f4", "VOP3P_MFMA", (), (), fp4), CARD)
    16
    >>> matrix_cycles(Instruction(0, 8, "v_mfma_f32_32x32x64_f8f6f4", "VOP3P_MFMA", (), (), fp4), CARD)
    32
    """
    shape = _SHAPE.search(inst.op)
    if shape is None:
        raise UnsupportedError(f"a matrix instruction must name its shape to be timed, not be {inst.op}")
    m, n, k = (int(shape[i]) for i in (1, 2, 3))
    operations = 2 * m * n * k * int(shape[4] or 1)
    if "smfmac" in inst.op:
        operations //= 2
    return int(operations // card[_rate(inst)])


def _rate(inst: Instruction) -> str:
    if inst.op.endswith("_f8f6f4"):
        return "fp8_flops" if inst["cbsz"] in _FULL_BYTE or inst["blgp"] in _FULL_BYTE else "fp4_flops"
    for pattern, name in _RATES:
        if pattern.search(inst.op):
            return name
    raise UnsupportedError(f"the rate of {inst.op} must be known to time it, not missing; no source tells it")


def vector_cycles(inst: Instruction, card: Card) -> int:
    """Cycles that a vector ALU instruction keeps its SIMD busy.

    >>> from mxassay.gfx950.timing.assumptions import CARD
    >>> [vector_cycles(Instruction(0, 4, op, "VOP1", (), ()), CARD) for op in ("v_mov_b32", "v_rcp_f32")]
    [4, 16]
    """
    if inst.op.startswith("v_cvt_scale"):
        return int(card["conversion"])
    return int(card["slow_vector"] if _SLOW.match(inst.op) else card["issue"])
