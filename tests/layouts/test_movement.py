"""`apply` and `invert` against addresses written by hand: values, dtypes, strides, padding, freshness."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mxassay.layouts import (
    LAYOUTS,
    MFMA_16X16X128_A,
    MFMA_32X32X64_D,
    PACKING,
    SCALE_SHUFFLE,
    WEIGHT_PRESHUFFLE,
)

ONE_BYTE = [torch.uint8, torch.int8, torch.float8_e4m3fn, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2]
HIGH = {4: 16, 8: 256, 32: 2**31}


def elements(layout, shape, seed=0):
    """Random raw elements of the layout's width."""
    generator = torch.Generator().manual_seed(seed)
    dtype = torch.int32 if layout.element_bits == 32 else torch.uint8
    return torch.randint(0, HIGH[layout.element_bits], shape, dtype=dtype, generator=generator)


def stored_elements(layout, stored):
    """The flat elements of a stored tensor, one for each offset."""
    flat = stored.numpy().ravel()
    return np.stack((flat % 16, flat // 16), axis=-1).ravel() if layout.element_bits == 4 else flat


def expected_storage(case, tensor, fill):
    flat = np.full(np.prod(case.padded_shape), fill, dtype=np.int64)
    inside = case.offsets()[tuple(slice(extent) for extent in case.shape)]
    flat[inside.ravel()] = tensor.numpy().ravel()
    return flat


@pytest.mark.parametrize("fill", [0, 1, 15])
def test_apply_puts_each_element_at_its_hand_computed_offset(case, fill):
    bound = case.bound
    tensor = elements(bound.layout, case.shape)
    stored = bound.apply(tensor, fill)
    assert stored.shape == bound.stored_shape
    assert stored.is_contiguous()
    assert stored.dtype == tensor.dtype
    np.testing.assert_array_equal(stored_elements(bound.layout, stored), expected_storage(case, tensor, fill))


def test_invert_reads_each_element_from_its_hand_computed_offset(case):
    bound = case.bound
    kind = torch.int32 if bound.layout.element_bits == 32 else torch.uint8
    high = 2**31 if kind == torch.int32 else 256
    stored = torch.randint(0, high, bound.stored_shape, dtype=kind, generator=torch.Generator().manual_seed(1))
    tensor = bound.invert(stored)
    assert tensor.shape == case.shape
    assert tensor.is_contiguous()
    inside = case.offsets()[tuple(slice(extent) for extent in case.shape)]
    np.testing.assert_array_equal(tensor.numpy(), stored_elements(bound.layout, stored)[inside])


@pytest.mark.parametrize("fill", [0x00, 0x7F, 0xFF])
def test_scale_padding_holds_the_fill_and_nothing_else(fill):
    scales = torch.full((33, 9), 0x55, dtype=torch.uint8)
    stored = SCALE_SHUFFLE.apply(scales, fill=fill)
    bound = SCALE_SHUFFLE.bind((33, 9))
    flat = stored.flatten()
    for offset in range(bound.size):
        expected = fill if bound.is_padding(bound.coords(offset)) else 0x55
        assert flat[offset] == expected


def test_padding_is_never_read_back():
    scales = elements(SCALE_SHUFFLE, (33, 9))
    for fill in (0x00, 0x7F, 0xFF):
        assert torch.equal(SCALE_SHUFFLE.invert(SCALE_SHUFFLE.apply(scales, fill=fill), (33, 9)), scales)


def test_invert_without_a_shape_keeps_the_padding():
    scales = elements(SCALE_SHUFFLE, (3, 5))
    padded = SCALE_SHUFFLE.invert(SCALE_SHUFFLE.apply(scales, fill=9))
    assert padded.shape == (256, 8)
    assert torch.equal(padded[:3, :5], scales)
    assert (padded[3:] == 9).all()
    assert (padded[:, 5:] == 9).all()


def test_even_k_goes_to_the_low_nibble():
    assert PACKING.apply(torch.tensor([1, 7], dtype=torch.uint8)).tolist() == [0x71]
    assert PACKING.invert(torch.tensor([0x71, 0xAF], dtype=torch.uint8)).tolist() == [1, 7, 15, 10]


def test_all_byte_values_unpack():
    codes = PACKING.invert(torch.arange(256, dtype=torch.uint8))
    assert codes.tolist() == [nibble for byte in range(256) for nibble in (byte & 15, byte >> 4)]
    assert PACKING.apply(codes).tolist() == list(range(256))


def test_operand_registers_are_little_endian_words():
    codes = elements(MFMA_16X16X128_A, (16, 128))
    words = MFMA_16X16X128_A.apply(codes).view(torch.int32).squeeze(-1)
    word = sum(int(codes[5, 64 + 8 + nibble]) << 4 * nibble for nibble in range(8))
    assert words.shape == (64, 4)
    assert int(words[5 + 16 * 2, 1]) & 0xFFFFFFFF == word


@pytest.mark.parametrize("dtype", ONE_BYTE, ids=str)
@pytest.mark.parametrize("layout", [WEIGHT_PRESHUFFLE, SCALE_SHUFFLE], ids=lambda layout: layout.name)
def test_every_one_byte_dtype_moves_bit_for_bit(layout, dtype):
    raw = torch.arange(32 * 64, dtype=torch.int64).to(torch.uint8).reshape(32, 64)
    stored = layout.apply(raw.view(dtype), fill=0xFF)
    assert stored.dtype == dtype
    assert torch.equal(stored.view(torch.uint8), layout.apply(raw, fill=0xFF))
    back = layout.invert(stored, (32, 64))
    assert back.dtype == dtype
    assert torch.equal(back.view(torch.uint8), raw)


def test_packed_float4_unpacks_to_uint8_codes():
    packed = torch.tensor([[0x21, 0x43]], dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    codes = PACKING.invert(packed)
    assert codes.dtype == torch.uint8
    assert codes.tolist() == [[1, 2, 3, 4]]


def test_float32_results_keep_every_bit():
    bits = elements(MFMA_32X32X64_D, (32, 32))
    bits[0, :4] = torch.tensor([0x7F800001, -1, -(2**31), 0x7FC12345], dtype=torch.int32)
    stored = MFMA_32X32X64_D.apply(bits.view(torch.float32))
    assert stored.dtype == torch.float32
    assert torch.equal(stored.view(torch.int32), MFMA_32X32X64_D.apply(bits))
    assert torch.equal(MFMA_32X32X64_D.invert(stored).view(torch.int32), bits)


def test_a_lazily_negated_view_is_resolved():
    real = torch.arange(1024, dtype=torch.float32).reshape(32, 32)
    imaginary = torch.complex(real, real).conj().imag
    assert imaginary.is_neg()
    assert torch.equal(MFMA_32X32X64_D.apply(imaginary), MFMA_32X32X64_D.apply(-real))


def test_gradients_are_left_behind():
    result = torch.ones(32, 32, requires_grad=True)
    assert not MFMA_32X32X64_D.apply(result).requires_grad


VIEWS = {
    "transposed": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    "stepped": lambda x: x.repeat_interleave(3, dim=-1)[..., ::3],
    "row stepped": lambda x: x.repeat_interleave(2, dim=0)[::2],
    "offset slice": lambda x: torch.nn.functional.pad(x, (3, 5), value=13)[..., 3:-5],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_strides_do_not_matter(case, view):
    bound = case.bound
    tensor = elements(bound.layout, case.shape)
    seen = view(tensor)
    assert torch.equal(seen, tensor)
    assert len(case.shape) == 1 or case.shape == (1, 1) or not seen.is_contiguous()
    stored = bound.apply(tensor, 7)
    assert torch.equal(bound.apply(seen, 7), stored)
    assert torch.equal(bound.invert(view(stored)), tensor)


def test_broadcast_inputs(case):
    bound = case.bound
    one = elements(bound.layout, (1,) * len(case.shape))
    assert torch.equal(bound.apply(one.expand(case.shape), 3), bound.apply(one.expand(case.shape).contiguous(), 3))


def test_results_are_fresh_and_inputs_untouched(case):
    bound = case.bound
    tensor = elements(bound.layout, case.shape)
    before = tensor.clone()
    stored = bound.apply(tensor)
    kept = stored.clone()
    tensor.zero_()
    assert torch.equal(stored, kept)
    back = bound.invert(stored)
    stored.zero_()
    assert torch.equal(back, before)


def test_a_shuffle_that_happens_to_be_the_identity_is_still_fresh():
    tensor = torch.arange(16, dtype=torch.uint8)
    assert PACKING.apply(tensor).data_ptr() != tensor.data_ptr()
    scale = torch.zeros(16, 4, dtype=torch.uint8)
    stored = LAYOUTS["MFMA_16X16X128_SCALE"].apply(scale)
    assert stored.data_ptr() != scale.data_ptr()


def test_no_uninitialised_byte_survives():
    """Fill freed memory with a known byte first, so that a stale byte would show."""
    for _ in range(20):
        torch.full((512, 16), 0xA5, dtype=torch.uint8)
        stored = SCALE_SHUFFLE.apply(torch.zeros(257, 9, dtype=torch.uint8))
        assert not stored.any()


@pytest.mark.parametrize(
    ("layout", "shape"), [(WEIGHT_PRESHUFFLE, (0, 64)), (SCALE_SHUFFLE, (0, 3)), (PACKING, (0, 4))]
)
def test_empty_tensors_pass(layout, shape):
    stored = layout.apply(torch.empty(shape, dtype=torch.uint8))
    assert stored.shape == layout.bind(shape).stored_shape
    assert layout.invert(stored, shape).shape == shape


@given(n1=st.integers(1, 6), k2=st.integers(1, 6), experts=st.integers(0, 3), seed=st.integers(0, 2**31))
def test_weight_apply_follows_offset(n1, k2, experts, seed):
    shape = ((experts,) if experts else ()) + (16 * n1, 32 * k2)
    bound = WEIGHT_PRESHUFFLE.bind(shape)
    tensor = elements(WEIGHT_PRESHUFFLE, shape, seed)
    stored = bound.apply(tensor)
    assert torch.equal(stored.flatten()[bound.offsets()], tensor)
    assert torch.equal(bound.invert(stored), tensor)


@given(R=st.integers(1, 300), G=st.integers(1, 40), fill=st.integers(0, 255), seed=st.integers(0, 2**31))
def test_scale_apply_follows_offset(R, G, fill, seed):
    bound = SCALE_SHUFFLE.bind((R, G))
    tensor = elements(SCALE_SHUFFLE, (R, G), seed)
    read = bound.apply(tensor, fill).flatten()[bound.offsets()]
    assert torch.equal(read[:R, :G], tensor)
    assert (read[R:] == fill).all()
    assert (read[:, G:] == fill).all()
    assert torch.equal(bound.invert(bound.apply(tensor, fill)), tensor)


@given(shape=st.lists(st.integers(1, 5), max_size=3), bytes_=st.integers(1, 40), seed=st.integers(0, 2**31))
def test_packing_follows_its_arithmetic(shape, bytes_, seed):
    codes = elements(PACKING, (*shape, 2 * bytes_), seed)
    packed = PACKING.apply(codes)
    assert torch.equal(packed, codes[..., 0::2] + 16 * codes[..., 1::2])
    assert torch.equal(PACKING.invert(packed), codes)


@pytest.mark.parametrize("place", [None, "offset"])
def test_offsets_are_on_the_cpu_whatever_device_is_the_default(place):
    want = SCALE_SHUFFLE.bind((3, 9)).offsets(place)
    with torch.device("meta"):
        found = SCALE_SHUFFLE.bind((3, 9)).offsets(place)
    assert torch.equal(found, want)
