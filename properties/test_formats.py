"""The two formats, exhaustively, against arithmetic written out once more and against other people's libraries."""

from fractions import Fraction

import pytest
import torch

from mxassay.properties.checks import assert_same_bits, violation
from mxassay.properties.claims import claim
from mxassay.properties.witnesses import WITNESSES, quietly
from mxassay.reference import decode, decode_scales, encode, pack, quantize, unpack

EVERY_BFLOAT16 = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)


def value_of(code: int) -> Fraction:
    """An E2M1 code by its bits: sign, two bits of exponent with bias 1, one of mantissa."""
    sign, exponent, mantissa = code >> 3, code >> 1 & 3, code & 1
    magnitude = Fraction(mantissa, 2) if exponent == 0 else (1 + Fraction(mantissa, 2)) * 2 ** (exponent - 1)
    return -magnitude if sign else magnitude


@claim("element-values")
def test_sixteen_codes() -> None:
    codes = torch.arange(16, dtype=torch.uint8)
    expected = torch.tensor([float(value_of(code)) for code in range(16)])
    expected[8] = -0.0
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        assert_same_bits(decode(codes, dtype).float(), expected, ("code",), case=str(dtype))
    assert_same_bits(encode(expected), codes, ("code",), case="encode(decode(code))")
    assert_same_bits(unpack(pack(codes)), codes, ("code",), case="unpack(pack(codes))")


@claim("scale-values")
def test_every_scale_byte() -> None:
    found = decode_scales(torch.arange(256, dtype=torch.uint8))
    for byte in range(255):
        if Fraction(float(found[byte])) != Fraction(2) ** (byte - 127):
            raise violation(f"scale byte {byte} must mean 2^{byte - 127}, not {float(found[byte])!r}")
    if not found[255].isnan():
        raise violation(f"scale byte 255 must be NaN, not {float(found[255])!r}")


@claim("nibble-order")
def test_the_even_element_is_low() -> None:
    row = torch.tensor([0.5, 6.0] + [0.0] * 30)
    packed, scales = quantize(row)
    if (int(packed[0]), int(scales[0])) != (0x71, 127):
        raise violation(f"[0.5, 6.0, 0, ...] must pack to 0x71 under scale 127, not {int(packed[0]):#04x}")


@claim("element-rounding")
def test_every_bfloat16_under_every_scale() -> None:
    """In float64, which holds every bfloat16 and every ratio to a power of two exactly."""
    finite = EVERY_BFLOAT16[EVERY_BFLOAT16.isfinite()]
    values = finite.double()
    magnitudes = torch.tensor([float(value_of(code)) for code in range(8)], dtype=torch.float64)
    middles = (magnitudes[1:] + magnitudes[:-1]) / 2
    sign = (finite.view(torch.int16) < 0).to(torch.uint8) * 8
    for byte in range(255):
        ratio = values.abs() * 2.0 ** (127 - byte)
        # A midpoint belongs to its even neighbour: the codes below with odd numbers give way to it.
        below, tie = torch.bucketize(ratio, middles), torch.isin(ratio, middles)
        code = torch.where(tie, below + below % 2, below).to(torch.uint8) | sign
        scales = torch.full((len(finite) // 32,), byte, dtype=torch.uint8)
        found = encode(finite, scales)
        assert_same_bits(found, code, ("finite bfloat16 number",), case=f"scale byte {byte}")


@claim("second-witness")
@pytest.mark.parametrize("name", WITNESSES)
def test_other_libraries_agree(name: str) -> None:
    """On every bfloat16 as the largest of a block; elements alone up to 7, beyond which libraries differ."""
    witness = WITNESSES[name]
    try:
        quietly(witness.module)
    except ImportError as error:
        pytest.skip(f"needs {witness.package}, which does not import here: {error}")
    blocks = (every_element() if witness.dialect is None else every_largest())[:: witness.step]
    ours, theirs = witness.ours(blocks), witness.call(blocks)
    if theirs.scales is not None and ours.scales is not None:
        assert_same_bits(theirs.scales, ours.scales, ("block",), case=f"scale bytes of {name}")
    if theirs.codes is not None and ours.codes is not None:
        assert_same_bits(theirs.codes, ours.codes, ("block", "k"), case=f"codes of {name}")
    assert_same_bits(theirs.values, ours.values, ("block", "k"), case=f"values of {name}")


def every_element() -> torch.Tensor:
    """float32 (N, 32): each bfloat16 of magnitude 7 or less, far apart in a block, so that a few blocks tell much."""
    found = EVERY_BFLOAT16[EVERY_BFLOAT16.abs() <= 7].float()
    return found[: len(found) // 32 * 32].view(32, -1).T.contiguous()


def every_largest() -> torch.Tensor:
    """float32 (N, 32): each normal bfloat16 as the largest of a block, among smaller ones of both signs."""
    generator = torch.Generator().manual_seed(0)
    magnitudes = torch.arange(0x0080, 0x7F80, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    blocks = torch.rand(len(magnitudes), 32, generator=generator).sub(0.5).mul(2)
    x = blocks.mul(magnitudes.float().unsqueeze(1)).to(torch.bfloat16)
    x[:, 0] = magnitudes
    return x.float()
