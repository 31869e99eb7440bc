"""Softmax of rows in one pass, rows dealt to persistent programs."""

import pytest
import torch
import triton
import triton.language as tl

U = 2.0**-24


@triton.jit
def softmax(out, source, out_stride, source_stride, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    where = tl.arange(0, BLOCK)
    inside = where < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(source + row * source_stride + where, mask=inside, other=-float("inf"))
        weights = tl.exp(x - tl.max(x, axis=0))
        tl.store(out + row * out_stride + where, weights / tl.sum(weights, axis=0), mask=inside)


def run(source, warps=4, programs=5):
    out = torch.empty_like(source)
    rows, columns = source.shape
    block = triton.next_power_of_2(columns)
    softmax[(programs,)](
        out, source, out.stride(0), source.stride(0), rows, columns, BLOCK=block, STAGES=2, num_warps=warps
    )
    return out


@pytest.mark.parametrize(("rows", "columns", "warps"), [(13, 781, 4), (6, 64, 1), (3, 2048, 8)])
def test_within_the_bound_of_its_roundings(rows, columns, warps, generator):
    source = 3 * torch.randn(rows, columns, generator=generator)
    out = run(source, warps)
    exact = torch.softmax(source.double(), dim=1)
    # x - max, times log2(e), 2^x to 1 ulp: the exponent is off by 3u times its size, 2^x by 2u. The sum adds at most
    # one rounding a term, the quotient 2.5 ulp. All are relative.
    spread = float((source.max(dim=1).values - source.min(dim=1).values).max())
    relative = U * (3 * spread + 2) * 2 + U * (columns + 5)
    assert ((out.double() - exact).abs() <= relative * exact).all()


def test_equal_values_give_equal_shares_exactly():
    out = run(torch.full((4, 256), 5.0))
    assert (out == 1 / 256).all()


def test_a_row_of_minus_infinity_but_one():
    source = torch.full((2, 100), float("-inf"))
    source[0, 3] = source[1, 99] = -1000.0
    out = run(source)
    expected = torch.zeros(2, 100)
    expected[0, 3] = expected[1, 99] = 1.0
    assert torch.equal(out, expected)
