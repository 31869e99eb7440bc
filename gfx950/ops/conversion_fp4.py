"""Scaled conversions to FP4 (E2M1). Source: AMD CDNA4 ISA, V_CVT_SCALEF32_PK_FP4_*.

The pseudocode calls `*_to_fp4_scale` and doesn't define it. Nearest, ties to even, saturation and the kept sign agree
between AMD's HIP header, composable_kernel and aiter for finite inputs and scales 1..254. NaN, infinities and the
scale bytes 0 and 255 are declared policies: NaN and infinities saturate with their sign, byte 0 is 2^-127, byte 255
gives the largest magnitude.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.floating import bf16_to_f32
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.operands import Read, source
from mxassay.gfx950.pins import Pins
from mxassay.gfx950.registry import INFERRED, Build, Context, Step, define
from mxassay.gfx950.wave import Cohort

__all__ = ["E2M1_MIDPOINTS", "encode_e2m1"]

# Between the magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6 (OCP MX spec 1.0, 5.3.3); a tie goes to the even code.
E2M1_MIDPOINTS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)


@cache
def _codes() -> NDArray[np.uint8]:
    """The code of every float32 by its upper 16 bits, when the lower 16 are zero."""
    value = np.abs(bf16_to_f32(np.arange(1 << 16, dtype=np.uint16)))
    magnitude = np.zeros(1 << 16, np.uint8)
    for code, midpoint in enumerate(E2M1_MIDPOINTS):
        magnitude[(value > midpoint) | ((value == midpoint) & bool(code & 1))] = code + 1
    magnitude[np.isnan(value)] = 7
    codes: NDArray[np.uint8] = magnitude | (np.arange(1 << 16) >> 15 << 3).astype(np.uint8)
    return codes


def encode_e2m1(x: NDArray[np.float32]) -> NDArray[np.uint8]:
    """float32 to E2M1 codes, nearest, ties to even, saturating. Exact for every input."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    # All midpoints have 3 significant bits, so whatever lies below the upper half only says "not a tie": a sticky bit.
    high = (bits >> np.uint32(16)).astype(np.uint16) | ((bits & np.uint32(0xFFFF)) != 0)
    codes: NDArray[np.uint8] = _codes().take(high)
    return codes


def _reciprocal(scale: NDArray[np.uint32]) -> NDArray[np.float32]:
    """2^(127 - e) of the scale's exponent field alone, exactly (a denormal for 254); infinite for 255, which
    saturates."""
    exponent = (scale >> np.uint32(23) & np.uint32(0xFF)).astype(np.int32)
    return np.where(exponent == 255, np.float32(np.inf), np.ldexp(np.float32(1), 127 - exponent)).astype(np.float32)


def _scaled(x: NDArray[np.float32], factor: NDArray[np.float32]) -> NDArray[np.float32]:
    product = x * factor
    if np.isnan(product).any():  # 0 * inf under scale byte 255 is a saturated value of x's sign
        product = np.where(np.isnan(product), np.copysign(np.float32(np.inf), x), product)
    return product


def _pack(kind: str) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        """Two values become one byte, the first in the low nibble; OPSEL[3:2] picks the byte, the other three stay."""
        operand = inst.src[-1]
        if operand.file not in ("v", "a"):
            context.refuse(inst, "a scale that is not in a VGPR (the card reads other bits then)")
        if inst["neg"] or inst["abs"] or inst["op_sel"] & 3 or inst["clamp"] or inst["omod"]:
            context.refuse(inst, "a modifier on a scaled conversion")
        pair = _pairs(inst, kind, context)
        scale = source(inst, len(inst.src) - 1, "u32", context)
        index = inst.dst[0].index
        shift = np.uint32(8 * (inst["op_sel"] >> 2 & 3))
        others = np.uint32(~(0xFF << int(shift)) & 0xFFFFFFFF)

        if context.pins is not None:
            return _pinned(context.pins, pair, scale, index, shift)

        def step(wv: Cohort) -> None:
            factor = _reciprocal(scale(wv))
            low, high = (encode_e2m1(_scaled(value, factor)) for value in pair(wv))
            byte = (low | high << np.uint8(4)).astype(np.uint32) << shift
            register = wv.v[index]
            if wv.full:
                np.bitwise_and(register, others, out=register)
                np.bitwise_or(register, byte, out=register)
            else:
                np.copyto(register, register & others | byte, where=wv.mask)

        return step

    return build


def _pinned(pins: Pins, pair: Read, scale: Read, index: int, shift: np.uint32) -> Step:
    """The same with a real card's behaviours; a byte with an element that is left alone is left alone."""
    others = np.uint32(~(0xFF << int(shift)) & 0xFFFFFFFF)

    def step(wv: Cohort) -> None:
        exponent = (scale(wv) >> np.uint32(23) & np.uint32(0xFF)).astype(np.int64)
        low, high = (pins.fp4(value, exponent, _by_rule) for value in pair(wv))
        byte = ((low & 15) | (high & 15) << 4).astype(np.uint8).astype(np.uint32) << shift
        register = wv.v[index]
        np.copyto(register, register & others | byte, where=wv.mask & (low >= 0) & (high >= 0))

    return step


def _by_rule(x: Any, exponent: Any) -> NDArray[np.uint8]:
    """The rule for finite values and scale bytes 1 to 254, taken beyond them."""
    value = np.ldexp(x.astype(np.float64), 127 - exponent)
    return encode_e2m1(np.clip(value, -8.0, 8.0).astype(np.float32))


def _pairs(inst: Instruction, kind: str, context: Context) -> Read:
    if kind == "f32":
        first, second = source(inst, 0, "f32", context), source(inst, 1, "f32", context)
        return lambda wv: (first(wv), second(wv))
    word = source(inst, 0, "u32", context)
    if kind == "bf16":
        return lambda wv: _bf16_halves(word(wv))
    return lambda wv: _f16_halves(word(wv))


def _bf16_halves(word: Any) -> tuple[Any, Any]:
    return (word << np.uint32(16)).view(np.float32), (word & np.uint32(0xFFFF0000)).view(np.float32)


def _f16_halves(word: Any) -> tuple[Any, Any]:
    halves = (word & np.uint32(0xFFFF), word >> np.uint32(16))
    low, high = (half.astype(np.uint16).view(np.float16).astype(np.float32) for half in halves)
    return low, high


for _kind in ("f32", "f16", "bf16"):
    define(
        f"v_cvt_scalef32_pk_fp4_{_kind}", _pack(_kind), INFERRED,
        "AMD CDNA4 ISA names it; rounding: HIP amd_hip_fp4.h, composable_kernel, aiter", reads_dst=True,
    )  # fmt: skip
