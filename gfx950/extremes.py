"""Minimum, maximum and median of floats as AMD's pseudocode has them: float16, float32, float64 alike.

Source: AMD CDNA4 ISA, V_MAX_F32, V_MIN_F32, V_MED3_F32, V_MINIMUM3_F32 and their kin.
"""

from typing import Any

import numpy as np

from mxassay.gfx950.floating import form_of, quiet
from mxassay.gfx950.registry import Mode

__all__ = ["maximum", "maximum3", "median", "minimum", "minimum3", "propagating_maximum3", "propagating_minimum3"]


def maximum(a: Any, b: Any, mode: Mode) -> Any:
    return _chosen(np.fmax(a, b), a, b, mode, np.bitwise_and)


def minimum(a: Any, b: Any, mode: Mode) -> Any:
    return _chosen(np.fmin(a, b), a, b, mode, np.bitwise_or)


def _chosen(result: Any, a: Any, b: Any, mode: Mode, merge: np.ufunc) -> Any:
    """fmin and fmax with what IEEE 754 leaves open settled as AMD's pseudocode does: +0 beats -0 in a maximum, -0
    beats +0 in a minimum; in IEEE mode a signalling NaN comes out quiet, the first one first; of two quiet NaNs the
    second comes out."""
    form = form_of(result)
    bits = np.asarray(result).view(form.bits)
    zero = (bits & form.magnitude) == 0
    if zero.any():
        both = merge(np.asarray(a).view(form.bits), np.asarray(b).view(form.bits))
        bits = np.where((a == 0) & (b == 0), both & form.sign, bits)
        result = bits.view(form.dtype)
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    if nan_a.any() or nan_b.any():
        result = np.where(nan_a, b, np.where(nan_b, a, result))
        if mode.ieee:
            for x in (b, a):
                result = np.where(_signalling(x), quiet(x), result)
    return result


def _signalling(x: Any) -> Any:
    form = form_of(x)
    bits = np.asarray(x).view(form.bits)
    return ((bits & form.magnitude) > form.infinity) & ((bits & form.quiet) == 0)


def maximum3(a: Any, b: Any, c: Any, mode: Mode) -> Any:
    return maximum(maximum(a, b, mode), c, mode)


def minimum3(a: Any, b: Any, c: Any, mode: Mode) -> Any:
    return minimum(minimum(a, b, mode), c, mode)


def median(a: Any, b: Any, c: Any, mode: Mode) -> Any:
    """The middle one; the least of the others when one is NaN."""
    largest = maximum3(a, b, c, mode)
    result = np.where(
        largest == a, maximum(b, c, mode), np.where(largest == b, maximum(a, c, mode), maximum(a, b, mode))
    )
    nan = np.isnan(a) | np.isnan(b) | np.isnan(c)
    return np.where(nan, minimum3(a, b, c, mode), result) if nan.any() else result


def _propagating(a: Any, b: Any, pick: np.ufunc, merge: np.ufunc) -> Any:
    """IEEE 754-2019 minimum and maximum: a NaN wins, quiet; -0 is less than +0."""
    result = pick(a, b)
    form = form_of(result)
    both = merge(np.asarray(a).view(form.bits), np.asarray(b).view(form.bits))
    bits = np.where((a == 0) & (b == 0), both & form.sign, np.asarray(result).view(form.bits))
    return quiet(bits.view(form.dtype))


def propagating_minimum3(a: Any, b: Any, c: Any) -> Any:
    return _propagating(_propagating(a, b, np.minimum, np.bitwise_or), c, np.minimum, np.bitwise_or)


def propagating_maximum3(a: Any, b: Any, c: Any) -> Any:
    return _propagating(_propagating(a, b, np.maximum, np.bitwise_and), c, np.maximum, np.bitwise_and)
