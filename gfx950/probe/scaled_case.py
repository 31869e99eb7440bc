"""Operands of V_MFMA_SCALE_F32_16X16X128_F8F6F4 with FP4, as values, and readings of its results."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.probe.operand import accumulator, codes_of, join, result, rows_in_lanes, split
from mxassay.gfx950.probe.question import Reading, Words
from mxassay.gfx950.probe.sums import Sum

__all__ = ["E2M1", "INSTRUCTION", "ScaledCase", "adding", "inputs_of", "made", "plain_nans"]

INSTRUCTION = (
    "v_mfma_scale_f32_16x16x128_f8f6f4 v[64:67], v[16:19], v[20:23], v[24:27], v28, v29 op_sel_hi:[0,0,0] cbsz:4 blgp:4"
)
ROWS, BLOCKS, DEPTH = 16, 4, 128
_SIZES = (4, 4, 4, 1, 1)
E2M1 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])
"""Values by code (OCP MX spec 1.0, 5.3.3)."""
Values = NDArray[np.float64]


class ScaledCase:
    """Operands of `waves` instructions: values a, b (waves, 16, 128), c (waves, 16, 16), scale bytes (waves, 16, 4)."""

    def __init__(self, waves: int) -> None:
        self.a, self.b = np.zeros((waves, ROWS, DEPTH)), np.zeros((waves, ROWS, DEPTH))
        self.c = np.zeros((waves, ROWS, ROWS), np.float32)
        self.sa, self.sb = (np.full((waves, ROWS, BLOCKS), 127) for _ in range(2))

    def words(self) -> Words:
        scales = [part.transpose(0, 2, 1).reshape(-1, 64, 1) for part in (self.sa, self.sb)]
        operands = [rows_in_lanes(codes_of(part), 4) for part in (self.a, self.b)]
        return join(*operands, accumulator(self.c), *scales)

    @staticmethod
    def of(words: Words) -> "ScaledCase":
        case = ScaledCase(len(words))
        a, b, c, sa, sb = split(words, _SIZES)
        case.a, case.b = _values(a), _values(b)
        case.c = result(c)
        case.sa, case.sb = (
            (part[..., 0] & 0xFF).astype(np.int64).reshape(-1, BLOCKS, ROWS).transpose(0, 2, 1) for part in (sa, sb)
        )
        return case

    def products(self) -> Any:
        """Scaled products, (waves, 16, 16, 128)."""
        left, right = (np.where(part == 255, np.nan, np.exp2(part - 127.0)) for part in (self.sa, self.sb))
        scales = left[:, :, None] * right[:, None]
        return self.a[:, :, None] * self.b[:, None] * np.repeat(scales, 32, axis=3)


def _values(words: Words) -> Any:
    codes = words[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15
    return E2M1[codes.reshape(-1, BLOCKS, ROWS, 32).transpose(0, 2, 1, 3).reshape(-1, ROWS, DEPTH)]


def adding(rule: Sum) -> Reading:
    """What a unit gives that adds by `rule`."""

    def outputs(words: Words) -> Words:
        case = ScaledCase.of(words)
        return accumulator(rule(case.products(), case.c))

    return outputs


def made(compute: Callable[[ScaledCase], Any]) -> Reading:
    """`compute` gives D as (waves, 16, 16)."""
    return lambda words: accumulator(np.asarray(compute(ScaledCase.of(words)), np.float32))


def inputs_of(fill: Callable[[ScaledCase], None], waves: int) -> Callable[[], Words]:
    """`fill` sets what differs from zeros and scales of 1."""

    def inputs() -> Words:
        case = ScaledCase(waves)
        fill(case)
        return case.words()

    return inputs


def plain_nans(d: Any) -> NDArray[np.float32]:
    """Every NaN as 0x7fc00000."""
    return np.where(np.isnan(d), np.uint32(0x7FC00000).view(np.float32), np.asarray(d, np.float32))
