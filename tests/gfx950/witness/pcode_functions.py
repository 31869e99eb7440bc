"""The named functions AMD's pseudocode calls and doesn't define, each with the reading we give it.

A reading is given only where the name has one meaning (IEEE 754, the format's own definition) or where a public
source of AMD says what happens; the others are in UNDEFINED with the reason, and an instruction that needs one has
no witness.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from pcode_values import (
    FORMATS,
    UndeterminedError,
    Value,
    add,
    boolean,
    convert_float,
    fused,
    is_inf,
    is_nan,
    is_quiet,
    less,
    made_nan,
    make_float,
    make_inf,
    multiply,
    negate,
    number_of,
    round_half_even,
    sign_of,
    signed,
    unsigned,
)

FUNCTIONS: dict[str, Callable] = {}


def named(*names: str):
    def register(function):
        for name in names:
            FUNCTIONS[name] = function
        return function

    return register


def float_to_integer(low: int, high: int, make: Callable) -> Callable:
    """Truncation, saturation at the ends, NaN to 0: inferred, AMD's text only names the function."""

    def convert(mode: str, v: Value) -> Value:
        if is_nan(v):
            return make(0)
        if is_inf(v):
            return make(low if sign_of(v) else high)
        return make(min(max(math.trunc(number_of(v)), low), high))

    return convert


for _source in ("f16", "f32", "f64"):
    for _width in (16, 32):
        FUNCTIONS[f"{_source}_to_i{_width}"] = float_to_integer(
            -(1 << (_width - 1)), (1 << (_width - 1)) - 1, lambda n, w=_width: signed(n, w)
        )
        FUNCTIONS[f"{_source}_to_u{_width}"] = float_to_integer(
            0, (1 << _width) - 1, lambda n, w=_width: unsigned(n, w)
        )
for _width, _kinds in {16: ("f16",), 32: ("f32", "f64")}.items():
    for _kind in _kinds:
        for _letter in "iu":
            FUNCTIONS[f"{_letter}{_width}_to_{_kind}"] = lambda mode, v, k=_kind: make_float(
                k, Fraction(v.read()), 0, mode
            )
for _narrow in (4, 8, 16):
    FUNCTIONS[f"i{_narrow}_to_i32"] = lambda mode, v: signed(v.read())
    FUNCTIONS[f"u{_narrow}_to_u32"] = lambda mode, v: unsigned(v.read())


def quieted(v: Value, kind: str) -> Value:
    """A NaN that went through a conversion: quiet, payload left open (IEEE 754, 6.2.3 recommends, doesn't demand)."""
    return made_nan(kind) if is_nan(v) else convert_float(v, kind)


for _from, _to in (("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("fp8", "f32"), ("bf8", "f32")):
    FUNCTIONS[f"{_from}_to_{_to}"] = lambda mode, v, k=_to: quieted(v, k)
for _from, _to in (("f32", "f16"), ("f32", "bf16"), ("f64", "f32")):
    FUNCTIONS[f"{_from}_to_{_to}"] = lambda mode, v, k=_to: made_nan(k) if is_nan(v) else convert_float(v, k, mode)


def narrow_to_8bit(kind: str) -> Callable:
    """In range: RNE, as the text sets ROUND_MODE. Overflow, Inf, NaN: the text is silent (saturation is a mode bit)."""

    def convert(mode: str, v: Value) -> Value:
        if is_nan(v) or is_inf(v):
            raise UndeterminedError(f"Inf or NaN to {kind}")
        result = convert_float(v, kind, mode)
        if is_inf(result):
            raise UndeterminedError(f"overflow of {kind}")
        return result

    return convert


for _to in ("fp8", "bf8"):
    FUNCTIONS[f"f32_to_{_to}"] = narrow_to_8bit(_to)


def scaled_decode(kind: str) -> Callable:
    """x * 2^(scale - 127). The formats give the value; scale 255 (NaN in E8M0) and rounding of the result are open."""

    def convert(mode: str, v: Value, scale: Value) -> Value:
        e = scale.bits & 0xFF
        if e == 255:
            raise UndeterminedError("scale byte 255")
        if is_nan(v):
            return made_nan(kind)
        if is_inf(v):
            return make_inf(kind, sign_of(v))
        exact = number_of(v) * Fraction(2) ** (e - 127)
        result = make_float(kind, exact, sign_of(v))
        if is_inf(result) or number_of(result) != exact:
            raise UndeterminedError(f"{kind} can't hold the scaled value")
        return result

    return convert


for _from in ("fp4", "fp6", "bf6", "fp8", "bf8"):
    for _to in ("f32", "f16", "bf16"):
        FUNCTIONS[f"{_from}_to_{_to}_scale"] = scaled_decode(_to)


@named("u32_to_u16")
def saturate_u16(mode: str, v: Value) -> Value:
    """Saturates, like V_CVT_PK_I16_I32, which LLVM takes as a clamp (its test combine-short-clamp.ll)."""
    return unsigned(min(v.read(), 0xFFFF), 16)


@named("i32_to_i16")
def saturate_i16(mode: str, v: Value) -> Value:
    return signed(min(max(v.read(), -0x8000), 0x7FFF), 16)


# IEEE predicates and parts


@named("isNAN")
def is_nan_(mode: str, v: Value) -> Value:
    return boolean(is_nan(v))


@named("isQuietNAN")
def is_quiet_(mode: str, v: Value) -> Value:
    return boolean(is_quiet(v))


@named("isSignalNAN")
def is_signalling(mode: str, v: Value) -> Value:
    return boolean(is_nan(v) and not is_quiet(v))


@named("cvtToQuietNAN")
def quiet(mode: str, v: Value) -> Value:
    return Value(v.kind, v.width, v.bits | v.format.quiet_bit, v.loose)


@named("sign")
def sign(mode: str, v: Value) -> Value:
    return unsigned(sign_of(v), 1)


@named("exponent")
def exponent(mode: str, v: Value) -> Value:
    """The biased exponent field: V_CMP_CLASS compares it with 255 and 0."""
    return signed((v.bits >> v.format.mantissa_bits) & v.format.exponent_mask)


@named("mantissa")
def mantissa(mode: str, v: Value) -> Value:
    """Of frexp: in [0.5, 1), the sign kept (V_FREXP_MANT)."""
    x = number_of(v)
    if x == 0:
        return v
    while abs(x) >= 1:
        x /= 2
    while abs(x) < Fraction(1, 2):
        x *= 2
    return make_float(v.kind, x)


@named("frexpExponent")
def frexp_exponent(mode: str, v: Value) -> Value:
    """C's frexp; ours, for the errata."""
    x, e = abs(number_of(v)), 0
    while x >= 1:
        x, e = x / 2, e + 1
    while 0 < x < Fraction(1, 2):
        x, e = x * 2, e - 1
    return signed(e)


@named("abs")
def absolute(mode: str, v: Value) -> Value:
    return negate(v) if sign_of(v) else v


# rounding to integers


def integral(rule: Callable[[Fraction], int]) -> Callable:
    def convert(mode: str, v: Value) -> Value:
        if is_nan(v):
            return made_nan(v.kind)
        return v if is_inf(v) else make_float(v.kind, Fraction(rule(number_of(v))), sign_of(v))

    return convert


FUNCTIONS["trunc"] = integral(math.trunc)
FUNCTIONS["floor"] = integral(math.floor)
FUNCTIONS["roundEven"] = integral(round_half_even)  # ours, for the errata


@named("fract")
def fract(mode: str, v: Value) -> Value:
    if is_nan(v) or is_inf(v):
        return made_nan(v.kind)
    return make_float(v.kind, number_of(v) - math.floor(number_of(v)))


@named("isEven")
def is_even(mode: str, v: Value) -> Value:
    return boolean(not is_nan(v) and not is_inf(v) and number_of(v) % 2 == 0)


# arithmetic


@named("fma")
def fma(mode: str, a: Value, b: Value, c: Value) -> Value:
    return fused(a, b, c)


@named("fmaScaled")
def fma_scaled(mode: str, a: Value, b: Value, c: Value, n: Value) -> Value:
    """(a * b + c) * 2^n rounded once; ours, for the errata."""
    plain = fused(a, b, c)
    if any(is_nan(v) or is_inf(v) for v in (a, b, c)):
        return plain
    exact = number_of(a) * number_of(b) + number_of(c)
    return make_float(c.kind, exact * Fraction(2) ** n.read(), sign_of(plain)) if exact else plain


@named("ldexp")
def ldexp(mode: str, v: Value, n: Value) -> Value:
    if is_nan(v):
        return made_nan(v.kind)
    e = min(max(n.read(), -6000), 6000)
    return v if is_inf(v) else make_float(v.kind, number_of(v) * Fraction(2) ** e, sign_of(v))


def root(kind: str, x: Fraction, inverse: bool) -> Value:
    """sqrt(x) or 1/sqrt(x), x > 0, correctly rounded: an integer root with 80 spare bits, odd when inexact."""
    shift = 80 + FORMATS[kind].mantissa_bits + 1200
    if inverse:
        x = 1 / x
    scaled = (x.numerator << (2 * shift)) // x.denominator
    r = math.isqrt(scaled)
    exact = r * r == scaled and (x.numerator << (2 * shift)) % x.denominator == 0
    return make_float(kind, Fraction(2 * r + (0 if exact else 1), 2 << shift))


@named("sqrt")
def sqrt(mode: str, v: Value) -> Value:
    if is_nan(v) or (sign_of(v) and v.bits != v.format.sign_bit):
        return made_nan(v.kind)
    return v if is_inf(v) or number_of(v) == 0 else root(v.kind, number_of(v), inverse=False)


@named("rsqrt")
def rsqrt(mode: str, v: Value) -> Value:
    """1/sqrt(v) rounded once; ours, for the errata."""
    if is_nan(v) or (sign_of(v) and v.bits != v.format.sign_bit):
        return made_nan(v.kind)
    if is_inf(v):
        return make_float(v.kind, Fraction(0))
    return make_inf(v.kind, sign_of(v)) if number_of(v) == 0 else root(v.kind, number_of(v), inverse=True)


def from_double(kind: str, x: float) -> Value:
    if math.isinf(x):
        return make_inf(kind, int(x < 0))
    return make_float(kind, Fraction(x), int(math.copysign(1, x) < 0))


@named("pow")
def power(mode: str, base: Value, v: Value) -> Value:
    """Only 2^x occurs; libm's double result, so good to far below one ulp of f32 (compared within 1 ulp)."""
    if is_nan(v):
        return made_nan(v.kind)
    if is_inf(v):
        return make_float(v.kind, Fraction(0)) if sign_of(v) else v
    x = float(number_of(v))
    return from_double(v.kind, 2.0**x if x < 1000 else math.inf)


@named("log2")
def log2(mode: str, v: Value) -> Value:
    if is_nan(v) or (sign_of(v) and v.bits != v.format.sign_bit):
        return made_nan(v.kind)
    if is_inf(v):
        return v
    return make_inf(v.kind, 1) if number_of(v) == 0 else from_double(v.kind, math.log2(float(number_of(v))))


def smallest(mode: str, a: Value, b: Value) -> Value:
    """IEEE 754-2019 minimum: a NaN wins, -0 < +0."""
    if is_nan(a) or is_nan(b):
        return made_nan(a.kind)
    if less(a, b) or less(b, a):
        return a if less(a, b) else b
    return a if sign_of(a) else b


def largest(mode: str, a: Value, b: Value) -> Value:
    """IEEE 754-2019 maximum."""
    return negate(smallest(mode, negate(a), negate(b)))


for _kind in ("f32", "f16"):
    FUNCTIONS[f"v_minimum_{_kind}"] = smallest
    FUNCTIONS[f"v_maximum_{_kind}"] = largest
    FUNCTIONS[f"v_minimum3_{_kind}"] = lambda mode, a, b, c: smallest(mode, smallest(mode, a, b), c)
    FUNCTIONS[f"v_maximum3_{_kind}"] = lambda mode, a, b, c: largest(mode, largest(mode, a, b), c)


# bits


@named("signext")
def sign_extend(mode: str, v: Value) -> Value:
    return signed(v.number, 64)


@named("signext_from_bit")
def sign_extend_from_bit(mode: str, v: Value, count: Value) -> Value:
    n = count.read()
    if n == 0:
        return signed(0, v.width)
    low = v.number & ((1 << n) - 1)
    return signed(low - (1 << n) if n < v.width and low >> (n - 1) else low, v.width)


@named("bitCount")
def bit_count(mode: str, v: Value) -> Value:
    return signed(v.bits.bit_count())


# AMD's text calls these and never defines them. AMD's HIP header, composable_kernel, aiter and ml_dtypes agree for
# finite x and scale exponents 1 to 254: x / 2^(e - 127) to the nearest code, ties to even, saturating, the sign kept.
BORROWED = ("f32_to_fp4_scale", "f16_to_fp4_scale", "bf16_to_fp4_scale")


@named(*BORROWED)
def to_fp4(mode: str, v: Value, scale: Value) -> Value:
    e = scale.bits & 0xFF
    if is_nan(v) or is_inf(v) or e in (0, 255):
        raise UndeterminedError("NaN, Inf, scale exponent 0 or 255")
    x = number_of(v) / Fraction(2) ** (e - 127)
    return make_float("fp4", min(max(x, Fraction(-6)), Fraction(6)), sign_of(v))


UNDEFINED = {
    "_scale": "rounding, saturation and NaN of a scaled narrowing conversion are not in AMD's text",
    "_sr": "the stochastic rounding function is not in AMD's text",
    "_SR": "the stochastic rounding function is not in AMD's text",
    "norm": "rounding of the normalised conversion is not in AMD's text",
    "f32_to_u8": "rounding and saturation of the 8-bit conversion are not in AMD's text",
    "float32": "`mantissa` is used as raw bits here and as a float elsewhere",
    "sin": "range and reduction are not in AMD's text",
    "cos": "range and reduction are not in AMD's text",
}


def why_undefined(name: str) -> str:
    for part, reason in UNDEFINED.items():
        if name.startswith(part) if part in ("sin", "cos") else part in name:
            return f"{name}: {reason}"
    return f"{name}: not defined by AMD's text"


__all__ = ["FUNCTIONS", "add", "multiply", "why_undefined"]
