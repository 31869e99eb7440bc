"""Block-scaled products with tl.dot_scaled: MXFP4, MXFP8 and both mixed, inside the region where every order of adding
gives the same sum."""

import pytest
import torch
import triton
import triton.language as tl

BLOCK = 32
E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])


@triton.jit
def scaled(
    a, a_scale, b, b_scale, c, M, N, K: tl.constexpr,
    TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr, FORM_A: tl.constexpr, FORM_B: tl.constexpr,
):  # fmt: skip
    """a (M, K) and b (N, K) row-major, packed in pairs where the format has 4 bits; scales (rows, K / 32)."""
    pack_a: tl.constexpr = 2 if FORM_A == "e2m1" else 1
    pack_b: tl.constexpr = 2 if FORM_B == "e2m1" else 1
    rows, columns = tl.program_id(0) * TM + tl.arange(0, TM), tl.program_id(1) * TN + tl.arange(0, TN)
    bytes_a, bytes_b, groups = tl.arange(0, TK // pack_a), tl.arange(0, TK // pack_b), tl.arange(0, TK // 32)
    total = tl.zeros((TM, TN), tl.float32)
    for k in range(0, K, TK):
        left = tl.load(a + rows[:, None] * (K // pack_a) + (k // pack_a + bytes_a)[None, :])
        right = tl.load(b + columns[None, :] * (K // pack_b) + (k // pack_b + bytes_b)[:, None])
        scale_a = tl.load(a_scale + rows[:, None] * (K // 32) + (k // 32 + groups)[None, :])
        scale_b = tl.load(b_scale + columns[:, None] * (K // 32) + (k // 32 + groups)[None, :])
        total = tl.dot_scaled(left, scale_a, FORM_A, right, scale_b, FORM_B, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total)


def operand(form, rows, depth, generator):
    """Codes as the kernel reads them, their values (rows, depth), and scale bytes near 127."""
    scales = torch.randint(125, 129, (rows, depth // BLOCK), generator=generator).to(torch.uint8)
    if form == "e2m1":
        codes = torch.randint(0, 16, (rows, depth), generator=generator)
        packed = (codes[:, 0::2] | codes[:, 1::2] << 4).to(torch.uint8)
        return packed, E2M1[codes].double(), scales
    dtype = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[form]
    values = (torch.randint(-8, 9, (rows, depth), generator=generator) / 4).to(dtype)
    return values, values.double(), scales


def scaled_values(values, scales):
    return values * torch.exp2(scales.double() - 127).repeat_interleave(BLOCK, dim=1)


@pytest.mark.parametrize("tiles", [(32, 32, 128), (64, 32, 256), (128, 128, 128)])
@pytest.mark.parametrize(("form_a", "form_b"), [("e2m1", "e2m1"), ("e4m3", "e2m1"), ("e5m2", "e4m3"), ("e4m3", "e4m3")])
def test_sums_are_exact(form_a, form_b, tiles, generator):
    M, N, K = tiles[0], 2 * tiles[1], 512
    a, a_values, a_scales = operand(form_a, M, K, generator)
    b, b_values, b_scales = operand(form_b, N, K, generator)
    c = torch.full((M, N), float("nan"))
    scaled[(1, 2)](
        a, a_scales, b, b_scales, c, M, N, K, TM=tiles[0], TN=tiles[1], TK=tiles[2], FORM_A=form_a, FORM_B=form_b,
        num_warps=4,
    )  # fmt: skip
    left, right = scaled_values(a_values, a_scales), scaled_values(b_values, b_scales)
    # Terms are multiples of 2^-8 (2^-2 each for values and scales); all sums of absolute terms stay below 2^16.
    assert float((left.abs() @ right.abs().T).max()) < 2.0**16
    assert torch.equal(c.double(), left @ right.T)


def test_a_nan_scale_poisons_its_row(generator):
    a, _, a_scales = operand("e2m1", 32, 128, generator)
    b, _, b_scales = operand("e2m1", 32, 128, generator)
    a_scales[5, 2] = 255
    c = torch.zeros(32, 32)
    scaled[(1, 1)](a, a_scales, b, b_scales, c, 32, 32, 128, TM=32, TN=32, TK=128, FORM_A="e2m1", FORM_B="e2m1")
    nan = c.isnan()
    assert nan[5].all()
    assert int(nan.sum()) == 32
