"""Triton's own matrix multiplies for gfx950 on the emulated card, against float64: an independent witness of layouts,
transposing loads and scales, since Triton places every operand."""

import pytest
import torch
import triton
import triton.language as tl

from mxassay.gfx950 import Options, emulated


@triton.jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, ACC: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + i[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + j[None, :])
    tl.store(c + i[:, None] * N + j[None, :], tl.dot(x, y, out_dtype=ACC))


@triton.jit
def scaled_product(
    a, sa, b, sb, c, FA: tl.constexpr, FB: tl.constexpr, PA: tl.constexpr, PB: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    i, j, g = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // 32)
    ka, kb = tl.arange(0, K // PA), tl.arange(0, K // PB)
    x = tl.load(a + i[:, None] * (K // PA) + ka[None, :])
    y = tl.load(b + j[None, :] * (K // PB) + kb[:, None])
    p = tl.load(sa + i[:, None] * (K // 32) + g[None, :])
    q = tl.load(sb + j[:, None] * (K // 32) + g[None, :])
    tl.store(c + i[:, None] * N + j[None, :], tl.dot_scaled(x, p, FA, y, q, FB))


@triton.jit
def packed_along_rows(a, sa, b, sb, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """The second operand is FP4 packed along N, so that its transpose goes through LDS by nibbles."""
    i, j, g = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // 32)
    ka, kb, half = tl.arange(0, K // 2), tl.arange(0, K), tl.arange(0, N // 2)
    x = tl.load(a + i[:, None] * (K // 2) + ka[None, :])
    y = tl.load(b + kb[:, None] * (N // 2) + half[None, :])
    p = tl.load(sa + i[:, None] * (K // 32) + g[None, :])
    q = tl.load(sb + j[:, None] * (K // 32) + g[None, :])
    d = tl.dot_scaled(x, p, "e2m1", y, q, "e2m1", rhs_k_pack=False)
    tl.store(c + i[:, None] * N + j[None, :], d)


def drawn(shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.int8:
        return torch.randint(-128, 128, shape, generator=generator, dtype=dtype)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


M, N, K = 64, 64, 128
DTYPES = [
    (torch.float16, torch.float32, tl.float32), (torch.bfloat16, torch.float32, tl.float32),
    (torch.float8_e4m3fn, torch.float32, tl.float32), (torch.float8_e5m2, torch.float32, tl.float32),
    (torch.float32, torch.float32, tl.float32), (torch.int8, torch.int32, tl.int32),
    (torch.float64, torch.float64, tl.float64),
]  # fmt: skip


@pytest.mark.parametrize("nonkdim", [16, 32])
@pytest.mark.parametrize(("dtype", "out", "acc"), DTYPES, ids=[str(entry[0]) for entry in DTYPES])
def test_dot(dtype, out, acc, nonkdim):
    a, b, c = drawn((M, K), dtype, 1), drawn((K, N), dtype, 2), torch.zeros(M, N, dtype=out)
    with emulated():
        product[(1,)](a, b, c, M, N, K, acc, matrix_instr_nonkdim=nonkdim, num_warps=4)
    left, right = a.double(), b.double()
    want = left @ right
    if dtype == torch.int8:
        assert (c == want.to(torch.int32)).all()
        return
    # At most K roundings of partial sums that are no larger than sum |a||b| (Higham, 3.1).
    bound = K * torch.finfo(out).eps * (left.abs() @ right.abs()) * 1.01
    assert ((c.double() - want).abs() <= bound).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("model", ["exact", "sequential-f32", "truncating"])
def test_dot_of_small_integers_is_exact_in_every_model(dtype, model):
    generator = torch.Generator().manual_seed(5)
    a = torch.randint(-4, 5, (M, K), generator=generator).to(torch.float32).to(dtype)
    b = torch.randint(-4, 5, (K, N), generator=generator).to(torch.float32).to(dtype)
    c = torch.zeros(M, N)
    with emulated(Options(accumulation=model)):
        product[(1,)](a, b, c, M, N, K, tl.float32, num_warps=4)
    assert (c.double() == a.double() @ b.double()).all()


def test_results_that_depend_on_the_order_of_adding_are_counted():
    a, b, c = drawn((M, K), torch.float16, 1), drawn((K, N), torch.float16, 2), torch.zeros(M, N)
    with emulated(Options(compare_accumulation=True)) as driver:
        product[(1,)](a, b, c, M, N, K, tl.float32, num_warps=4)
    found = driver.last.matrix_results
    # 4 waves share M * N results of K / 32 instructions each.
    assert found.results == M * N * K // 32 * 2
    assert 0 < found.differing < found.results
    integers = torch.ones(M, K, dtype=torch.float16)
    with emulated(Options(compare_accumulation=True)) as driver:
        product[(1,)](integers, torch.ones(K, N, dtype=torch.float16), c, M, N, K, tl.float32, num_warps=4)
    assert driver.last.matrix_results.differing == 0


E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)
FORMATS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "e2m1": torch.uint8}


def operand(form, rows, columns, seed):
    """Storage, values and scale bytes."""
    generator = torch.Generator().manual_seed(seed)
    scales = torch.randint(120, 134, (rows, columns // 32), generator=generator, dtype=torch.uint8)
    if form == "e2m1":
        codes = torch.randint(0, 16, (rows, columns), generator=generator)
        return (codes[:, ::2] | codes[:, 1::2] << 4).to(torch.uint8), E2M1[codes], scales
    stored = drawn((rows, columns), FORMATS[form], seed)
    return stored, stored.double(), scales


def scaled(values, scales):
    return values * torch.exp2(scales.double() - 127).repeat_interleave(32, 1)


@pytest.mark.parametrize("nonkdim", [16, 32])
@pytest.mark.parametrize("form_b", FORMATS)
@pytest.mark.parametrize("form_a", FORMATS)
def test_dot_scaled(form_a, form_b, nonkdim):
    depth = 256
    (a, left, sa), (b, right, sb), c = operand(form_a, M, depth, 1), operand(form_b, N, depth, 2), torch.zeros(M, N)
    packs = [2 if form == "e2m1" else 1 for form in (form_a, form_b)]
    with emulated():
        scaled_product[(1,)](
            a, sa, b, sb, c, form_a, form_b, *packs, M, N, depth, matrix_instr_nonkdim=nonkdim, num_warps=4
        )
    left, right = scaled(left, sa), scaled(right, sb)
    want = left @ right.T
    # Each instruction rounds its exact sum once; there are depth / K of them, and float64 holds `want` far better.
    steps = depth // (2048 // nonkdim)
    bound = steps * 2.0**-24 * (left.abs() @ right.abs().T) * 1.01
    assert ((c.double() - want).abs() <= bound).all()


@pytest.mark.parametrize("nonkdim", [16, 32])
def test_nibbles_are_transposed_on_their_way_from_lds(nonkdim):
    depth = 128
    (a, left, sa), c = operand("e2m1", M, depth, 3), torch.zeros(M, N)
    generator = torch.Generator().manual_seed(4)
    codes = torch.randint(0, 16, (depth, N), generator=generator)
    b = (codes[:, ::2] | codes[:, 1::2] << 4).to(torch.uint8)
    sb = torch.randint(124, 130, (N, depth // 32), generator=generator, dtype=torch.uint8)
    with emulated():
        kernel = packed_along_rows[(1,)](a, sa, b, sb, c, M, N, depth, matrix_instr_nonkdim=nonkdim, num_warps=4)
    assert "ds_read_b64_tr_b4" in kernel.asm["amdgcn"]
    left, right = scaled(left, sa), scaled(E2M1[codes].T, sb)
    want = left @ right.T
    bound = depth // (2048 // nonkdim) * 2.0**-24 * (left.abs() @ right.abs().T) * 1.01
    assert ((c.double() - want).abs() <= bound).all()
