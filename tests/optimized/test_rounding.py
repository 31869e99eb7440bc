"""float32 to bfloat16, to nearest even, in integers and by the native cast where that rounds."""

import pytest
import torch
import triton
import triton.language as tl

from mxassay.optimized.device import current_target
from mxassay.optimized.rounding import to_bfloat16


@triton.jit
def round_kernel(x_ptr, out_ptr, SIZE: tl.constexpr, IN_INTEGERS: tl.constexpr):
    index = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(out_ptr + index, to_bfloat16(tl.load(x_ptr + index), IN_INTEGERS))


def sharp_values():
    """Every upper half with the lower halves at and around the tie, then random bits."""
    upper = torch.arange(65536, dtype=torch.int64)[:, None] << 16
    lower = torch.tensor([0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
    bits = torch.cat([(upper | lower).flatten(), torch.randint(0, 1 << 32, (65536,))])
    return torch.where(bits >= 1 << 31, bits - (1 << 32), bits).to(torch.int32).view(torch.float32)


def nearest_even(x):
    """By value: the two bfloat16 neighbours of |x|, compared in float64; 2^128 stands for Inf."""
    bits = x.view(torch.int32).long()
    below = (bits & 0x7FFF0000) >> 16
    above = below + 1
    magnitude = x.abs().double()

    def value(half):
        finite = (half << 16).to(torch.int32).view(torch.float32).double()
        return torch.where(half == 0x7F80, torch.tensor(2.0**128, dtype=torch.float64), finite)

    to_below, to_above = magnitude - value(below), value(above) - magnitude
    up = (to_above < to_below) | ((to_above == to_below) & (below & 1 == 1))
    return torch.where(up, above, below) | (bits >> 16 & 0x8000)


@pytest.mark.parametrize("in_integers", [True, False])
def test_nearest_even_and_quiet_nan(in_integers, device):
    if not in_integers and current_target().round_in_integers:
        pytest.skip("the native cast of this device truncates")
    x = sharp_values()
    out = torch.empty(x.numel(), dtype=torch.bfloat16, device=device)
    size = 4096
    assert x.numel() % size == 0
    round_kernel[(x.numel() // size,)](x.to(device), out, SIZE=size, IN_INTEGERS=in_integers)
    found = out.cpu().view(torch.int16).long() & 0xFFFF
    ordinary = x.isfinite()
    assert torch.equal(found[ordinary], nearest_even(x[ordinary]))
    infinite = x.isinf()
    assert torch.equal(found[infinite], x[infinite].view(torch.int32).long() >> 16 & 0xFFFF)
    assert (found[x.isnan()] & 0x7FFF > 0x7F80).all()
    assert (found[x.isnan()] & 0x0040 != 0).all()
