"""IEEE arithmetic where numpy alone is not enough: fused multiply-add, narrow formats, default NaNs, flushed denormals.

Arrays of any shape; scalars are numpy scalars. Every function here is exact as its docstring says, for every input.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Form", "bf16_to_f32", "canonical", "clamped", "f32_to_bf16", "flush", "fma_f32", "form_of", "ignore_float_errors",
    "narrowed", "quiet", "sum_to_f32", "two_sum",
]  # fmt: skip

Floats = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Form:
    """A float format's masks, as numpy scalars of the unsigned type `bits` of the same size. `default_nan` is AMD's,
    `made_nan` what x86 makes instead."""

    dtype: Any
    bits: Any
    sign: Any
    magnitude: Any
    infinity: Any
    quiet: Any
    least_normal: Any
    shift: Any
    default_nan: Any
    made_nan: Any

    @staticmethod
    def of(dtype: Any, bits: Any, mantissa: int) -> "Form":
        width = np.dtype(dtype).itemsize * 8
        sign, one = 1 << width - 1, 1 << mantissa
        default = sign - one | one >> 1
        return Form(
            dtype, bits, bits(sign), bits(sign - 1), bits(sign - one), bits(one >> 1), bits(one), bits(mantissa),
            bits(default), bits(sign | default),
        )  # fmt: skip


_FORMS = {
    np.dtype(np.float16): Form.of(np.float16, np.uint16, 10),
    np.dtype(np.float32): Form.of(np.float32, np.uint32, 23),
    np.dtype(np.float64): Form.of(np.float64, np.uint64, 52),
}


def form_of(x: Floats) -> Form:
    return _FORMS[x.dtype]


@contextmanager
def ignore_float_errors() -> Iterator[None]:
    """numpy's warnings off: what it calls an error is a result here."""
    with np.errstate(all="ignore"):
        yield


def canonical(result: Floats) -> Floats:
    """`result` (changed in place) with x86's default NaN, whose sign is set, turned into AMD's, whose sign is clear.

    A NaN of those bits that only passed through is turned as well: which lanes share an instruction must not matter.
    Inferred: no public source fixes AMD's NaN bits.
    """
    if isinstance(result, np.ndarray) and result.ndim:
        form = form_of(result)
        bits = result.view(form.bits)
        made = bits == form.made_nan
        if made.any():
            np.copyto(bits, form.default_nan, where=made)
    return result


def two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """s, e with s = RN(a + b) and s + e = a + b exactly (Knuth), for finite a and b without overflow."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def narrowed(high: Floats, low: Floats) -> Floats:
    """RNE to float32 of the exact value high + low, where high = RN64(high + low): no double rounding.

    Rounds to odd in float64 first: 53 bits hold at least 2 more than float32's 24, so the second rounding is right
    (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    bits = np.array(high, np.float64).view(np.int64)
    even_inexact = (low != 0) & ((bits & 1) == 0) & np.isfinite(high)
    if even_inexact.any():
        away = (low > 0) == (bits >= 0)
        # A zero sum has low == 0, so high is never zero here and the neighbours are one step of the bits away.
        bits = bits + np.where(even_inexact, np.where(away, 1, -1), 0)
    return bits.view(np.float64).astype(np.float32)


def sum_to_f32(a: Floats, b: Floats) -> Floats:
    """RNE to float32 of a + b for float64 a and b: one rounding."""
    s = a + b
    result = s.astype(np.float32)
    if _tie_or_tiny(s, result):
        return narrowed(*two_sum(a, b))
    return result


def _tie_or_tiny(s: Floats, result: Floats) -> bool:
    """Whether some float64 lies where a rounding to float32 could have gone wrong twice: a tie of bits, or a
    denormal."""
    ties = (s.view(np.uint64) & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)
    if ties.any():
        return True
    # Unsigned and minus one: below the bits of 2^-125, but not zero, whatever the sign.
    shifted = (result.view(np.uint32) << np.uint32(1)) - np.uint32(1)
    return bool((shifted < np.uint32(0x03FFFFFF)).any())


def fma_f32(a: Floats, b: Floats, c: Floats) -> Floats:
    """a * b + c in float32, rounded once (RNE). NaN and infinities as IEEE 754 has them."""
    product = np.multiply(a, b, dtype=np.float64)  # 24 + 24 bits fit into 53, and the exponents too
    return sum_to_f32(product, np.asarray(c, np.float64))


def flush(x: Floats) -> Floats:
    """Denormals of float16, float32 or float64 to zero of the same sign."""
    form = form_of(x)
    bits = np.asarray(x).view(form.bits)
    flushed: Floats = np.where((bits & form.infinity) == 0, bits & form.sign, bits).view(form.dtype)
    return flushed


def clamped(x: Floats, nan_to_zero: bool) -> Floats:
    """CLAMP of a float result: into 0 .. 1, -0 to +0; NaN to 0 where DX10_CLAMP is on.

    Source: AMD CDNA4 ISA, "MODE register".
    """
    zero, one = x.dtype.type(0), x.dtype.type(1)
    inside = np.where(x > zero, np.minimum(x, one), zero)
    return inside if nan_to_zero else np.where(np.isnan(x), x, inside)


def quiet(x: Floats) -> Floats:
    """Signalling NaNs of float16, float32 or float64 made quiet, payload kept."""
    form = form_of(x)
    bits = np.asarray(x).view(form.bits)
    made: Floats = np.where((bits & form.magnitude) > form.infinity, bits | form.quiet, bits).view(form.dtype)
    return made


def f32_to_bf16(x: Floats) -> NDArray[np.uint16]:
    """float32 to bfloat16 bits, RNE; a NaN keeps its sign and upper payload and becomes quiet."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))) >> np.uint32(16)
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    if nan.any():
        rounded = np.where(nan, bits >> np.uint32(16) | np.uint32(0x40), rounded)
    return rounded.astype(np.uint16)


def bf16_to_f32(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """bfloat16 bits to float32, exactly."""
    return (np.asarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)
