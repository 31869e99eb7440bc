"""quantize and dequantize: shapes, strides, forced scales, chunks, exactness."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mxassay.errors import ContractError
from mxassay.reference import EVEN, FLOOR, decode, dequantize, encode, pack, quantize, quantizer, unpack


def u8(*values):
    return torch.tensor(values, dtype=torch.uint8)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("shape", [(32,), (1, 64), (3, 2, 96), (0, 32), (5, 0, 64), (2, 0)])
def test_any_leading_shape(dtype, shape):
    q = quantize(torch.randn(shape).to(dtype))
    assert q.packed.shape == (*shape[:-1], shape[-1] // 2)
    assert q.scales.shape == (*shape[:-1], shape[-1] // 32)
    assert q.packed.dtype == q.scales.dtype == torch.uint8
    assert dequantize(*q).shape == shape


def test_golden_block():
    """Worked by hand: amax 7 is 1.75 * 2^2, which EVEN rounds to 2^3; the scale is 2^(3-2) = 2."""
    x = torch.zeros(32)
    x[:8] = torch.tensor([7.0, -3.5, 0.5, 1.5, 2.5, -0.0, 0.51, 5.0])
    q = quantize(x)
    assert q.scales.tolist() == [128]
    # 3.5 -> 4, -1.75 -> -2, 0.25 -> 0, 0.75 -> 1, 1.25 -> 1, -0, 0.255 -> 0.5, 2.5 -> 2
    assert unpack(q.packed)[:8].tolist() == [6, 12, 0, 2, 2, 8, 1, 4]
    assert q.packed[:4].tolist() == [0xC6, 0x20, 0x82, 0x41]


def test_each_block_has_its_own_scale():
    x = torch.ones(2, 3, 32) * torch.exp2(torch.arange(6.0)).view(2, 3, 1)
    assert quantize(x.flatten(1)).scales.tolist() == [[125, 126, 127], [128, 129, 130]]


def test_strided_input_is_read_by_value():
    big = torch.randn(32, 256)
    for view in (big[:, :64], big[:, ::2], big.t(), big[::3, 32:96], big.flip(0)):
        contiguous = quantize(view.contiguous())
        assert all(torch.equal(*pair) for pair in zip(quantize(view), contiguous, strict=True))


def test_chunks_do_not_show():
    """More than one chunk, and a ragged last one."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(66000, 64, generator=generator).to(torch.bfloat16) * torch.exp2(
        torch.randint(-20, 20, (66000, 1), generator=generator)
    )
    whole = quantize(x)
    for rows in (slice(0, 5), slice(32765, 32775), slice(65530, 65540), slice(65990, 66000)):
        part = quantize(x[rows])
        assert torch.equal(whole.packed[rows], part.packed)
        assert torch.equal(whole.scales[rows], part.scales)


def test_the_chunk_is_that_of_the_device(monkeypatch):
    """A chunk of nothing would be refused."""
    monkeypatch.setattr(quantizer, "_CHUNK_DEVICE", 0)
    assert quantize(torch.ones(2, 32)).scales.tolist() == [[125], [125]]
    monkeypatch.setattr(quantizer, "_CHUNK_DEVICE", 1 << 10)
    monkeypatch.setattr(quantizer, "_CHUNK_CPU", 0)
    found = quantize(torch.empty(0, 32, device="meta"))
    assert {tensor.device.type for tensor in found} == {"meta"}
    monkeypatch.undo()
    assert [tensor.shape for tensor in quantize(torch.empty(0, 32, device="meta"))] == [(0, 16), (0, 1)]


def test_a_chunk_holds_as_many_elements_as_it_says(monkeypatch):
    monkeypatch.setattr(quantizer, "_CHUNK_CPU", 128)
    blocks = []
    true = quantizer.float_bits
    monkeypatch.setattr(quantizer, "float_bits", lambda chunk: (blocks.append(len(chunk)), true(chunk))[1])
    x = torch.randn(11, 32)
    assert torch.equal(quantize(x).packed, torch.cat([quantize(row).packed for row in x.split(1)]))
    assert blocks[:3] == [4, 4, 3]


def test_bfloat16_and_its_widening_agree():
    x = torch.randn(64, 256).to(torch.bfloat16)
    assert all(torch.equal(*pair) for pair in zip(quantize(x), quantize(x.float()), strict=True))


def test_float32_amax_is_not_rounded_to_bfloat16():
    """2 - 2^-10 becomes 2 as bfloat16 and would cross the binade."""
    x = torch.zeros(32)
    x[0] = 2 - 2**-10
    assert quantize(x, FLOOR).scales.tolist() == [125]


def test_forced_scales_saturate():
    x = torch.tensor([6.0, 7.0, -1000.0, 5.0] + [0.0] * 28)
    q = quantize(x, scales=u8(127))
    assert unpack(q.packed)[:4].tolist() == [7, 7, 15, 6]
    assert q.scales.tolist() == [127]


def test_forced_scales_are_not_written_to():
    scales = u8(120)
    quantize(torch.ones(32), scales=scales)
    assert scales.tolist() == [120]


def test_forced_scales_agree_with_encode():
    x = torch.randn(64, 64)
    scales = torch.randint(0, 256, (64, 2), dtype=torch.uint8)
    assert torch.equal(quantize(x, scales=scales).packed, pack(encode(x, scales)))


def test_subnormal_blocks_are_not_flushed():
    x = torch.zeros(32)
    x[0], x[1] = 2.0**-128, 2.0**-149
    q = quantize(x)
    assert (q.scales.tolist(), unpack(q.packed)[:2].tolist()) == ([0], [1, 0])


def test_half_away_dialect():
    from dataclasses import replace

    x = torch.tensor([4.0, 0.25, 1.25, 2.5, -0.25] + [0.0] * 27)
    assert unpack(quantize(x).packed)[:5].tolist() == [6, 0, 2, 4, 8]
    away = replace(EVEN, name="even-away", ties="away")
    assert unpack(quantize(x, away).packed)[:5].tolist() == [6, 1, 3, 5, 9]


def test_gradients_do_not_flow():
    q = quantize(torch.ones(32, requires_grad=True))
    assert not q.packed.requires_grad


def test_values_are_code_times_scale():
    codes = torch.arange(16, dtype=torch.uint8).repeat(254, 2)
    scales = torch.arange(254, dtype=torch.uint8).unsqueeze(1)
    found = dequantize(pack(codes), scales, torch.float64)
    for byte in (0, 1, 127, 253):
        expected = [Fraction(value) * Fraction(2) ** (byte - 127) for value in decode(codes[0]).tolist()]
        assert [Fraction(value) for value in found[byte].tolist()] == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_float32_and_bfloat16_are_exact_up_to_byte_252(dtype):
    codes = torch.arange(16, dtype=torch.uint8).repeat(253, 2)
    scales = torch.arange(253, dtype=torch.uint8).unsqueeze(1)
    found = dequantize(pack(codes), scales, dtype)
    assert found.dtype == dtype
    assert torch.equal(found.double(), dequantize(pack(codes), scales, torch.float64))


def test_float32_overflows_to_infinity_above_byte_252():
    assert dequantize(pack(u8(*[7] * 32)), u8(254))[0].item() == float("inf")
    assert dequantize(pack(u8(*[2] * 32)), u8(254))[0].item() == 2.0**127


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_scale_255_is_nan_even_for_zero(dtype):
    assert dequantize(torch.zeros(16, dtype=torch.uint8), u8(255), dtype).isnan().all()


@given(st.binary(min_size=32, max_size=32), st.integers(0, 252), st.integers(0, 252))
def test_quantizing_with_the_same_scales_gives_the_codes_back(packed, first, second):
    packed = torch.frombuffer(bytearray(packed), dtype=torch.uint8)
    scales = u8(first, second)
    assert torch.equal(quantize(dequantize(packed, scales), scales=scales).packed, packed)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: quantize(torch.zeros(48)),
            "x's last dimension must be a multiple of 32, not K = 48 in (48,); pad K with zeros",
        ),
        (
            lambda: quantize(torch.tensor(1.0)),
            "x must have at least one dimension, not a scalar; reshape it to (1,)",
        ),
        (
            lambda: quantize(torch.zeros(32, dtype=torch.int32)),
            "x must be bfloat16, float16 or float32, not int32; convert it first",
        ),
        (lambda: quantize(torch.zeros(64), scales=u8(1)), "scales must have shape (2,), not (1,)"),
        (
            lambda: quantize(torch.zeros(64), scales=torch.ones(2)),
            "scales must be uint8, not float32; pass raw bytes",
        ),
        (
            lambda: dequantize(u8(*[0] * 8), u8(1)),
            "packed's last dimension must be a multiple of 16, not (8,); pad K with zeros",
        ),
        (
            lambda: dequantize(torch.tensor(1, dtype=torch.uint8), u8(1)),
            "packed's last dimension must be a multiple of 16, not (); pad K with zeros",
        ),
        (lambda: dequantize(torch.zeros(16), u8(1)), "packed must be uint8, not float32; pass raw bytes"),
        (lambda: dequantize(u8(*[0] * 16), torch.ones(1)), "scales must be uint8, not float32; pass raw bytes"),
        (lambda: dequantize(u8(*[0] * 16), u8(1, 2)), "scales must have shape (1,), not (2,)"),
        (
            lambda: dequantize(u8(*[0] * 16), u8(1), torch.int32),
            "dtype must be float64, float32, bfloat16 or float16, not int32",
        ),
    ],
)
def test_contracts(call, message):
    with pytest.raises(ContractError) as caught:
        call()
    assert str(caught.value) == message
