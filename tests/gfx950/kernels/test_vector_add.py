"""Adding two vectors: every bit, masked tails, and nothing past the end."""

import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def add(left, right, out, count, BLOCK: tl.constexpr):
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = where < count
    total = tl.load(left + where, mask=inside) + tl.load(right + where, mask=inside)
    tl.store(out + where, total, mask=inside)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64]
)
@pytest.mark.parametrize("count", [1, 97, 1024, 5000])
def test_sums_are_torchs_bit_for_bit(dtype, count, generator):
    left, right = (100 * torch.randn(count, generator=generator) for _ in range(2))
    left, right = left.to(dtype), right.to(dtype)
    out = torch.full((count + 64,), 7, dtype=dtype)
    add[(triton.cdiv(count, 1024),)](left, right, out, count, BLOCK=1024)
    assert torch.equal(out[:count], left + right)
    assert (out[count:] == 7).all()


def test_special_values():
    values = torch.tensor([0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, float("inf"), float("-inf")])
    left, right = (part.reshape(-1).contiguous() for part in torch.meshgrid(values, values, indexing="ij"))
    out = torch.empty(64)
    add[(1,)](left, right, out, 64, BLOCK=64)
    expected = left + right
    nan = expected.isnan()
    assert torch.equal(out.isnan(), nan)
    assert torch.equal(out.view(torch.int32)[~nan], expected.view(torch.int32)[~nan])
