"""Fused multiply-add of float16 and float64, one rounding, for every input. (float32: `floating.fma_f32`.)"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.floating import Floats, two_sum

__all__ = ["fma_f16", "fma_f64"]

_FAR = 220  # exponents apart: beyond what 53 + 106 bits of sum and a sticky bit span
_LEAST_NORMAL, _PRECISION = -1022, 53


def _odd(high: Floats, low: Floats) -> Floats:
    """The exact sum high + low, where high = RN(high + low), rounded to odd (Boldo and Melquiond, 2008)."""
    bits = np.array(high, np.float64).view(np.int64)
    inexact_even = (low != 0) & ((bits & 1) == 0) & np.isfinite(high)
    if inexact_even.any():
        bits = bits + np.where(inexact_even, np.where((low > 0) == (bits >= 0), 1, -1), 0)
    return bits.view(np.float64)


def fma_f16(a: Floats, b: Floats, c: Floats) -> NDArray[np.float16]:
    """a * b + c in float16, rounded once (RNE): the product is exact in float64, and its sum with c is rounded to odd
    there, which keeps 42 bits more than float16 has."""
    product = np.multiply(a, b, dtype=np.float64)
    return _odd(*two_sum(product, np.asarray(c, np.float64))).astype(np.float16)


def _two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """p, e with p = RN(a * b), p + e = a * b exactly (Dekker and Veltkamp), for factors in [0.5, 1)."""

    def split(x: Floats) -> tuple[Floats, Floats]:
        scaled = x * 134217729.0  # 2^27 + 1
        high = scaled - (scaled - x)
        return high, x - high

    product = a * b
    (a1, a2), (b1, b2) = split(a), split(b)
    return product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)


def _rounded(parts: tuple[Floats, Floats, Floats]) -> Floats:
    """RN(u + v + c) where |v| is at most half an ulp of u (Boldo and Melquiond, 2008, "Emulation of FMA")."""
    u, v, c = parts
    t_high, t_low = two_sum(c, v)
    v_high, v_low = two_sum(u, t_high)
    return v_high + _odd(*two_sum(t_low, v_low))


def fma_f64(a: Any, b: Any, c: Any, power: Any = 0) -> NDArray[np.float64]:
    """(a * b + c) * 2^power in float64, rounded once (RNE); denormals, overflow, NaN and infinities as in IEEE 754.

    Factors are brought to [0.5, 1) and the addend by as much, so that no step overflows or underflows.
    """
    a, b, c = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(b, np.float64), np.asarray(c, np.float64))
    finite = np.isfinite(a) & np.isfinite(b)
    # Right for NaN, infinities and exact zeros, where no finite product can overflow beside an infinite addend.
    plain: NDArray[np.float64] = np.ldexp(np.where(finite & np.isinf(c), c, a * b + c), power)
    ordinary = finite & np.isfinite(c) & (a != 0) & (b != 0)
    if not ordinary.any():
        return plain
    (ma, ea), (mb, eb), (mc, ec) = np.frexp(a), np.frexp(b), np.frexp(c)
    exponent = ea + eb
    # An addend that far away counts by its sign or takes all: its exact distance doesn't matter, but where c is the
    # larger, c's own exponent is the result's.
    distance = np.where(c == 0, 0, ec - exponent)
    near = np.clip(distance, -_FAR, _FAR)
    exponent = np.where(distance > _FAR, ec - _FAR, exponent)
    addend = np.ldexp(mc, near)
    parts = (*_two_product(ma, mb), addend)
    scaled = _rounded(parts)
    exponent = exponent + power
    result = np.ldexp(scaled, exponent)
    tiny = ordinary & (scaled != 0) & (np.frexp(scaled)[1] + exponent <= _LEAST_NORMAL)
    if tiny.any():
        result = np.where(tiny, _denormal(parts, scaled, exponent), result)
    np.copyto(plain, result, where=ordinary)
    return plain


def _denormal(parts: tuple[Floats, Floats, Floats], scaled: Floats, exponent: Any) -> Floats:
    """The sum rounded where denormals end, at 2^-1074: next to a number of its sign whose last bit has that weight."""
    u, v, c = parts
    weight = np.clip(_LEAST_NORMAL - _PRECISION + 1 - exponent, -900, 900)
    anchor = np.copysign(np.ldexp(1.0, weight + _PRECISION - 1), scaled)
    t_high, t_low = two_sum(c, v)
    v_high, v_low = two_sum(u, t_high)
    low_high, low_low = two_sum(t_low, v_low)
    s_high, s_low = two_sum(anchor, v_high)
    rest = _odd(*two_sum(s_low, _odd(low_high, low_low)))
    whole = (s_high + rest) - anchor
    rounded: Floats = np.copysign(np.ldexp(whole, exponent), scaled)
    return rounded
