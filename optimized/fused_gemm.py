# mypy: allow-untyped-decorators
"""The fused kernel: quantize activations, multiply by preshuffled or linear MXFP4 weights, perhaps one split of K."""

import triton
import triton.language as tl

from mxassay.optimized.operands import (
    gather_shuffled_scales,
    load_activations,
    load_linear_scales,
    load_linear_weights,
    load_preshuffled_weights,
    load_shuffled_scales,
)
from mxassay.optimized.pack import quantize_tile
from mxassay.optimized.rounding import to_bfloat16
from mxassay.optimized.tile_map import grouped_order, xcd_remap


@triton.jit
def fused_gemm_kernel(
    a_ptr: tl.tensor,
    w_ptr: tl.tensor,
    ws_ptr: tl.tensor,
    c_ptr: tl.tensor,
    M: tl.tensor,
    N: tl.tensor,
    K: tl.tensor,
    stride_a_row: tl.tensor,
    stride_a_k: tl.tensor,
    stride_w_row: tl.tensor,
    stride_ws_row: tl.tensor,
    stride_c_row: tl.tensor,
    stride_c_split: tl.tensor,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    SPLITS: tl.constexpr,
    SPAN: tl.constexpr,
    PRESHUFFLED: tl.constexpr,
    EVEN_M: tl.constexpr,
    EVEN_N: tl.constexpr,
    EVEN_K: tl.constexpr,
    WIDE: tl.constexpr,
    USE_ASM: tl.constexpr,
    ROUND_IN_INTEGERS: tl.constexpr,
) -> None:
    """C[split] = quantized(A)[:, span] @ W[:, span].T for the tile and the split of this workgroup.

    a_ptr bfloat16 (M, K), any strides; w_ptr uint8 (N, K // 2); ws_ptr uint8; c_ptr bfloat16 (M, N) or, with splits,
    float32 (SPLITS, M, N). Grid: cdiv(M, TILE_M) * cdiv(N, TILE_N) * SPLITS workgroups along x. EVEN_M and
    EVEN_N state that the size is a multiple of the tile, EVEN_K that K is SPLITS * SPAN.
    """
    tiles_m = tl.cdiv(M, TILE_M)
    tiles_n = tl.cdiv(N, TILE_N)
    number = xcd_remap(tl.program_id(0), tiles_m * tiles_n * SPLITS)
    split = number % SPLITS
    tile_m, tile_n = grouped_order(number // SPLITS, tiles_m, tiles_n, GROUP_M)
    first_m = tile_m * TILE_M
    first_n = tile_n * TILE_N
    first_k = split * SPAN

    first_k_wide = first_k.to(tl.int64)
    a_tile = a_ptr + first_m.to(tl.int64) * stride_a_row + first_k_wide * stride_a_k
    w_tile = w_ptr + first_n.to(tl.int64) * stride_w_row
    ws_tile = ws_ptr + first_n.to(tl.int64) * stride_ws_row
    if PRESHUFFLED:
        w_tile += first_k_wide // 2 * 16
        ws_tile += first_k_wide
    else:
        w_tile += first_k_wide // 2
        ws_tile += first_k_wide // 32

    # In 64 bits: a transposed A of more than 2^31 / TILE_K rows has columns that far apart.
    a_step = tl.full((), TILE_K, tl.int64) * stride_a_k

    accumulator = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    # A constant count, also for a split that K ends in: what lies beyond K is masked to zero products.
    for step in range(SPAN // TILE_K):
        k_left = K - first_k - step * TILE_K
        a = load_activations(
            a_tile, M - first_m, k_left, stride_a_row, stride_a_k, TILE_M, TILE_K, EVEN_M, EVEN_K, WIDE
        )
        if PRESHUFFLED:
            w = load_preshuffled_weights(
                w_tile, N - first_n, k_left, stride_w_row, TILE_N, TILE_K, EVEN_N, EVEN_K, WIDE
            )
            if TILE_N % 32 == 0 and TILE_K % 256 == 0:
                ws = load_shuffled_scales(
                    ws_tile, N - first_n, k_left // 32, stride_ws_row, TILE_N, TILE_K, EVEN_N, EVEN_K, WIDE
                )
            else:
                ws = gather_shuffled_scales(
                    ws_ptr,
                    first_n,
                    (first_k + step * TILE_K) // 32,
                    N - first_n,
                    k_left // 32,
                    stride_ws_row,
                    TILE_N,
                    TILE_K,
                    WIDE,
                )
            w_tile += TILE_K // 2 * 16
            ws_tile += TILE_K
        else:
            w = load_linear_weights(w_tile, N - first_n, k_left, stride_w_row, TILE_N, TILE_K, EVEN_N, EVEN_K, WIDE)
            ws = load_linear_scales(
                ws_tile, N - first_n, k_left // 32, stride_ws_row, TILE_N, TILE_K, EVEN_N, EVEN_K, WIDE
            )
            w_tile += TILE_K // 2
            ws_tile += TILE_K // 32
        a_tile += a_step
        packed, scales = quantize_tile(a, TILE_M, TILE_K, USE_ASM)
        accumulator = tl.dot_scaled(packed, scales, "e2m1", w.trans(1, 0), ws, "e2m1", accumulator)

    row = tl.arange(0, TILE_M)[:, None]
    column = tl.arange(0, TILE_N)[None, :]
    if WIDE:
        row = row.to(tl.int64)
    c_tile = c_ptr + first_m.to(tl.int64) * stride_c_row + first_n + split.to(tl.int64) * stride_c_split
    pointers = c_tile + (row * stride_c_row + column)
    mask = (row < M - first_m) & (column < N - first_n)
    if SPLITS == 1:
        tl.store(pointers, to_bfloat16(accumulator, ROUND_IN_INTEGERS), mask=mask)
    else:
        tl.store(pointers, accumulator, mask=mask)
