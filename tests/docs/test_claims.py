"""The figures in the words of the pages, computed again."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from mxassay.gfx950 import emulated
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


def test_nibbles_exchanged_in_both_operands_do_not_show(product: tuple[torch.Tensor, ...]) -> None:
    _, packed, scales, b, b_scales, exact = product

    def exchanged(codes: torch.Tensor) -> torch.Tensor:
        return codes << 4 | codes >> 4

    assert torch.equal(matmul(exchanged(packed), scales, exchanged(b), b_scales), exact)
    assert not torch.equal(matmul(exchanged(packed), scales, b, b_scales), exact)


@triton.jit
def _product(a, a_scales, b, b_scales, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, kb, g = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // 2), tl.arange(0, K // 32)
    left = tl.load(a + m[:, None] * (K // 2) + kb[None, :])
    right = tl.load(b + n[None, :] * (K // 2) + kb[:, None])
    left_scales = tl.load(a_scales + m[:, None] * (K // 32) + g[None, :])
    right_scales = tl.load(b_scales + n[:, None] * (K // 32) + g[None, :])
    total = tl.dot_scaled(left, left_scales, "e2m1", right, right_scales, "e2m1")
    tl.store(out + m[:, None] * N + n[None, :], total)


@pytest.mark.parametrize("shape", ["16X16X128", "32X32X64"])
def test_names_that_triton_gives_the_register_maps(shape: str, chapters: dict[str, Any]) -> None:
    m, n, k = 64, 64, 256
    codes, scales = torch.zeros(64, k // 2, dtype=torch.uint8), torch.full((64, k // 32), 127, dtype=torch.uint8)
    with emulated():
        compiled = _product[(1,)](
            codes, scales, codes, scales, torch.empty(m, n), M=m, N=n, K=k, matrix_instr_nonkdim=int(shape[:2])
        )
    assert f"v_mfma_scale_f32_{shape.lower()}_f8f6f4" in compiled.asm["amdgcn"]
    for operand in ("A", "B", "SCALE", "D"):
        assert chapters["users"].triton_name(f"MFMA_{shape}_{operand}") in compiled.asm["ttgir"]
    assert "isTransposed = true" in compiled.asm["ttgir"]
