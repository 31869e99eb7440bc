"""Each loader alone: a tile at every place of a table, with poison behind it, against the layouts package."""

import pytest
import torch
import triton
import triton.language as tl

from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.optimized.operands import (
    gather_shuffled_scales,
    load_activations,
    load_linear_scales,
    load_linear_weights,
    load_preshuffled_weights,
    load_shuffled_scales,
)


@triton.jit
def weights_kernel(
    w_ptr, out_ptr, N, K, first_n, first_k, stride_row,
    TILE_N: tl.constexpr, TILE_K: tl.constexpr, PRESHUFFLED: tl.constexpr, EVEN: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    tile = w_ptr + first_n * stride_row
    if PRESHUFFLED:
        tile += first_k // 2 * 16
        w = load_preshuffled_weights(tile, N - first_n, K - first_k, stride_row, TILE_N, TILE_K, EVEN, EVEN, WIDE)
    else:
        tile += first_k // 2
        w = load_linear_weights(tile, N - first_n, K - first_k, stride_row, TILE_N, TILE_K, EVEN, EVEN, WIDE)
    row, byte = tl.arange(0, TILE_N)[:, None], tl.arange(0, TILE_K // 2)[None, :]
    tl.store(out_ptr + row * (TILE_K // 2) + byte, w)


@triton.jit
def scales_kernel(
    s_ptr, out_ptr, N, K, first_n, first_k, stride_row,
    TILE_N: tl.constexpr, TILE_K: tl.constexpr, KIND: tl.constexpr, EVEN: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    tile = s_ptr + first_n * stride_row
    groups_left = (K - first_k) // 32
    if KIND == "shuffled":
        scales = load_shuffled_scales(
            tile + first_k, N - first_n, groups_left, stride_row, TILE_N, TILE_K, EVEN, EVEN, WIDE
        )
    elif KIND == "gathered":
        scales = gather_shuffled_scales(
            s_ptr, first_n, first_k // 32, N - first_n, groups_left, stride_row, TILE_N, TILE_K, WIDE
        )
    else:
        scales = load_linear_scales(
            tile + first_k // 32, N - first_n, groups_left, stride_row, TILE_N, TILE_K, EVEN, EVEN, WIDE
        )
    row, group = tl.arange(0, TILE_N)[:, None], tl.arange(0, TILE_K // 32)[None, :]
    tl.store(out_ptr + row * (TILE_K // 32) + group, scales)


@triton.jit
def activations_kernel(
    a_ptr, out_ptr, rows_left, k_left, stride_row, stride_k,
    TILE_M: tl.constexpr, TILE_K: tl.constexpr, EVEN_M: tl.constexpr, EVEN_K: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    a = load_activations(a_ptr, rows_left, k_left, stride_row, stride_k, TILE_M, TILE_K, EVEN_M, EVEN_K, WIDE)
    row, k = tl.arange(0, TILE_M)[:, None], tl.arange(0, TILE_K)[None, :]
    tl.store(out_ptr + row * TILE_K + k, a)


def distinct(rows, columns):
    """Bytes by which a wrong address shows: neighbours along both axes differ, and no value is neutral or poison."""
    return ((torch.arange(rows)[:, None] * 7 + torch.arange(columns)[None, :] * 13) % 120 + 1).to(torch.uint8)


def window(table, first_row, first_column, rows, columns, neutral):
    """A tile of a table that may reach over its edges."""
    tile = torch.full((rows, columns), neutral, dtype=table.dtype)
    inside = table[first_row : first_row + rows, first_column : first_column + columns]
    tile[: inside.shape[0], : inside.shape[1]] = inside
    return tile


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("preshuffled", [False, True])
@pytest.mark.parametrize(("tile_n", "tile_k"), [(16, 64), (32, 128), (64, 256)])
@pytest.mark.parametrize(("n", "k"), [(80, 320), (128, 512)])
def test_weights(n, k, tile_n, tile_k, preshuffled, wide, embed, device, assert_same_bits):
    table = distinct(n, k // 2)
    stored = embed(WEIGHT_PRESHUFFLE.apply(table) if preshuffled else table)
    out = torch.empty((tile_n, tile_k // 2), dtype=torch.uint8, device=device)
    for first_n in range(0, n, tile_n):
        for first_k in range(0, k, tile_k):
            even = first_n + tile_n <= n and first_k + tile_k <= k
            weights_kernel[(1,)](
                stored, out, n, k, first_n, first_k, k // 2,
                TILE_N=tile_n, TILE_K=tile_k, PRESHUFFLED=preshuffled, EVEN=even, WIDE=wide,
            )  # fmt: skip
            assert_same_bits(out.cpu(), window(table, first_n, first_k // 2, tile_n, tile_k // 2, 0))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    ("kind", "tile_n", "tile_k"),
    [
        ("shuffled", 32, 256),
        ("shuffled", 64, 512),
        ("gathered", 16, 64),
        ("gathered", 16, 128),
        ("gathered", 64, 128),
        ("gathered", 32, 256),
        ("linear", 16, 128),
        ("linear", 32, 256),
    ],
)
@pytest.mark.parametrize(("n", "k"), [(80, 320), (272, 576), (256, 512)])
def test_scales(n, k, kind, tile_n, tile_k, wide, embed, device, assert_same_bits):
    table = distinct(n, k // 32)
    stored = embed(table if kind == "linear" else SCALE_SHUFFLE.apply(table, fill=0xFF))
    out = torch.empty((tile_n, tile_k // 32), dtype=torch.uint8, device=device)
    for first_n in range(0, n, tile_n):
        for first_k in range(0, k, tile_k):
            even = first_n + tile_n <= n and first_k + tile_k <= k
            scales_kernel[(1,)](
                stored, out, n, k, first_n, first_k, stored.shape[1],
                TILE_N=tile_n, TILE_K=tile_k, KIND=kind, EVEN=even, WIDE=wide,
            )  # fmt: skip
            assert_same_bits(out.cpu(), window(table, first_n, first_k // 32, tile_n, tile_k // 32, 127))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("rows", "k"), [(8, 64), (5, 64), (8, 32), (1, 32)])
@pytest.mark.parametrize("transposed", [False, True])
def test_activations(rows, k, transposed, wide, embed, device, assert_same_bits):
    a = torch.randn(rows, k).bfloat16()
    stored = embed(a.t().contiguous()).t() if transposed else embed(a)
    out = torch.empty((8, 64), dtype=torch.bfloat16, device=device)
    activations_kernel[(1,)](
        stored, out, rows, k, stored.stride(0), stored.stride(1),
        TILE_M=8, TILE_K=64, EVEN_M=rows == 8, EVEN_K=k == 64, WIDE=wide,
    )  # fmt: skip
    assert_same_bits(out.cpu(), window(a, 0, 0, 8, 64, 0))
