# mypy: allow-untyped-decorators
"""The stand-alone quantizer: bfloat16 activations to packed MXFP4 codes and scales in memory."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from mxassay.errors import ContractError
from mxassay.optimized.contracts import check_activations, check_device
from mxassay.optimized.device import current_target, launching
from mxassay.optimized.operands import load_activations
from mxassay.optimized.pack import quantize_tile

TILE_M = 16
TILE_K = 256


class QuantizedActivations(NamedTuple):
    """packed: uint8 (M, K // 2), the even k in the low nibble. scales: uint8 (M, K // 32), E8M0."""

    packed: torch.Tensor
    scales: torch.Tensor


@triton.jit
def quantize_kernel(
    x_ptr: tl.tensor,
    packed_ptr: tl.tensor,
    scales_ptr: tl.tensor,
    M: tl.tensor,
    K: tl.tensor,
    stride_row: tl.tensor,
    stride_k: tl.tensor,
    TILE_M: tl.constexpr,
    TILE_K: tl.constexpr,
    EVEN_M: tl.constexpr,
    EVEN_K: tl.constexpr,
    WIDE: tl.constexpr,
    USE_ASM: tl.constexpr,
) -> None:
    """One (TILE_M, TILE_K) tile for each workgroup along x, K fastest."""
    tiles_k = tl.cdiv(K, TILE_K)
    first_m = (tl.program_id(0) // tiles_k * TILE_M).to(tl.int64)
    first_k = (tl.program_id(0) % tiles_k * TILE_K).to(tl.int64)
    x_tile = x_ptr + first_m * stride_row + first_k * stride_k
    x = load_activations(x_tile, M - first_m, K - first_k, stride_row, stride_k, TILE_M, TILE_K, EVEN_M, EVEN_K, WIDE)
    packed, scales = quantize_tile(x, TILE_M, TILE_K, USE_ASM)
    row = tl.arange(0, TILE_M)[:, None] + first_m
    byte = tl.arange(0, TILE_K // 2)[None, :] + first_k // 2
    block = tl.arange(0, TILE_K // 32)[None, :] + first_k // 32
    tl.store(packed_ptr + row * (K // 2) + byte, packed, mask=(row < M) & (byte < K // 2))
    tl.store(scales_ptr + row * (K // 32) + block, scales, mask=(row < M) & (block < K // 32))


def quantize(x: torch.Tensor) -> QuantizedActivations:
    """Quantize activations in blocks of 32 along K, with the scale rule EVEN.

    x: bfloat16 (M, K), M >= 0, K a positive multiple of 32, any strides. Returns fresh contiguous tensors in
    row-major order. The scale byte of a block is the exponent field of (amax_bits + 0x200000) & 0xFF800000, less 2,
    at least 0; so 253 for Inf and NaN. Codes are nearest even of x over the scale, saturated at 6, with the sign
    kept; NaN becomes sign | 7. The same arithmetic runs inside `matmul`.

    Raises ContractError on another shape, dtype or device; UnsupportedError where Triton has no device.

    >>> quantize(torch.full((1, 32), 6.0, dtype=torch.bfloat16)).scales
    tensor([[127]], dtype=torch.uint8)
    """
    x = check_activations("x", x, 32)
    target = current_target()
    check_device("x", x, target.tensors)
    m, k = x.shape
    packed = torch.empty((m, k // 2), dtype=torch.uint8, device=x.device)
    scales = torch.empty((m, k // 32), dtype=torch.uint8, device=x.device)
    workgroups = triton.cdiv(m, TILE_M) * triton.cdiv(k, TILE_K)
    if workgroups >= 2**31:
        raise ContractError(f"x must need fewer than 2**31 workgroups, not {workgroups}; cut M in pieces")
    if m:
        with launching(target, x):
            quantize_kernel[(workgroups,)](
                x,
                packed,
                scales,
                m,
                k,
                x.stride(0),
                x.stride(1),
                TILE_M=TILE_M,
                TILE_K=TILE_K,
                EVEN_M=m % TILE_M == 0,
                EVEN_K=k % TILE_K == 0,
                WIDE=2 * (TILE_M * x.stride(0) + TILE_K * x.stride(1)) >= 2**31,
                USE_ASM=target.use_asm,
                num_warps=4,
            )
    return QuantizedActivations(packed, scales)
