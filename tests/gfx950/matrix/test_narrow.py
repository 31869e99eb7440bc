"""Formats of at most 8 bits: every code, every bfloat16, ties and ends, against ml_dtypes and rational arithmetic."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.gfx950.narrow import BF6, BF8, FP4, FP6, FP8, decoded, encoded, encoded_stochastically

PEERS = {
    FP8: ml_dtypes.float8_e4m3fn, BF8: ml_dtypes.float8_e5m2, FP6: ml_dtypes.float6_e2m3fn,
    BF6: ml_dtypes.float6_e3m2fn, FP4: ml_dtypes.float4_e2m1fn,
}  # fmt: skip
FORMS = list(PEERS)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_every_code_has_its_value(form):
    want = np.arange(1 << form.bits, dtype=np.uint8).view(PEERS[form]).astype(np.float32)
    got = decoded(form)
    assert (np.isnan(got) == np.isnan(want)).all()
    assert (got.view(np.uint32) == want.view(np.uint32))[~np.isnan(want)].all()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_every_upper_half_of_a_float32_with_and_without_a_tail_rounds_like_its_peer(form):
    high = np.arange(1 << 16, dtype=np.uint32) << 16
    x = np.concatenate([high, high | 1, high | 0x8000, high | 0xFFFF]).view(np.float32)
    x = x[np.isfinite(x)]
    want = x.astype(PEERS[form]).view(np.uint8)
    assert (encoded(form, x, saturate=form.bits < 8) == want).all()


@pytest.mark.parametrize(("form", "largest", "code"), [(FP8, 448.0, 0x7E), (BF8, 57344.0, 0x7B)])
def test_eight_bit_formats_overflow_or_saturate(form, largest, code):
    x = np.array([largest, largest * 1.01, largest * 1.2, 1e30, np.inf, -np.inf, np.nan], np.float32)
    infinite = {0x7E: 0x7F, 0x7B: 0x7C}[code]
    nan = {0x7E: 0x7F, 0x7B: 0x7E}[code]
    assert encoded(form, x, saturate=False).tolist() == [code, code, *[infinite] * 3, infinite | 0x80, nan]
    end = 0x7F if form is FP8 else code
    assert encoded(form, x, saturate=True).tolist() == [code, code, code, code, end, end | 0x80, nan]


@pytest.mark.parametrize("form", [FP6, BF6, FP4], ids=lambda form: form.name)
def test_formats_without_nan_give_their_largest_value(form):
    x = np.array([1e9, -1e9, np.inf, -np.inf, np.nan], np.float32)
    top, sign = form.top_code, 1 << form.bits - 1
    assert encoded(form, x, saturate=True).tolist() == [top, top | sign, top, top | sign, top]


def stochastic(form, x: Fraction, random: int, kept: int) -> int:
    """Add the random number's top bits below the last kept bit, cut toward zero."""
    size = abs(x)
    exponent = -40
    while Fraction(2) ** (exponent + 1) <= size:
        exponent += 1
    exponent = max(exponent, 1 - form.bias)
    fine = kept - form.mantissa
    units = int(size / Fraction(2) ** (exponent - kept))
    whole = units + (random >> 32 - fine) >> fine
    code = (exponent - (1 - form.bias) << form.mantissa) + whole
    return min(code, form.top_code) | (1 << form.bits - 1 if x < 0 else 0)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("kept", [23, 10, 7])
@given(st.integers(-4095, 4095), st.integers(-22, 20), st.integers(0, (1 << 32) - 1))
@example(5, -2, 0xFFFFFFFF)
@example(5, -2, 0)
@example(4095, 0, 1 << 31)
@example(1, -9, 0xFFFFFFFF)
@example(3, -20, 0x80000000)
def test_stochastic_rounding_adds_then_cuts(form, kept, whole, exponent, random):
    x = float(np.ldexp(whole, exponent))
    got = encoded_stochastically(form, np.array([x]), np.array([random], np.uint32), kept, saturate=True)
    want = stochastic(form, Fraction(x), random, kept) if x else 0
    assert int(got[0]) == want


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_stochastic_rounding_of_a_value_in_the_format_never_moves_it(form):
    code = np.arange(form.top_code + 1, dtype=np.uint8)
    x = decoded(form)[code].astype(np.float64)
    for random in (0, 0xFFFFFFFF):
        got = encoded_stochastically(form, x, np.full(len(x), random, np.uint32), 23, saturate=True)
        assert (got == code).all()


def test_stochastic_rounding_goes_up_as_often_as_the_distance_says():
    random = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16).astype(np.uint32)
    got = encoded_stochastically(FP4, np.full(1 << 16, 1.125), random, 23, saturate=True)
    up = int((got == 3).sum())  # 1.125 lies a quarter of the way from 1.0 to 1.5
    assert abs(up - (1 << 14)) < 5 * (0.25 * 0.75 * (1 << 16)) ** 0.5
    assert set(got.tolist()) == {2, 3}
