"""Arithmetic beyond numpy's: one rounding, narrow formats, NaNs."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.gfx950.floating import (
    bf16_to_f32,
    canonical,
    f32_to_bf16,
    flush,
    fma_f32,
    ignore_float_errors,
    quiet,
    sum_to_f32,
)  # fmt: skip

BITS = st.integers(0, 2**32 - 1)


def f32(bits: int) -> np.ndarray:
    return np.array([bits], np.uint32).view(np.float32)


def nearest(exact: Fraction) -> np.float32:
    """Round by search: the float32 closest to `exact`, the even one of two."""
    if exact == 0:
        return np.float32(0)
    with np.errstate(over="ignore"):
        guess = (
            np.float32(float(exact)) if abs(exact) < Fraction(2) ** 200 else np.float32(math.copysign(np.inf, exact))
        )
    if np.isinf(guess):
        guess = np.float32(math.copysign(np.finfo(np.float32).max, exact))
    with np.errstate(over="ignore"):
        candidates = {guess, np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf))}

    def key(value: np.float32) -> tuple[Fraction, int]:
        # Infinity stands where the next binade would begin.
        size = Fraction(2) ** 128 * (1 if value > 0 else -1) if np.isinf(value) else Fraction(float(value))
        return abs(size - exact), int(value.view(np.uint32)) & 1

    return min(candidates, key=key)


@given(BITS, BITS, BITS)
# 1 + 2^-12 squared is 1 + 2^-11 + 2^-24: with a tiny c it lies just off a tie that float64 can't see.
@example(0x3F800800, 0x3F800800, 0x1)
@example(0x3F800800, 0x3F800800, 0x80000001)
@example(0x7F7FFFFF, 0x40000000, 0xFF7FFFFF)
@example(0x00000001, 0x3F000000, 0x00000001)
@example(0x00800000, 0x3F000000, 0x80000001)
def test_fma_rounds_once(a, b, c):
    x, y, z = f32(a), f32(b), f32(c)
    if not (np.isfinite(x) & np.isfinite(y) & np.isfinite(z)).all():
        return
    with ignore_float_errors():
        got = fma_f32(x, y, z)[0]
    exact = Fraction(float(x[0])) * Fraction(float(y[0])) + Fraction(float(z[0]))
    if exact != 0:
        assert got.view(np.uint32) == nearest(exact).view(np.uint32)
    else:
        assert got == 0


@pytest.mark.parametrize(
    ("a", "b", "c", "want"),
    [
        (np.inf, 0.0, 1.0, np.nan), (np.inf, 1.0, -np.inf, np.nan), (np.inf, 2.0, 1.0, np.inf),
        (1.0, 1.0, np.nan, np.nan), (-1.0, 1.0, 1.0, 0.0), (0.0, -1.0, -0.0, -0.0),
    ],
)  # fmt: skip
def test_fma_of_special_values(a, b, c, want):
    with ignore_float_errors():
        got = fma_f32(np.array([a], np.float32), np.array([b], np.float32), np.array([c], np.float32))[0]
    assert np.isnan(got) if np.isnan(want) else (got == want and np.signbit(got) == np.signbit(want))


@given(
    st.floats(allow_nan=False, allow_infinity=False, width=64),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
)
@example(1.0 + 2.0**-24, 2.0**-80)
@example(1.0 + 2.0**-24, -(2.0**-80))
@example(2.0**-149 * 1.5, 2.0**-149 * 2.0**-40)
def test_a_sum_rounds_once(a, b):
    exact = Fraction(a) + Fraction(b)
    if abs(exact) > Fraction(2) ** 1000:
        return
    with ignore_float_errors():
        got = sum_to_f32(np.array([a]), np.array([b]))[0]
    assert got.view(np.uint32) == nearest(exact).view(np.uint32) if exact else got == 0


def test_every_bfloat16_survives_and_every_tie_goes_to_even():
    every = np.arange(1 << 16, dtype=np.uint16)
    wide = bf16_to_f32(every)
    quiet = np.where(np.isnan(wide), every | 0x40, every)
    assert (f32_to_bf16(wide) == quiet).all()
    finite = every[np.isfinite(wide)]
    ties = (finite.astype(np.uint32) << 16 | 0x8000).view(np.float32)
    want = torch.from_numpy(ties).bfloat16().view(torch.int16).numpy().view(np.uint16)
    assert (f32_to_bf16(ties) == want).all()
    assert (want % 2 == 0).all()


@given(st.lists(BITS, min_size=1, max_size=64))
@example([0x7F7FFFFF, 0x7F800000, 0x7F800001, 0xFF800001, 0x00007FFF, 0x00008001, 0x3F808000, 0x3F818000])
def test_rounding_to_bfloat16_is_torchs_for_numbers(bits):
    x = np.array(bits, np.uint32).view(np.float32)
    want = torch.from_numpy(x).bfloat16().view(torch.int16).numpy().view(np.uint16)
    got = f32_to_bf16(x)
    assert ((got == want) | np.isnan(x)).all()
    assert (np.isnan(bf16_to_f32(got)) == np.isnan(x)).all()


def test_a_default_nan_is_amds_and_a_given_nan_keeps_its_bits():
    x = np.array([np.inf, 1.0], np.float32)
    with ignore_float_errors():
        made = canonical(x - x)
        kept = canonical(np.array([0xFFC00123], np.uint32).view(np.float32) + np.float32(1))
    assert made.view(np.uint32).tolist() == [0x7FC00000, 0]
    assert kept.view(np.uint32).tolist() == [0xFFC00123]


def test_denormals_flush_to_zero_of_their_sign():
    bits = np.array([0x00000001, 0x807FFFFF, 0x00800000, 0x80000000], np.uint32)
    assert flush(bits.view(np.float32)).view(np.uint32).tolist() == [0, 0x80000000, 0x00800000, 0x80000000]


def test_signalling_nans_become_quiet():
    bits = np.array([0x7F800001, 0xFFBFFFFF, 0x7FC00000, 0x7F800000, 0x3F800000], np.uint32)
    assert quiet(bits.view(np.float32)).view(np.uint32).tolist() == [
        0x7FC00001, 0xFFFFFFFF, 0x7FC00000, 0x7F800000, 0x3F800000,
    ]  # fmt: skip
