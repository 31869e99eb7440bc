"""The figures in the words of the pages, computed again."""

import pytest
import torch

from mxassay.reference import DIALECTS, dequantize, encode, matmul, pack, quantize


@pytest.fixture(scope="module")
def normal() -> torch.Tensor:
    return torch.randn(2048, 512, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)


@pytest.mark.parametrize(("rule", "least", "most"), [("rceil", 1 / 9, 1 / 7), ("floor", 1 / 6.5, 1 / 5.5)])
def test_scales_that_another_rule_changes(normal: torch.Tensor, rule: str, least: float, most: float) -> None:
    changed = quantize(normal, DIALECTS[rule]).scales != quantize(normal).scales
    assert least < changed.double().mean().item() < most


def test_nine_blocks_in_ten_share_a_scale_byte(normal: torch.Tensor) -> None:
    _, counts = torch.unique(quantize(normal).scales, return_counts=True)
    assert counts.max().item() / counts.sum().item() == pytest.approx(0.9, abs=0.03)


@pytest.fixture(scope="module")
def product(normal: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """a, its packed codes and scales, b's, and the exact product."""
    a, b = normal[:32], quantize(normal[32:288])
    quantized = quantize(a)
    return a, *quantized, *b, matmul(*quantized, *b)


def _close(found: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    return torch.isclose(found.float(), expected.float(), rtol=1e-2, atol=1e-2)


def test_the_usual_test_passes_a_store_that_truncates(product: tuple[torch.Tensor, ...]) -> None:
    _, packed, scales, b, b_scales, exact = product
    sums = dequantize(packed, scales, torch.float64) @ dequantize(b, b_scales, torch.float64).T
    truncated = (sums.float().view(torch.int32) >> 16).to(torch.int16).view(torch.bfloat16)
    assert _close(truncated, exact).all()
    wrong = (truncated.view(torch.int16) != exact.view(torch.int16)).double().mean().item()
    assert 0.20 < wrong < 0.45


def test_ties_away_from_zero_change_most_outputs(product: tuple[torch.Tensor, ...]) -> None:
    a, packed, scales, b, b_scales, exact = product
    codes = encode(a, scales, ties="away")
    assert 1 / 180 < (codes != encode(a, scales)).double().mean().item() < 1 / 120
    assert not torch.equal(pack(codes), packed)
    assert _close(matmul(pack(codes), scales, b, b_scales), exact).double().mean().item() < 0.5


def test_log2_is_off_by_one_below_a_power_of_two() -> None:
    below = torch.nextafter(torch.tensor(8.0), torch.tensor(0.0))
    assert torch.log2(below).floor() == 3
    assert below.view(torch.int32).item() >> 23 == 127 + 2
