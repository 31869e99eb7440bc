"""Fused multiply-add of float16 and float64, judged by exact fractions."""

import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.gfx950.fused import fma_f16, fma_f64

LEAST = Fraction(1, 2**1074)


def f64(bits: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def nearest(exact: Fraction, precision: int, least: int, largest: Fraction) -> float:
    """The number of `precision` bits, a multiple of 2^least, closest to `exact`; ties to even; infinity from halfway
    above the largest on."""
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent += 1 if size >= Fraction(2) ** (exponent + 1) else 0
    exponent -= 1 if size < Fraction(2) ** exponent else 0
    unit = Fraction(2) ** max(exponent - precision + 1, least)
    rounded = round(size / unit) * unit
    value = float("inf") if rounded > largest else float(rounded)
    return value if exact > 0 else -value


CODES = st.one_of(
    st.integers(0, 2**64 - 1),
    st.builds(
        lambda sign, exponent, mantissa: sign << 63 | exponent << 52 | mantissa,
        st.integers(0, 1), st.integers(1000, 1046), st.sampled_from([0, 1, 2, (1 << 52) - 1, 1 << 51, 1 << 26]),
    ),
    st.integers(0, 2**54),
)  # fmt: skip


@given(CODES, CODES, CODES)
# Products that end just off a tie of the sum, cancel to their own error, underflow, overflow and come back.
@example(0x3FF0000000000001, 0x3FF0000000000001, 0x3CA0000000000000)
@example(0x3FF0000000000001, 0x3FF0000000000001, 0xBFF0000000000002)
@example(0x3FF0000000000001, 0x3CA0000000000000, 0x3FF0000000000000)
@example(0x0010000000000000, 0x3FE0000000000001, 0x0000000000000001)
@example(0x0000000000000001, 0x3FE0000000000000, 0x0000000000000001)
@example(0x0000000000000001, 0x0000000000000001, 0x8000000000000001)
@example(0x7FE0000000000000, 0x4000000000000000, 0xFFEFFFFFFFFFFFFF)
@example(0x7FEFFFFFFFFFFFFF, 0x3FF0000000000001, 0xFC90000000000000)
@example(0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x7FF0000000000000)
def test_float64_rounds_once(a, b, c):
    x, y, z = f64(a), f64(b), f64(c)
    with np.errstate(all="ignore"):
        got = float(fma_f64(np.array([x]), np.array([y]), np.array([z]))[0])
    if not all(map(np.isfinite, (x, y))):
        with np.errstate(all="ignore"):
            want = float(np.float64(x) * np.float64(y) + np.float64(z))
        assert got == want or (np.isnan(got) and np.isnan(want))
        return
    if not np.isfinite(z):
        assert got == z or (np.isnan(got) and np.isnan(z))
        return
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    want = nearest(exact, 53, -1074, Fraction(np.finfo(np.float64).max))
    assert got == want, (x.hex(), y.hex(), z.hex(), got.hex(), want.hex())
    if exact != 0:
        assert np.signbit(got) == (exact < 0)


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.integers(0, 0xFFFF))
@example(0x3C01, 0x3C01, 0x1001)
@example(0x0001, 0x0001, 0x7BFF)
@example(0x0001, 0x3800, 0x0001)
@example(0x7BFF, 0x3C01, 0xD000)
@example(0x8001, 0x0001, 0x3C00)
def test_float16_rounds_once(a, b, c):
    x, y, z = (np.array([bits], np.uint16).view(np.float16) for bits in (a, b, c))
    if not (np.isfinite(x) & np.isfinite(y) & np.isfinite(z)).all():
        return
    with np.errstate(all="ignore"):
        got = float(fma_f16(x, y, z)[0])
    exact = Fraction(float(x[0])) * Fraction(float(y[0])) + Fraction(float(z[0]))
    assert got == nearest(exact, 11, -24, Fraction(65504))


@pytest.mark.parametrize(("sign", "want"), [(1.0, 0.0), (-1.0, -0.0)])
def test_zeros_have_ieees_sign(sign, want):
    got = fma_f64(np.array([0.0]), np.array([sign]), np.array([sign * 0.0]))[0]
    assert np.signbit(got) == np.signbit(want)
    assert not np.signbit(fma_f64(np.array([1.0]), np.array([1.0]), np.array([-1.0]))[0])
