"""The three steps of a division: V_DIV_SCALE, V_DIV_FMAS, V_DIV_FIXUP. Source: AMD CDNA4 ISA, pseudocode of each.

AMD's text can't be followed to the letter. V_DIV_SCALE leaves the result unset where nothing is scaled (read: S0
unchanged), compares with a number named DENORM (read: below the least normal number), and scales a huge denominator up
where the quotient is tiny (read: down, as where it isn't). V_DIV_FMAS scales by 2^32 (2^64), up only, while V_DIV_SCALE
scaled by 2^64 (2^128), numerators and denominators (read: undo that). V_DIV_FIXUP sees an overflow where the exponent
of S1 is 255, which it has ruled out before (read: of S0). All this is inferred from what LLVM's division needs: with
these readings it is correctly rounded for all operands.
"""

from typing import Any

import numpy as np

from mxassay.gfx950.floating import fma_f32, form_of, narrowed, quiet, two_sum
from mxassay.gfx950.fused import fma_f64
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.lanewise import lanewise
from mxassay.gfx950.operands import destination, mask_destination, source
from mxassay.gfx950.parts import biased_exponent
from mxassay.gfx950.registry import CERTAIN, INFERRED, Build, Context, Step, define
from mxassay.gfx950.wave import Cohort

_SCALE = "AMD CDNA4 ISA, V_DIV_SCALE_F32, V_DIV_SCALE_F64; what it leaves unset: S0 unchanged"


def _scaled(value: Any, denominator: Any, numerator: Any, step: int, far: int, tiny: int) -> tuple[Any, Any]:
    """`value` scaled by 2^step either way where a division of the two others would leave the range, and whether
    V_DIV_FMAS must scale back. `value` is one of the two others."""
    form = form_of(np.asarray(value))
    least = np.array(form.least_normal, form.bits).view(form.dtype)
    n, d = biased_exponent(numerator), biased_exponent(denominator)
    quotient, inverse = np.abs(numerator / denominator), np.abs(1 / denominator)
    is_denominator, is_numerator = value == denominator, value == numerator
    up, down = np.ldexp(value, step), np.ldexp(value, -step)
    conditions = (
        ((numerator == 0) | (denominator == 0), np.full_like(value, np.nan), False),
        (n - d >= far, np.where(is_denominator, up, value), True),
        (d == 0, up, False),
        ((inverse < least) & (quotient < least), np.where(is_denominator, down, value), True),
        (inverse < least, down, False),
        (quotient < least, np.where(is_numerator, up, value), True),
        (n <= tiny, up, False),
    )
    shape = np.broadcast_shapes(np.shape(value), np.shape(numerator), np.shape(denominator))
    tests = [np.broadcast_to(test, shape) for test, _, _ in conditions]
    result = np.select(
        tests, [np.broadcast_to(scaled, shape) for _, scaled, _ in conditions], np.broadcast_to(value, shape)
    )
    back = np.select(tests, [np.full(shape, flag) for _, _, flag in conditions], False)
    return result.astype(form.dtype), back


def _scale(kind: str, constants: tuple[int, int, int]) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        value, denominator, numerator = (source(inst, slot, kind, context) for slot in range(3))
        write, write_mask = destination(inst, kind, context), mask_destination(inst.dst[1], inst, context)

        def step(wv: Cohort) -> None:
            v, d, n = (np.atleast_1d(read(wv)) for read in (value, denominator, numerator))
            result, back = _scaled(v, d, n, *constants)
            write(wv, result)
            write_mask(wv, back)

        return step

    return build


define("v_div_scale_f32", _scale("f32", (64, 96, 23)), INFERRED, _SCALE)
define("v_div_scale_f64", _scale("f64", (128, 768, 53)), INFERRED, _SCALE)

_FMAS = "AMD CDNA4 ISA, V_DIV_FMAS_F32, V_DIV_FMAS_F64; factor and single rounding: what LLVM's division needs"


def _back(quotient: Any, scaled: Any, step: int) -> Any:
    """The exponent that undoes what V_DIV_SCALE did: a large quotient had its denominator scaled up, a small one its
    numerator."""
    return np.where(scaled, np.where(np.abs(quotient) >= 1, step, -step), 0)


def _fmas_f32(a: Any, b: Any, c: Any, scaled: Any) -> Any:
    if not scaled.any():
        return fma_f32(a, b, c)
    power = _back(c, scaled, 64)
    high, low = two_sum(np.multiply(a, b, dtype=np.float64), np.asarray(c, np.float64))
    return narrowed(np.ldexp(high, power), np.ldexp(np.where(np.isfinite(high), low, 0), power))


def _fmas_f64(a: Any, b: Any, c: Any, scaled: Any) -> Any:
    return fma_f64(a, b, c, _back(c, scaled, 128))


lanewise("f32 f32 f32 mask -> f32", {"v_div_fmas_f32": _fmas_f32}, INFERRED, _FMAS)
lanewise("f64 f64 f64 mask -> f64", {"v_div_fmas_f64": _fmas_f64}, INFERRED, _FMAS)


def _fixup(lowest: int | None) -> Any:
    """The quotient S0 with its sign and the special cases of S2 / S1. `lowest`: the difference of exponents below which
    the quotient underflows; the rounding to zero there, and to infinity where it overflowed, is nearest even's."""

    def function(quotient: Any, denominator: Any, numerator: Any) -> Any:
        form = form_of(np.asarray(quotient))
        bits = [np.asarray(x).view(form.bits) for x in (quotient, denominator, numerator)]
        q, d, n = (x & form.magnitude for x in bits)
        sign = (bits[1] ^ bits[2]) & form.sign
        infinity, zero = form.infinity, form.bits(0)
        shape = np.broadcast_shapes(q.shape, d.shape, n.shape)
        default = infinity | form.quiet | form.sign  # the text spells this NaN out, sign and all
        cases = [
            (n > infinity, quiet(numerator).view(form.bits)),
            (d > infinity, quiet(denominator).view(form.bits)),
            ((d == 0) & (n == 0) | (d == infinity) & (n == infinity), default),
            ((d == 0) | (n == infinity), infinity | sign),
            ((d == infinity) | (n == 0), zero | sign),
        ]
        if lowest is not None:
            cases.append((biased_exponent(numerator) - biased_exponent(denominator) < lowest, zero | sign))
            cases.append((q >= infinity, infinity | sign))
        tests, values = zip(*cases, strict=True)
        result = np.select(
            [np.broadcast_to(test, shape) for test in tests],
            [np.broadcast_to(value, shape) for value in values],
            np.broadcast_to(q | sign, shape),
        )
        return result.astype(form.bits).view(form.dtype)

    return function


_FIXUP = "AMD CDNA4 ISA, V_DIV_FIXUP_F32 and its kin"
_OVERFLOW = f"{_FIXUP}; overflow where the exponent of S0, not S1, is all ones"
lanewise("f32 f32 f32 -> f32", {"v_div_fixup_f32": _fixup(-150)}, INFERRED, _OVERFLOW, moves=True)
lanewise("f64 f64 f64 -> f64", {"v_div_fixup_f64": _fixup(-1075)}, INFERRED, _OVERFLOW, moves=True)
lanewise("f16 f16 f16 -> f16", {"v_div_fixup_f16": _fixup(None)}, CERTAIN, _FIXUP, keep=True, moves=True)
lanewise("f16 f16 f16 -> f16", {"v_div_fixup_legacy_f16": _fixup(None)}, CERTAIN, _FIXUP, moves=True)
