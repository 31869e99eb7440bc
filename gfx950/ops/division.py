"""The three steps of a division: V_DIV_SCALE, V_DIV_FMAS, V_DIV_FIXUP. Source: AMD CDNA4 ISA, pseudocode of each.

Its text of V_DIV_SCALE leaves the result unset where nothing is scaled (S0 passes unchanged there) and compares with a
number named DENORM (read as: smaller than the least normal number); both readings are inferred, and Triton's divisions
come out correctly rounded with them.
"""

from typing import Any

import numpy as np

from mxassay.gfx950.floating import fma_f32, form_of, quiet
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
        ((inverse < least) & (quotient < least), np.where(is_denominator, up, value), True),
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

_FMAS = "AMD CDNA4 ISA, V_DIV_FMAS_F32, V_DIV_FMAS_F64"
lanewise(
    "f32 f32 f32 mask -> f32",
    {"v_div_fmas_f32": lambda a, b, c, back: _times(fma_f32(a, b, c), back, 32)},
    CERTAIN,
    _FMAS,
)
lanewise(
    "f64 f64 f64 mask -> f64",
    {"v_div_fmas_f64": lambda a, b, c, back: _times(fma_f64(a, b, c), back, 64)},
    CERTAIN,
    _FMAS,
)


def _times(x: Any, where: Any, power: int) -> Any:
    return np.where(where, np.ldexp(x, power), x)


def _fixup(lowest: int | None) -> Any:
    """The quotient S0 with its sign and the special cases of S2 / S1. `lowest`: the difference of exponents below which
    the quotient underflows; the rounding to zero there is nearest even's."""

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
        tests, values = zip(*cases, strict=True)
        result = np.select(
            [np.broadcast_to(test, shape) for test in tests],
            [np.broadcast_to(value, shape) for value in values],
            np.broadcast_to(q | sign, shape),
        )
        return result.astype(form.bits).view(form.dtype)

    return function


_FIXUP = "AMD CDNA4 ISA, V_DIV_FIXUP_F32 and its kin"
lanewise("f32 f32 f32 -> f32", {"v_div_fixup_f32": _fixup(-150)}, CERTAIN, _FIXUP, moves=True)
lanewise("f64 f64 f64 -> f64", {"v_div_fixup_f64": _fixup(-1075)}, CERTAIN, _FIXUP, moves=True)
lanewise("f16 f16 f16 -> f16", {"v_div_fixup_f16": _fixup(None)}, CERTAIN, _FIXUP, keep=True, moves=True)
lanewise("f16 f16 f16 -> f16", {"v_div_fixup_legacy_f16": _fixup(None)}, CERTAIN, _FIXUP, moves=True)
