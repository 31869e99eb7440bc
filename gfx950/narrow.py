"""Float formats of at most 8 bits as data: decoding tables, and rounding to them. OCP MX spec 1.0, 5.3; OCP FP8 spec
1.0.

All of them have at most 3 bits of mantissa, so that a float32's upper half with a sticky bit says how it rounds: a
table of 65,536 entries encodes every float32 exactly.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.floating import bf16_to_f32

__all__ = ["BF6", "BF8", "FP4", "FP6", "FP8", "NarrowFloat", "decoded", "encoded", "encoded_stochastically"]


@dataclass(frozen=True, slots=True)
class NarrowFloat:
    """A sign bit, `exponent` and `mantissa` bits; value 2^(1 - bias) is the smallest normal number.

    `infinite`: the largest exponent means infinities and NaN as in IEEE 754. `nan`: all ones mean NaN (E4M3).
    """

    name: str
    exponent: int
    mantissa: int
    bias: int
    infinite: bool = False
    nan: bool = False

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def lowest(self) -> int:
        """Values are multiples of 2^lowest."""
        return 1 - self.bias - self.mantissa

    @property
    def top_code(self) -> int:
        """The code of the largest finite value."""
        return (1 << self.bits - 1) - 1 - (self.infinite << self.mantissa) - self.nan

    @property
    def nan_code(self) -> int:
        """The code of the positive NaN, the quiet one (AMD amd_hip_ocp_host.hpp); the largest value's where there is
        none."""
        ones = (1 << self.bits - 1) - 1
        return ones ^ (1 << self.mantissa - 1) - 1 if self.infinite else ones

    @property
    def infinity_code(self) -> int:
        """What stands for an infinity: its code, else NaN (E4M3), else the largest value."""
        return self.top_code + 1 if self.infinite else self.nan_code


FP8 = NarrowFloat("FP8 E4M3", 4, 3, 7, nan=True)
BF8 = NarrowFloat("BF8 E5M2", 5, 2, 15, infinite=True)
FP6 = NarrowFloat("FP6 E2M3", 2, 3, 1)
BF6 = NarrowFloat("BF6 E3M2", 3, 2, 3)
FP4 = NarrowFloat("FP4 E2M1", 2, 1, 1)


@cache
def decoded(form: NarrowFloat) -> NDArray[np.float32]:
    """The value of every code. NaN codes give the quiet NaN of their sign."""
    code = np.arange(1 << form.bits)
    magnitude = code & (1 << form.bits - 1) - 1
    exponent, mantissa = magnitude >> form.mantissa, magnitude & (1 << form.mantissa) - 1
    whole = mantissa + np.where(exponent > 0, 1 << form.mantissa, 0)
    value = np.ldexp(whole.astype(np.float64), np.maximum(exponent, 1) - 1 + form.lowest)
    value[magnitude > form.top_code] = np.nan
    if form.infinite:
        value[magnitude == form.infinity_code] = np.inf
    signed: NDArray[np.float32] = np.copysign(value, np.where(code >> form.bits - 1, -1.0, 1.0)).astype(np.float32)
    return signed


@cache
def _codes(form: NarrowFloat, saturate: bool) -> NDArray[np.uint8]:
    """The code of every float32 by its upper 16 bits; the lowest of them also stands for whatever lies below."""
    value = np.abs(bf16_to_f32(np.arange(1 << 16, dtype=np.uint16)))
    ordinary = np.where(np.isfinite(value), value, np.float32(1)).astype(np.float64)
    exponent = np.maximum(np.frexp(ordinary)[1] - 1, 1 - form.bias)
    exponent[ordinary == 0] = 1 - form.bias
    steps = np.rint(np.ldexp(ordinary, form.mantissa - exponent)).astype(np.int64)
    code = (exponent - (1 - form.bias) << form.mantissa) + steps
    beyond = code > form.top_code
    code[beyond] = form.top_code if saturate else form.infinity_code
    code[np.isinf(value)] = form.top_code if saturate and form.infinite else form.infinity_code
    code[np.isnan(value)] = form.nan_code
    signed: NDArray[np.uint8] = (code | np.arange(1 << 16) >> 15 << form.bits - 1).astype(np.uint8)
    return signed


def encoded(form: NarrowFloat, x: NDArray[np.float32], saturate: bool) -> NDArray[np.uint8]:
    """float32 to codes: nearest, ties to even, exact for every input.

    `saturate`: values beyond the largest become it, infinities too (but NaN in E4M3); else what stands for an infinity.

    >>> encoded(FP4, np.array([0.25, 0.75, -9.0], np.float32), saturate=True).tolist()
    [0, 2, 15]
    """
    bits = np.ascontiguousarray(x).view(np.uint32)
    high: Any = (bits >> np.uint32(16)).astype(np.uint16) | ((bits & np.uint32(0xFFFF)) != 0)
    codes: NDArray[np.uint8] = _codes(form, saturate).take(high)
    return codes


def encoded_stochastically(
    form: NarrowFloat, x: NDArray[np.float64], random: NDArray[np.uint32], kept: int, saturate: bool
) -> NDArray[np.uint8]:
    """float64 to codes: toward zero after adding random bits below the last kept one (AMD amd_hip_ocp_host.hpp).

    `kept` bits of the source's mantissa take part: that many less the format's are the random number's top bits.

    >>> encoded_stochastically(FP4, np.array([1.25]), np.array([1 << 31], np.uint32), 23, True).tolist()
    [3]
    """
    fine = kept - form.mantissa
    magnitude = np.abs(x)
    finite = np.isfinite(magnitude)
    ordinary = np.where(finite, magnitude, 1.0)
    exponent = np.maximum(np.frexp(ordinary)[1] - 1, 1 - form.bias)
    exponent = np.where(ordinary == 0, 1 - form.bias, exponent)
    steps = np.floor(np.ldexp(ordinary, form.mantissa - exponent + fine)) + (random >> np.uint32(32 - fine))
    whole = np.floor(np.ldexp(steps, -fine)).astype(np.int64)
    code = (exponent - (1 - form.bias) << form.mantissa) + np.where(ordinary == 0, 0, whole)
    infinite = form.top_code if saturate and form.infinite else form.infinity_code
    code = np.where(code > form.top_code, form.top_code if saturate else form.infinity_code, code)
    code = np.where(finite, code, np.where(np.isnan(x), form.nan_code, infinite))
    codes: NDArray[np.uint8] = (code | np.signbit(x).astype(np.int64) << form.bits - 1).astype(np.uint8)
    return codes
