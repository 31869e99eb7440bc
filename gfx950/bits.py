"""Bit searches on arrays of uint32 and uint64. Source: AMD CDNA4 ISA, V_FFBH_U32, S_FF1_I32_B32 and their kin."""

from typing import Any

import numpy as np

__all__ = ["leading_zeros", "reversed_bits", "sign_bits", "trailing_zeros"]


def trailing_zeros(a: Any) -> Any:
    """The lowest bit that is set, -1 when none is."""
    one = a.dtype.type(1)
    low = a & (~a + one)
    return np.where(a == 0, -1, np.bitwise_count(low - one).astype(np.int32)).astype(np.int32)


def leading_zeros(a: Any) -> Any:
    """Zeros before the highest set bit, -1 when none is."""
    width = a.dtype.itemsize * 8
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < width:
            a = a | a >> a.dtype.type(shift)
    return np.where(a == 0, -1, width - np.bitwise_count(a).astype(np.int32)).astype(np.int32)


def sign_bits(a: Any) -> Any:
    """How many of the highest bits are equal, -1 when all are."""
    top = a.dtype.type(a.dtype.itemsize * 8 - 1)
    return leading_zeros(np.where(a >> top != 0, ~a, a))


def reversed_bits(a: Any) -> Any:
    for shift, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        count = a.dtype.type(shift)
        every = a.dtype.type(mask & ~(~0 << a.dtype.itemsize * 8))
        a = (a >> count & every) | (a & every) << count
    return np.asarray(a).byteswap()
