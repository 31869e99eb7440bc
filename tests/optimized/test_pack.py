"""The scale rule and the element conversion, over every bfloat16 value and every scale byte that can occur."""

import pytest
import torch
import triton
import triton.language as tl

from mxassay.optimized.device import current_target
from mxassay.optimized.pack import block_scale, convert_pairs, encode_e2m1, quantize_tile
from mxassay.reference import cvt_scalef32_pk_fp4_bf16, quantize

ALL = torch.arange(65536, dtype=torch.int32)


@triton.jit
def encode_kernel(bits_ptr, codes_ptr, scale, SIZE: tl.constexpr):
    index = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    codes = encode_e2m1(tl.load(bits_ptr + index), scale)
    tl.store(codes_ptr + index, codes.to(tl.uint8))


@triton.jit
def convert_kernel(pairs_ptr, codes_ptr, scale, SIZE: tl.constexpr):
    index = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    pairs = tl.load(pairs_ptr + index).to(tl.uint32, bitcast=True)
    tl.store(codes_ptr + index, convert_pairs(pairs, tl.full((1,), 0, tl.int32) + scale).to(tl.uint8))


@triton.jit
def scale_kernel(peaks_ptr, scales_ptr, SIZE: tl.constexpr):
    index = tl.arange(0, SIZE)
    tl.store(scales_ptr + index, block_scale(tl.load(peaks_ptr + index)))


@triton.jit
def tile_kernel(x_ptr, packed_ptr, scales_ptr, TILE_M: tl.constexpr, TILE_K: tl.constexpr, USE_ASM: tl.constexpr):
    row, k = tl.arange(0, TILE_M)[:, None], tl.arange(0, TILE_K)[None, :]
    packed, scales = quantize_tile(tl.load(x_ptr + row * TILE_K + k), TILE_M, TILE_K, USE_ASM)
    byte, block = tl.arange(0, TILE_K // 2)[None, :], tl.arange(0, TILE_K // 32)[None, :]
    tl.store(packed_ptr + row * (TILE_K // 2) + byte, packed)
    tl.store(scales_ptr + row * (TILE_K // 32) + block, scales)


def test_every_bfloat16_at_every_scale_equals_the_instruction_model(device):
    bits = ALL.to(torch.uint16).to(device)
    codes = torch.empty(65536, dtype=torch.uint8, device=device)
    pairs = ALL[0::2].long() | ALL[1::2].long() << 16
    # The interpreter pays for each workgroup, a GPU for each element of one.
    size = 65536 if current_target().backend == "interpreter" else 1024
    for scale in range(255):
        encode_kernel[(65536 // size,)](bits, codes, scale, SIZE=size)
        found = codes.cpu().long()
        expected = cvt_scalef32_pk_fp4_bf16(pairs, scale << 23, 0)
        wrong = (found[0::2] | found[1::2] << 4 != expected).nonzero()
        assert not len(wrong), f"pair {int(pairs[wrong[0]]):#010x} at scale {scale}"


def test_every_bfloat16_at_every_scale_by_the_instruction_itself(device):
    if not current_target().use_asm:
        pytest.skip("this device has no v_cvt_scalef32_pk_fp4_bf16")
    pairs = ALL[0::2].long() | ALL[1::2].long() << 16
    stored = torch.where(pairs >= 1 << 31, pairs - (1 << 32), pairs).to(torch.int32).to(device)
    codes = torch.empty(32768, dtype=torch.uint8, device=device)
    for scale in range(255):
        convert_kernel[(32,)](stored, codes, scale, SIZE=1024)
        expected = cvt_scalef32_pk_fp4_bf16(pairs, scale << 23, 0)
        wrong = (codes.cpu().long() != expected).nonzero()
        assert not len(wrong), f"pair {int(pairs[wrong[0]]):#010x} at scale {scale}"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (0.25, 0), (0.75, 2), (1.25, 2), (1.75, 4), (2.5, 4), (3.5, 6), (5.0, 6), (6.0, 7), (7.0, 7),
        (-0.0, 8), (-0.75, 10), (float("inf"), 7), (float("-inf"), 15), (float("nan"), 7),
    ],
)  # fmt: skip
def test_ties_signs_and_specials_at_scale_one(value, code, device):
    bits = torch.full((16,), value, dtype=torch.bfloat16, device=device).view(torch.uint16)
    codes = torch.empty(16, dtype=torch.uint8, device=device)
    encode_kernel[(1,)](bits, codes, 127, SIZE=16)
    assert codes.unique().tolist() == [code]


def test_the_smallest_subnormal_at_the_smallest_scale(device):
    bits = torch.arange(128, dtype=torch.int32).to(torch.uint16).to(device)  # multiples of 2^-133
    codes = torch.empty(128, dtype=torch.uint8, device=device)
    encode_kernel[(1,)](bits, codes, 0, SIZE=128)
    ratio = torch.arange(128) * 2.0 ** (-133 + 127)
    expected = torch.where(ratio > 0.25, 1, 0) + torch.where(ratio >= 0.75, 1, 0)
    expected += torch.where(ratio > 1.25, 1, 0) + torch.where(ratio >= 1.75, 1, 0)
    assert codes.cpu().tolist() == expected.tolist()


def test_the_scale_byte_of_every_amax(device):
    peaks = torch.arange(32768, dtype=torch.int32)
    scales = torch.empty(32768, dtype=torch.int32, device=device)
    scale_kernel[(1,)](peaks.to(device), scales, SIZE=32768)
    for peak, scale in ((0, 0), (0x7F7F, 253), (0x7F60, 253), (0x7F5F, 252), (0x7F80, 253), (0x7FFF, 253)):
        assert int(scales[peak]) == scale, hex(peak)
    # The rule on float32 bits, with NaN counted as Inf.
    wide = (peaks.long().clamp(max=0x7F80) << 16) + 0x200000 & 0xFF800000
    expected = ((wide >> 23 & 0xFF) - 129).clamp(-127, 127) + 127
    assert scales.cpu().tolist() == expected.tolist()


def blocks():
    """Blocks that put every special value beside ordinary ones, then every bfloat16 in blocks of 32."""
    generator = torch.Generator().manual_seed(7)
    special = torch.tensor(
        [0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x3F80]
    )
    rows = torch.randint(0, 65536, (64, 256), generator=generator)
    rows[:, ::32] = special[torch.arange(64) % len(special)][:, None]
    rows[:12] = special[:, None]
    return torch.cat([rows, ALL.view(256, 256)]).to(torch.uint16).view(torch.bfloat16)


def test_tiles_equal_the_reference_quantizer(device, assert_same_bits):
    x = blocks()
    packed = torch.empty((320, 128), dtype=torch.uint8, device=device)
    scales = torch.empty((320, 8), dtype=torch.uint8, device=device)
    expected = quantize(x)
    x = x.to(device)
    for first in range(0, 320, 16):
        rows = slice(first, first + 16)
        use_asm = current_target().use_asm
        tile_kernel[(1,)](x[rows], packed[rows], scales[rows], TILE_M=16, TILE_K=256, USE_ASM=use_asm)
    assert_same_bits(packed.cpu(), expected.packed)
    assert_same_bits(scales.cpu(), expected.scales)
