"""Operand values worth trying, by AMD's operand type: its edges, values near each other, and random bits."""

import random
import re
from collections.abc import Callable

from forms import Operand
from pcode_values import FORMATS, Format

INTEGERS = {
    4: (0, 1, 7, 8, 15),
    8: (0, 1, 2, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF),
    16: (0, 1, 2, 3, 0xF, 0x10, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF),
    32: (
        0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFF, 0x800000,
        0xFFFFFF, 0x1000000, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0x00200020,
        0x001F0004, 0x00400000, 0x0C0B0A09, 0x03020100, 0x07060504,
    ),
    64: (
        0, 1, 2, 31, 32, 63, 64, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFFFFFFFFFF,
        0x8000000000000000, 0x8000000000000001, 0xFFFFFFFF00000000, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF,
    ),
}  # fmt: skip


def float_edges(f: Format) -> tuple[int, ...]:
    """+-0, the least and the largest denormal, least normal, 0.5 .. 2 and neighbours, ties, largest, Inf, NaNs."""
    one = f.bias << f.mantissa_bits
    half, two = one - (1 << f.mantissa_bits), one + (1 << f.mantissa_bits)
    positive = [
        0, 1, 2, f.mantissa_mask, f.mantissa_mask + 1, f.mantissa_mask + 2, half, half - 1, half + 1, one, one - 1,
        one + 1, two, two - 1, one | f.quiet_bit, two | f.quiet_bit, two | f.quiet_bit >> 1,
        (2 * f.bias - 1) << f.mantissa_bits,
    ]  # fmt: skip
    if f.has_inf:
        positive += [f.inf - 1, f.inf, f.inf | 1, f.quiet_nan, f.quiet_nan | 1]
    return tuple(dict.fromkeys(x | s for x in positive for s in (0, f.sign_bit) if 0 <= x < f.sign_bit))


def moderate(f: Format, rng: random.Random) -> int:
    """A finite number within 2^-4 .. 2^4 or so: sums of such cancel, their products stay in range."""
    exponent = min(max(f.bias + rng.randint(-4, 4), 0), f.exponent_mask - 1)
    mantissa = rng.getrandbits(f.mantissa_bits)
    if rng.random() < 0.4:
        mantissa &= f.mantissa_mask << max(0, f.mantissa_bits - 3)
    return rng.getrandbits(1) << (f.width - 1) | exponent << f.mantissa_bits | mantissa & f.mantissa_mask


def float_source(f: Format) -> Callable[[random.Random], int]:
    edges = float_edges(f)

    def draw(rng: random.Random) -> int:
        choice = rng.random()
        if choice < 0.4:
            return rng.choice(edges)
        return moderate(f, rng) if choice < 0.8 else rng.getrandbits(f.width)

    return draw


def integer_source(bits: int) -> Callable[[random.Random], int]:
    edges = INTEGERS[min(n for n in INTEGERS if n >= min(bits, 64))]

    def draw(rng: random.Random) -> int:
        if bits > 64:
            return rng.getrandbits(bits)
        choice = rng.random()
        if choice < 0.5:
            return rng.choice(edges) & ((1 << bits) - 1)
        return rng.getrandbits(bits) if choice < 0.85 else rng.randrange(0, 70) & ((1 << bits) - 1)

    return draw


def source_of(fmt: str, bits: int) -> Callable[[random.Random], int]:
    """A generator of `bits`-bit values for AMD's operand type (`pk2_f16` draws each element)."""
    packed = re.match(r"(?:2x)?pk(\d+)_([a-z]+\d+)$", fmt)
    if packed:
        element = packed.group(2)
        width = FORMATS[element].width if element in FORMATS else int(re.sub(r"\D", "", element))
        draw = source_of(element, width)
        return lambda rng: sum(draw(rng) << (width * i) for i in range(max(1, bits // width)))
    if fmt in FORMATS:
        return float_source(FORMATS[fmt])
    integers = integer_source(bits)
    if fmt in ("b32", "b64", "any") and bits in (32, 64):
        floats = float_source(FORMATS[f"f{bits}"])
        return lambda rng: floats(rng) if rng.random() < 0.4 else integers(rng)
    return integers


def draw(operand: Operand, rng: random.Random) -> int:
    """A value of the whole register: the type's bits below, garbage above (which must not count)."""
    value = source_of(operand.format, operand.bits)(rng)
    rest = operand.words * 32 - operand.bits
    return value | rng.getrandbits(rest) << operand.bits if rest > 0 else value
