"""Questions on conversions of float32 to BF16 and FP8."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.probe.lanewise import SPECIAL_F32, each, every_pair, is_nan
from mxassay.gfx950.probe.question import Program, Question, Reading
from mxassay.gfx950.registry import INFERRED, UNKNOWN

__all__ = ["QUESTIONS"]

Bits = NDArray[np.uint32]
_ISA = "AMD CDNA4 ISA"


def _bf16(a: Bits, nan: Callable[[Any], Any], kept: bool) -> Any:
    rounded = (a.astype(np.uint64) + 0x7FFF + (a >> 16 & 1)) >> 16
    if not kept:
        rounded = np.where((a & 0x7F800000) == 0, a >> 31 << 15, rounded)
    return np.where(is_nan(a), nan(a), rounded).astype(np.uint32)


def _bf16_pair(nan: Callable[[Any], Any], kept: bool = True) -> Reading:
    return each(lambda a, b: _bf16(a, nan, kept) | _bf16(b, nan, kept) << np.uint32(16))


_HALVES = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x7F7F8000, 0x7F7F7FFF, 0x00008000, 0x00018000,
                    0x00008001, 0x80008000, 0x007FFFFF, 0x00400000, 0xFF7F8000], np.uint32)  # fmt: skip
_BF16 = Question(
    "cvt.bf16", "What does v_cvt_pk_bf16_f32 make of NaNs, denormals and ties?", "It ends every bf16 kernel.",
    f"{_ISA}, V_CVT_PK_BF16_F32: round to nearest even; NaN bits are open.", "NaN cut and made quiet", INFERRED,
    Program("v_cvt_pk_bf16_f32 v64, v16, v17", every_pair(np.concatenate([SPECIAL_F32, _HALVES]), _HALVES), 1),
    {
        "NaN cut and made quiet": _bf16_pair(lambda a: a >> 16 | 0x40),
        "NaN cut and made quiet, denormals flushed": _bf16_pair(lambda a: a >> 16 | 0x40, kept=False),
        "NaN is 0x7fff": _bf16_pair(lambda a: np.uint32(0x7FFF)),
        "NaN is 0x7fc0": _bf16_pair(lambda a: np.uint32(0x7FC0)),
    },
)  # fmt: skip

_NEAR_448 = np.array([0x43E00000, 0x43E7FFFF, 0x43E80000, 0x43E80001, 0x43F00000, 0x44000000, 0x7F7FFFFF, 0x7F800000,
                      0x7FC00000, 0xFFC00000, 0x7F800001, 0x3A800000, 0x3A7FFFFF, 0x3AC00000, 0xBA800000, 0x00000001],
                     np.uint32)  # fmt: skip


def _fp8(saturate: bool) -> Reading:
    """OCP E4M3: 448 is 0x7e, NaN 0x7f; half of the smallest denormal, 2^-10, ties to zero."""
    table = {0x43E00000: 0x7E, 0x43E7FFFF: 0x7E, 0x43E80000: 0x7E, 0x3A800000: 0, 0x3A7FFFFF: 0, 0x3AC00000: 1,
             0xBA800000: 0x80, 0x00000001: 0}  # fmt: skip

    def code(bits: Bits) -> Any:
        found = np.full(bits.shape, 0x7E if saturate else 0x7F, np.uint32)
        for value, known in table.items():
            found[bits == value] = known
        special = (bits & 0x7F800000) == 0x7F800000
        return np.where(special, np.uint32(0x7F) | bits >> 31 << 7, found)

    return each(lambda a, b: np.uint32(0x5A5A0000) | code(a) | code(b) << np.uint32(8))


_FP8 = Question(
    "cvt.fp8_overflow", "Does v_cvt_pk_fp8_f32 saturate or give NaN beyond 448, and which NaN?",
    "FP8 activations overflow.", f"{_ISA}: depends on MODE.FP16_OVFL; AMD's HIP header saturates by hand.",
    "NaN", UNKNOWN,
    Program("v_cvt_pk_fp8_f32 v64, v16, v17", every_pair(_NEAR_448, _NEAR_448), 1),
    {"saturates": _fp8(True), "NaN": _fp8(False)},
)  # fmt: skip

QUESTIONS: tuple[Question, ...] = (_BF16, _FP8)
