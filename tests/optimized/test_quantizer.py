"""The stand-alone quantizer against the reference, for every shape and stride."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mxassay import reference
from mxassay.errors import ContractError
from mxassay.optimized import quantize


def check(x, assert_same_bits):
    found, expected = quantize(x), reference.quantize(x.cpu())
    assert_same_bits(found.packed.cpu(), expected.packed)
    assert_same_bits(found.scales.cpu(), expected.scales)


def test_every_bfloat16_value(device, assert_same_bits):
    x = torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16).view(64, 1024)
    check(x.to(device), assert_same_bits)
    check(x.view(1024, 64).t().contiguous().to(device), assert_same_bits)


@given(m=st.integers(1, 40), blocks=st.integers(1, 20), seed=st.integers(0, 100))
def test_any_shape_of_any_bits(device, assert_same_bits, m, blocks, seed):
    generator = torch.Generator().manual_seed(seed)
    bits = torch.randint(0, 65536, (m, 32 * blocks), generator=generator)
    check(bits.to(torch.uint16).view(torch.bfloat16).to(device), assert_same_bits)


@pytest.mark.parametrize("name", ["rows apart", "transposed", "offset", "broadcast"])
def test_any_strides(name, embed, assert_same_bits):
    x = embed(torch.randn(17, 320).bfloat16())
    views = {
        "rows apart": torch.cat([x, x * 0 + float("nan")], dim=1)[:, :320],
        "transposed": x.t().contiguous().t(),
        "offset": embed(x, lead=2),
        "broadcast": x[:1].expand(17, -1),
    }
    check(views[name], assert_same_bits)


def test_no_rows(device):
    found = quantize(torch.empty(0, 64, dtype=torch.bfloat16, device=device))
    assert found.packed.shape == (0, 32)
    assert found.scales.shape == (0, 2)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 64), "x.dtype must be bfloat16, not float32; convert or view it"),
        (torch.zeros(64, dtype=torch.bfloat16), "x must have 2 dimensions, not 1; reshape it"),
        (
            torch.zeros(2, 48, dtype=torch.bfloat16),
            "x.shape[1] (K) must be a positive multiple of 32, not 48; pad with zeros",
        ),
        (
            torch.zeros(2, 0, dtype=torch.bfloat16),
            "x.shape[1] (K) must be a positive multiple of 32, not 0; pad with zeros",
        ),
    ],
)
def test_refusals(x, message):
    with pytest.raises(ContractError, match=f"^{re.escape(message)}$"):
        quantize(x)
