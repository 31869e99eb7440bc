"""E2M1 and E8M0: golden values, every code, every bfloat16 under every scale, ties and their neighbours."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.errors import ContractError
from mxassay.reference import E2M1, E8M0, decode, decode_scales, encode, formats, pack, unpack

VALUES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
MIDPOINTS = {0.25: (0, 1), 0.75: (2, 2), 1.25: (2, 3), 1.75: (4, 4), 2.5: (4, 5), 3.5: (6, 6), 5.0: (6, 7)}
EVERY_BFLOAT16 = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)


def u8(*values):
    return torch.tensor(values, dtype=torch.uint8)


def codes_by_ml_dtypes(x: torch.Tensor, byte: int) -> torch.Tensor:
    """Codes of finite `x` under one scale byte. float64 holds x / scale exactly, float32 all of it that matters."""
    scaled = (x.double() * 2.0 ** (127 - byte)).clamp(-8, 8).numpy().astype(np.float32)
    return torch.from_numpy(scaled.astype(ml_dtypes.float4_e2m1fn).view(np.uint8))


def test_the_sixteen_codes():
    assert list(E2M1.values) == VALUES + [-v for v in VALUES]
    assert decode(torch.arange(16, dtype=torch.uint8)).tolist() == VALUES + [-v for v in VALUES]
    assert torch.signbit(decode(u8(8))).item()


def test_every_code_encodes_to_itself():
    codes = torch.arange(16, dtype=torch.uint8)
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        assert torch.equal(encode(decode(codes, dtype)), codes)


def test_every_code_encodes_to_itself_under_every_scale():
    codes = torch.arange(16, dtype=torch.uint8).repeat(253, 2)
    scales = torch.arange(253, dtype=torch.uint8).unsqueeze(1)
    x = (decode(codes, torch.float64) * decode_scales(scales)).float()
    assert torch.equal(encode(x, scales), codes)


def test_the_scale_bytes():
    values = decode_scales(torch.arange(256, dtype=torch.uint8))
    assert values[:255].tolist() == [2.0 ** (e - 127) for e in range(255)]
    assert values[255].isnan()
    assert (E8M0.bias, E8M0.nan, E8M0.block) == (127, 255, 32)


def test_the_even_element_lies_in_the_low_nibble():
    assert pack(u8(1, 7)).tolist() == [0x71]
    assert unpack(u8(0x71)).tolist() == [1, 7]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("midpoint", MIDPOINTS)
@pytest.mark.parametrize("sign", [1, -1])
def test_ties_and_their_neighbours(dtype, midpoint, sign):
    x = torch.tensor([midpoint], dtype=dtype)
    # nextafter exists for neither 16-bit type: step the bits.
    bits = x.view(torch.int16 if dtype.itemsize == 2 else torch.int32)
    below, above = (bits - 1).view(dtype), (bits + 1).view(dtype)
    even, away = MIDPOINTS[midpoint]
    lower = sum(m < midpoint for m in VALUES) - 1
    expected_sign = 8 if sign < 0 else 0
    for ties, tie in (("even", even), ("away", away)):
        found = encode(torch.cat([below, x, above]) * sign, ties=ties).tolist()
        assert found == [lower | expected_sign, tie | expected_sign, (lower + 1) | expected_sign]


def test_every_bfloat16_under_every_scale_agrees_with_ml_dtypes():
    """65,536 x 254. ml_dtypes has no code for NaN, so NaN has its own test."""
    finite = EVERY_BFLOAT16[EVERY_BFLOAT16.isfinite()]
    for byte in range(1, 255):
        scales = torch.full((len(finite) // 32,), byte, dtype=torch.uint8)
        assert torch.equal(encode(finite, scales), codes_by_ml_dtypes(finite, byte)), byte


def test_every_bfloat16_under_scale_zero_agrees_with_ml_dtypes():
    finite = EVERY_BFLOAT16[EVERY_BFLOAT16.isfinite()]
    scales = torch.zeros(len(finite) // 32, dtype=torch.uint8)
    assert torch.equal(encode(finite, scales), codes_by_ml_dtypes(finite, 0))


@pytest.mark.parametrize("byte", [0, 1, 2, 103, 112, 125, 127, 129, 143, 254])
def test_every_float16_agrees_with_ml_dtypes(byte):
    x = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.float16)
    x = x[x.isfinite()]
    assert torch.equal(encode(x, torch.full((len(x) // 32,), byte, dtype=torch.uint8)), codes_by_ml_dtypes(x, byte))


@given(bits=st.integers(0, 0x7F7FFFFF), byte=st.integers(0, 254), negative=st.booleans())
@example(bits=0x3E800001, byte=127, negative=False)  # 0.25 + 1 ulp
@example(bits=0x3F000003, byte=128, negative=True)  # sticky bits below bfloat16
@example(bits=0x00000001, byte=0, negative=False)
@example(bits=0x00100000, byte=0, negative=True)  # 2^-129 is a quarter under byte 0: a tie
@example(bits=0x00100001, byte=0, negative=False)
@example(bits=0x7F7FFFFF, byte=254, negative=False)
def test_float32_rounds_to_the_nearest_code(bits, byte, negative):
    x = torch.tensor([bits - (1 << 31 if negative else 0)] * 32, dtype=torch.int32).view(torch.float32)
    ratio = abs(Fraction(x[0].item())) / Fraction(2) ** (byte - 127)
    nearest = min(range(8), key=lambda code: (abs(ratio - Fraction(VALUES[code])), code % 2))
    assert encode(x, u8(byte)).tolist() == [nearest | 8 * negative] * 32


def test_infinity_saturates_and_nan_takes_its_sign_under_every_scale():
    specials = EVERY_BFLOAT16[~EVERY_BFLOAT16.isfinite()]
    specials = specials[: len(specials) // 32 * 32]
    expected = torch.where(torch.signbit(specials), 15, 7).to(torch.uint8)
    for byte in range(255):
        scales = torch.full((len(specials) // 32,), byte, dtype=torch.uint8)
        assert torch.equal(encode(specials, scales), expected)


def test_under_a_nan_scale_codes_are_zeros_of_the_sign_but_for_nan():
    x = torch.tensor([1.0, -1.0, float("inf"), -float("inf"), float("nan"), -0.0] + [0.0] * 26)
    assert encode(x, u8(255))[:6].tolist() == [0, 8, 0, 8, 7, 8]


@pytest.mark.parametrize(
    ("dtype", "integers", "least"), [("bfloat16", "int16", 0x7F81), ("float32", "int32", 0x7F800001)]
)
def test_the_least_nan_is_one_under_every_scale(dtype, integers, least):
    x = torch.tensor([least] * 32, dtype=getattr(torch, integers)).view(getattr(torch, dtype))
    for byte in range(256):
        assert encode(x, u8(byte)).tolist() == [7] * 32, byte


def test_torchs_own_types_pass_as_bytes():
    codes, scales = u8(0x71, 0x9F), u8(127, 128)
    assert torch.equal(unpack(codes.view(torch.float4_e2m1fn_x2)), unpack(codes))
    assert torch.equal(decode_scales(scales.view(torch.float8_e8m0fnu)), decode_scales(scales))


def test_encoding_does_not_depend_on_flush_to_zero():
    x = EVERY_BFLOAT16[:128].repeat(2)
    scales = u8(*[0, 0, 0, 0, 1, 1, 1, 1])
    expected = encode(x, scales)
    assert expected.count_nonzero() > 0
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU has no flush-to-zero mode")
    try:
        assert torch.equal(encode(x, scales), expected)
        assert torch.equal(encode(x.float(), scales), expected)
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: encode(torch.zeros(32, dtype=torch.float64)),
            "x must be bfloat16, float16 or float32, not float64; convert it first",
        ),
        (
            lambda: encode(torch.tensor(1.0)),
            "x must have at least one dimension, not a scalar; reshape it to (1,)",
        ),
        (
            lambda: encode(torch.zeros(33), u8(1)),
            "x's last dimension must be a multiple of 32, not K = 33 in (33,); pad K with zeros",
        ),
        (lambda: encode(torch.zeros(64), u8(1)), "scales must have shape (2,), not (1,)"),
        (lambda: encode(torch.zeros(32), torch.ones(1)), "scales must be uint8, not float32; pass raw bytes"),
        (lambda: encode(torch.zeros(32), ties="odd"), 'ties must be "even" or "away", not \'odd\''),
        (lambda: decode(torch.zeros(3)), "codes must be uint8, not float32; pass raw bytes"),
        (lambda: unpack(torch.zeros(3)), "packed must be uint8, not float32; pass raw bytes"),
        (lambda: decode_scales(torch.zeros(3)), "scales must be uint8, not float32; pass raw bytes"),
        (
            lambda: formats.decode_packed(torch.zeros(3), torch.float32),
            "packed must be uint8, not float32; pass raw bytes",
        ),
        (
            lambda: formats.check_blocks("x", torch.Size()),
            "x's last dimension must be a multiple of 32, not a scalar; pad K with zeros",
        ),
    ],
)
def test_contracts(call, message):
    with pytest.raises(ContractError) as caught:
        call()
    assert str(caught.value) == message
