# mypy: allow-untyped-decorators
"""A Triton kernel that converts pairs, each by a scale of its own, by the conversion of our kernel and nothing else."""

import torch
import triton
import triton.language as tl

from mxassay.optimized.pack import convert_pairs, encode_e2m1


@triton.jit
def _converted(
    pairs_ptr: tl.tensor, scales_ptr: tl.tensor, out_ptr: tl.tensor, SIZE: tl.constexpr, USE_ASM: tl.constexpr
) -> None:
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    pairs = tl.load(pairs_ptr + at).to(tl.uint32, bitcast=True)
    scale = tl.load(scales_ptr + at)
    if USE_ASM:
        packed = convert_pairs(pairs, scale)
    else:
        packed = encode_e2m1(pairs & 0xFFFF, scale) | (encode_e2m1(pairs >> 16, scale) << 4)
    tl.store(out_ptr + at, packed.to(tl.uint8))


def converted(pairs: torch.Tensor, scales: torch.Tensor, size: int, use_asm: bool) -> torch.Tensor:
    """uint8 (N,): both codes of each int32 pair of bfloat16 bits over 2^(scale-127); N is a multiple of `size`."""
    out = torch.empty(len(pairs), dtype=torch.uint8, device=pairs.device)
    _converted[(len(pairs) // size,)](pairs, scales.int(), out, SIZE=size, USE_ASM=use_asm)
    return out
