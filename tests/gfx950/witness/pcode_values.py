"""Typed values of AMD's pseudocode, and correctly rounded arithmetic on its float formats.

Integers are exact: `+ - * << ~` never wrap by themselves, a typed write (`D0.u32 = ...`) or a typed read (`x.u32`)
does. That is the reading under which the text's own overflow tests (`tmp >= 0x100000000ULL`) mean something.

A float is its bit pattern. `loose` marks bits that IEEE 754 leaves open (sign and payload of a NaN made by arithmetic);
it travels with the bits, so that a comparison knows which ones the text determines.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import floor


class UndeterminedError(Exception):
    """The text doesn't say what happens for these operands."""


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    width: int
    exponent_bits: int
    mantissa_bits: int
    bias: int
    has_inf: bool = True
    has_nan: bool = True

    @property
    def exponent_mask(self) -> int:
        return (1 << self.exponent_bits) - 1

    @property
    def mantissa_mask(self) -> int:
        return (1 << self.mantissa_bits) - 1

    @property
    def sign_bit(self) -> int:
        return 1 << (self.width - 1)

    @property
    def inf(self) -> int:
        return self.exponent_mask << self.mantissa_bits

    @property
    def quiet_bit(self) -> int:
        return 1 << (self.mantissa_bits - 1)

    @property
    def quiet_nan(self) -> int:
        return self.inf | self.quiet_bit

    @property
    def any_nan(self) -> int:
        """Bits of a quiet NaN that arithmetic leaves open: its sign and the payload below the quiet bit."""
        return self.sign_bit | (self.quiet_bit - 1)


# f16, f32, f64: IEEE 754. fp8, bf8: OCP OFP8 E4M3, E5M2. fp6, bf6, fp4: OCP MX 1.0, 5.3 (E2M3, E3M2, E2M1).
FORMATS = {
    f.name: f
    for f in (
        Format("f16", 16, 5, 10, 15),
        Format("f32", 32, 8, 23, 127),
        Format("f64", 64, 11, 52, 1023),
        Format("bf16", 16, 8, 7, 127),
        Format("fp8", 8, 4, 3, 7, has_inf=False),
        Format("bf8", 8, 5, 2, 15),
        Format("fp6", 6, 2, 3, 1, has_inf=False, has_nan=False),
        Format("bf6", 6, 3, 2, 3, has_inf=False, has_nan=False),
        Format("fp4", 4, 2, 1, 1, has_inf=False, has_nan=False),
    )
}


@dataclass(frozen=True, slots=True)
class Value:
    """`kind` is U, I, B (raw bits) or the name of a float format; ints carry an exact number, floats their bits.

    `real` is set only for `2.0 ** n`: an exact power that must not be rounded before it is used.
    """

    kind: str
    width: int
    number: int
    loose: int = 0
    real: Fraction | None = None

    @property
    def is_float(self) -> bool:
        return self.kind in FORMATS

    @property
    def format(self) -> Format:
        return FORMATS[self.kind]

    @property
    def bits(self) -> int:
        return self.number & ((1 << self.width) - 1)

    def read(self) -> int:
        """The number a comparison or a shift sees: an unsigned value that went below zero has wrapped."""
        if self.is_float:
            raise TypeError(f"a {self.kind} is not an integer")
        return self.bits if self.number < 0 and self.kind != "I" else self.number

    @property
    def truth(self) -> bool:
        return self.bits != 0 if self.is_float else self.number != 0


def unsigned(number: int, width: int = 32, loose: int = 0) -> Value:
    return Value("U", width, number, loose)


def signed(number: int, width: int = 32) -> Value:
    return Value("I", width, number)


def wrap_signed(bits: int, width: int) -> int:
    bits &= (1 << width) - 1
    return bits - (1 << width) if bits >> (width - 1) else bits


def boolean(condition: bool) -> Value:
    return Value("U", 1, int(condition))


def reinterpret(value: Value, kind: str, width: int) -> Value:
    """`x.u32`, `x.i16`, `x.f32`: the same bits read as another type; between two float formats, a conversion."""
    if kind in FORMATS:
        if value.is_float and value.kind != kind:
            return convert_float(value, kind)
        return Value(kind, FORMATS[kind].width, value.number & ((1 << FORMATS[kind].width) - 1), value.loose)
    bits = value.bits if value.is_float else value.number
    mask = (1 << width) - 1
    return Value(kind, width, wrap_signed(bits, width) if kind == "I" else bits & mask, value.loose & mask)


# floats


def is_nan(v: Value) -> bool:
    f = v.format
    if not f.has_nan:
        return False
    if not f.has_inf:
        return (v.bits & ~f.sign_bit) == (f.sign_bit - 1)
    return (v.bits & f.inf) == f.inf and (v.bits & f.mantissa_mask) != 0


def is_quiet(v: Value) -> bool:
    return is_nan(v) and bool(v.bits & v.format.quiet_bit)


def is_inf(v: Value) -> bool:
    f = v.format
    return f.has_inf and (v.bits & ~f.sign_bit) == f.inf


def sign_of(v: Value) -> int:
    return v.bits >> (v.width - 1)


def number_of(v: Value) -> Fraction:
    """The exact real number of a finite float."""
    if v.real is not None:
        return v.real
    f = v.format
    exponent = (v.bits >> f.mantissa_bits) & f.exponent_mask
    mantissa = v.bits & f.mantissa_mask
    if exponent:
        mantissa |= 1 << f.mantissa_bits
    else:
        exponent = 1
    shift = exponent - f.bias - f.mantissa_bits
    magnitude = Fraction(mantissa << shift) if shift >= 0 else Fraction(mantissa, 1 << -shift)
    return -magnitude if sign_of(v) else magnitude


def round_half_even(x: Fraction) -> int:
    low = floor(x)
    rest = x - low
    half = Fraction(1, 2)
    return low + (1 if rest > half or (rest == half and low & 1) else 0)


def binade(x: Fraction) -> int:
    """floor(log2(x)) of x > 0, exactly."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if (Fraction(2) ** e) <= x else e - 1


def make_float(kind: str, x: Fraction, sign_if_zero: int = 0, mode: str = "RNE") -> Value:
    """`x` rounded once to `kind`; `mode` is RNE or RTZ. Overflow gives Inf (RNE), the largest finite number (RTZ).

    Raises:
        UndeterminedError: overflow of a format without an Inf (whether it saturates, the text doesn't say).
    """
    f = FORMATS[kind]
    if x == 0:
        return Value(kind, f.width, f.sign_bit if sign_if_zero else 0)
    sign = f.sign_bit if x < 0 else 0
    x = abs(x)
    exponent = max(binade(x), 1 - f.bias)
    step = exponent - f.mantissa_bits
    scaled = x / Fraction(2) ** step
    count = round_half_even(scaled) if mode == "RNE" else floor(scaled)
    if count >> (f.mantissa_bits + 1):
        count >>= 1
        exponent += 1
    biased = exponent + f.bias if count >> f.mantissa_bits else 0
    bits = (biased << f.mantissa_bits) | (count & f.mantissa_mask)
    largest = f.inf - 1 if f.has_inf else f.sign_bit - (2 if f.has_nan else 1)
    if biased > f.exponent_mask or bits > largest:
        if not f.has_inf:
            raise UndeterminedError(f"overflow of {kind}")
        bits = f.inf if mode == "RNE" else largest
    return Value(kind, f.width, sign | bits)


def made_nan(kind: str) -> Value:
    f = FORMATS[kind]
    return Value(kind, f.width, f.quiet_nan, f.any_nan)


def make_inf(kind: str, sign: int) -> Value:
    f = FORMATS[kind]
    return Value(kind, f.width, f.inf | (f.sign_bit if sign else 0))


def convert_float(v: Value, kind: str, mode: str = "RNE") -> Value:
    """A cast between float formats. A NaN stays as it is (signalling too), its payload aligned to the top."""
    f = FORMATS[kind]
    if v.kind == kind or v.real is not None:
        return v
    if is_nan(v):
        g = v.format
        shift = f.mantissa_bits - g.mantissa_bits
        payload = (v.bits & g.mantissa_mask) << shift if shift >= 0 else (v.bits & g.mantissa_mask) >> -shift
        bits = f.inf | payload | (f.sign_bit if sign_of(v) else 0)
        return Value(kind, f.width, bits if payload else f.quiet_nan, f.any_nan if v.loose else 0)
    if is_inf(v):
        return make_inf(kind, sign_of(v))
    return make_float(kind, number_of(v), sign_of(v), mode)


def wider(a: Value, b: Value) -> str:
    order = ("fp4", "fp6", "bf6", "fp8", "bf8", "bf16", "f16", "f32", "f64")
    return max(a.kind, b.kind, key=order.index)


def add(a: Value, b: Value) -> Value:
    kind = wider(a, b)
    if is_nan(a) or is_nan(b) or (is_inf(a) and is_inf(b) and sign_of(a) != sign_of(b)):
        return made_nan(kind)
    if is_inf(a) or is_inf(b):
        return make_inf(kind, sign_of(a if is_inf(a) else b))
    return make_float(kind, number_of(a) + number_of(b), sign_of(a) & sign_of(b))


def multiply(a: Value, b: Value) -> Value:
    kind = wider(a, b)
    product = product_of(a, b)
    if isinstance(product, Fraction):
        return make_float(kind, product, sign_of(a) ^ sign_of(b))
    return made_nan(kind) if product == "nan" else make_inf(kind, sign_of(a) ^ sign_of(b))


def product_of(a: Value, b: Value) -> Fraction | str:
    """The exact product, or "nan" or "inf"."""
    if is_nan(a) or is_nan(b):
        return "nan"
    if is_inf(a) or is_inf(b):
        zero = (not is_inf(a) and number_of(a) == 0) or (not is_inf(b) and number_of(b) == 0)
        return "nan" if zero else "inf"
    return number_of(a) * number_of(b)


def fused(a: Value, b: Value, c: Value) -> Value:
    """a * b + c rounded once (IEEE 754 fusedMultiplyAdd)."""
    kind = c.kind
    product, sign = product_of(a, b), sign_of(a) ^ sign_of(b)
    if product == "nan" or is_nan(c):
        return made_nan(kind)
    if product == "inf":
        return made_nan(kind) if is_inf(c) and sign_of(c) != sign else make_inf(kind, sign)
    if is_inf(c):
        return c
    assert isinstance(product, Fraction)
    return make_float(kind, product + number_of(c), sign & sign_of(c))


def divide(a: Value, b: Value) -> Value:
    kind, sign = wider(a, b), sign_of(a) ^ sign_of(b)
    if is_nan(a) or is_nan(b) or (is_inf(a) and is_inf(b)):
        return made_nan(kind)
    if is_inf(a):
        return make_inf(kind, sign)
    if is_inf(b):
        return make_float(kind, Fraction(0), sign)
    if number_of(b) == 0:
        return made_nan(kind) if number_of(a) == 0 else make_inf(kind, sign)
    return make_float(kind, number_of(a) / number_of(b), sign)


def negate(v: Value) -> Value:
    return Value(v.kind, v.width, v.bits ^ v.format.sign_bit, v.loose)


def less(a: Value, b: Value) -> bool:
    return not is_nan(a) and not is_nan(b) and key(a) < key(b)


def equal(a: Value, b: Value) -> bool:
    return not is_nan(a) and not is_nan(b) and key(a) == key(b)


def key(v: Value) -> tuple[int, Fraction]:
    return (0, number_of(v)) if not is_inf(v) else (-1 if sign_of(v) else 1, Fraction(0))
