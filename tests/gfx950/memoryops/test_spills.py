"""A kernel whose registers do not suffice: the compiler spills to scratch, and results stay right."""

import torch
import triton
import triton.language as tl

from mxassay.gfx950 import emulated


@triton.jit
def softmax_of_product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, K, 32):
        k = start + tl.arange(0, 32)
        x = tl.load(a + i[:, None] * K + k[None, :])
        y = tl.load(b + k[:, None] * N + j[None, :])
        total = tl.dot(x, y, total)
    e = tl.exp(total)
    tl.store(c + i[:, None] * N + j[None, :], e / tl.sum(e, 1)[:, None])


def test_one_wave_with_a_large_tile_spills_and_agrees():
    generator = torch.Generator().manual_seed(0)
    m, n, k = 128, 256, 64
    a = (torch.randn(m, k, generator=generator) / 8).half()
    b = (torch.randn(k, n, generator=generator) / 8).half()
    c = torch.zeros(m, n)
    with emulated():
        kernel = softmax_of_product[(1,)](a, b, c, m, n, k, num_warps=1)
    text = kernel.asm["amdgcn"]
    assert "scratch_store" in text
    assert "scratch_load" in text
    want = torch.softmax(a.double() @ b.double(), 1)
    # exp2 to 1 ulp of an argument that 64 + 2 roundings moved by at most 66 * 2^-24 * sum|a||b|, and 256 additions.
    bound = want * (66 * 2.0**-24 * (a.double().abs() @ b.double().abs()) + 262 * 2.0**-24)
    assert ((c.double() - want).abs() <= bound).all()
