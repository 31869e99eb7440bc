"""The two formats, exhaustively, against arithmetic written out once more and against other people's libraries."""

import importlib
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch

from mxassay.properties.checks import assert_same_bits, violation
from mxassay.properties.claims import claim
from mxassay.reference import DIALECTS, decode, decode_scales, dequantize, encode, pack, quantize, unpack

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


def witness_ml_dtypes(values: torch.Tensor) -> torch.Tensor:
    """Codes of float32 values by ml_dtypes."""
    ml_dtypes = importlib.import_module("ml_dtypes")
    return torch.from_numpy(values.numpy().astype(ml_dtypes.float4_e2m1fn).view(np.uint8).copy())


def witness_gfloat(values: torch.Tensor) -> torch.Tensor:
    """Codes of float32 values by gfloat."""
    gfloat, formats = importlib.import_module("gfloat"), importlib.import_module("gfloat.formats")
    form = formats.format_info_ocp_e2m1
    rounded = [gfloat.round_float(form, float(value), sat=True) for value in values]
    return torch.tensor([gfloat.encode_float(form, value) for value in rounded], dtype=torch.uint8)


WITNESSES: dict[str, tuple[str, Callable[[torch.Tensor], torch.Tensor], int]] = {
    "ml_dtypes": ("ml_dtypes", witness_ml_dtypes, 1),
    "gfloat": ("gfloat", witness_gfloat, 61),
}
"""Name: module, codes of float32 values at scale 1, and every how manieth value."""


@claim("second-witness")
@pytest.mark.parametrize("name", WITNESSES)
def test_element_codes_of_other_libraries(name: str) -> None:
    module, witness, step = WITNESSES[name]
    pytest.importorskip(module)
    finite = EVERY_BFLOAT16[EVERY_BFLOAT16.isfinite()][::step].float()
    finite = finite[finite.abs() <= 7]  # beyond, libraries differ in how they saturate
    assert_same_bits(encode(finite), witness(finite), ("value",), case=name)


@claim("second-witness")
@pytest.mark.parametrize("name", ["even-torchao", "floor-torchao", "ceil-torchao", "rceil-torchao"])
def test_torchao_quantizes_alike(name: str) -> None:
    pytest.importorskip("torchao")
    mx = importlib.import_module("torchao.prototype.mx_formats.mx_tensor")
    config = importlib.import_module("torchao.prototype.mx_formats.config")
    mode = config.ScaleCalculationMode[name.split("-")[0].upper()]
    generator = torch.Generator().manual_seed(0)
    magnitudes = torch.arange(0x0080, 0x7F80, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    blocks = torch.rand(len(magnitudes), 32, generator=generator).sub(0.5).mul(2)
    x = blocks.mul(magnitudes.float().unsqueeze(1)).to(torch.bfloat16)
    x[:, 0] = magnitudes
    scales, packed = mx.to_mx(x, torch.float4_e2m1fn_x2, 32, scaling_mode=mode)
    found = quantize(x, DIALECTS[name])
    assert_same_bits(found.scales, scales.view(torch.uint8).reshape(found.scales.shape), ("block", "group"), case=name)
    assert_same_bits(found.packed, packed.view(torch.uint8).reshape(found.packed.shape), ("block", "byte"), case=name)


@claim("second-witness")
def test_quark_gives_the_values_of_even() -> None:
    """amd-quark simulates: it gives values, no codes."""
    pytest.importorskip("quark", reason="amd-quark is not installed")
    quark = importlib.import_module("quark.torch.kernel.hw_emulation.hw_emulation_interface")
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    found = quark.fake_quantize_mx(x, -1, 32, mx_element_dtype="fp4")
    assert_same_bits(found, dequantize(*quantize(x, DIALECTS["even"])), ("row", "k"), case="amd-quark")
