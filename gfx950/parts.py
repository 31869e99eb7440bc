"""The parts of a float, as AMD's conversions and divisions use them: float16, float32, float64 alike.

Source: AMD CDNA4 ISA, V_FREXP_*, V_FRACT_*, V_CMP_CLASS_*.
"""

from typing import Any

import numpy as np

from mxassay.gfx950.floating import form_of, quiet

__all__ = ["biased_exponent", "class_bit", "exponent", "fraction", "mantissa"]


def exponent(x: Any) -> Any:
    """C's frexp exponent; 0 for zero, infinities and NaN."""
    return np.where(np.isfinite(x), np.frexp(x)[1], 0).astype(np.int32)


def mantissa(x: Any) -> Any:
    """C's frexp mantissa in [0.5, 1), signed; zero, infinities and NaN unchanged."""
    return np.where(np.isfinite(x), np.frexp(x)[0], x)


def fraction(x: Any) -> Any:
    """x - floor(x), at most the float below 1; NaN for infinities."""
    below_one = np.nextafter(x.dtype.type(1), x.dtype.type(0))
    return np.minimum(quiet(x - np.floor(x)), below_one)


def biased_exponent(x: Any) -> Any:
    """The exponent field as int32."""
    form = form_of(x)
    return ((np.asarray(x).view(form.bits) & form.infinity) >> form.shift).astype(np.int32)


def class_bit(x: Any) -> Any:
    """The number of the bit that stands for the class of `x` in V_CMP_CLASS: 0 signalling NaN, 1 quiet NaN, then from
    -infinity (2) over -0 (5) and +0 (6) to +infinity (9)."""
    form = form_of(x)
    bits = np.asarray(x).view(form.bits)
    size = bits & form.magnitude
    # Distance from zero: 0 zero, 1 denormal, 2 normal, 3 infinity.
    distance = (size > 0).astype(np.int32) + (size >= form.least_normal) + (size == form.infinity)
    signed = np.where(bits & form.sign != 0, 5 - distance, 6 + distance)
    return np.where(size > form.infinity, (bits & form.quiet != 0).astype(np.int32), signed).astype(np.uint32)
