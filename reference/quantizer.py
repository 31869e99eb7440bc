"""From floats to packed MXFP4 and back."""

from typing import NamedTuple

import torch

from mxassay.errors import ContractError
from mxassay.reference.dialects import EVEN, Dialect
from mxassay.reference.formats import (
    E8M0,
    as_bytes,
    check_blocks,
    check_float,
    codes_of,
    decode_packed,
    decode_scales,
    float_bits,
    pack,
    threshold_table,
)

# Few enough elements that temporaries stay in cache, enough that threads seldom wait for each other; other devices take
# everything in few launches.
_CHUNK_CPU = 1 << 21
_CHUNK_DEVICE = 1 << 26


class Quantized(NamedTuple):
    """What `quantize` returns: two uint8 tensors, `packed` (..., K/2) and `scales` (..., K/32), both contiguous."""

    packed: torch.Tensor
    scales: torch.Tensor


def quantize(x: torch.Tensor, dialect: Dialect = EVEN, *, scales: torch.Tensor | None = None) -> Quantized:
    """Quantize `x` to MXFP4, blocks of 32 along the last dimension.

    Args:
        x: bfloat16, float16 or float32 of shape (..., K), K % 32 == 0, any strides, any device. Extents may be 0.
        dialect: the scale rule, tie rule and edge values; see `mxassay.reference.dialects` for the table of edges.
        scales: uint8 (..., K/32) scale bytes to use instead of the dialect's rule. Only so can saturation be seen
            under EVEN, RCEIL and CEIL, whose own scales keep every ratio below 7.

    Returns Quantized(packed (..., K/2), scales (..., K/32)) on the device of `x`. Every block has a declared outcome:
        - zeros: scale byte 0, codes 0, or 8 where the zero is negative;
        - subnormals: exact, never flushed; scale byte 0 (or what the dialect says) and codes from x / 2^-127;
        - a block with Inf: the dialect's `infinity` byte; Inf becomes +-6, other elements x/scale, mostly +-0;
        - a block with NaN: the dialect's `nan` byte; NaN becomes +-6 by its sign bit. Where the byte is 255 all other
          codes are 0 or 8 and carry no value. EVEN's byte, 253, makes NaN finite like Inf: a declared policy, since
          what the kernel it comes from does depends on its maximum instruction.
        - saturation: magnitudes above 6 become 6 (FLOOR, and forced scales).

    Source: OCP MX specification 1.0, 6.3, and the dialect's `source`.
    Not checked: whether `scales` fit the data. torch.compile takes this function whole and gives the same bytes.

    Raises ContractError on another dtype, on K % 32 != 0 and on scales of another shape or dtype.

    >>> q = quantize(torch.tensor([0.5, 6.0] + [0.0] * 30))
    >>> hex(q.packed[0]), q.scales.tolist()
    ('0x71', [127])
    """
    check_float("x", x)
    check_blocks("x", x.shape)
    block_shape = (*x.shape[:-1], x.shape[-1] // E8M0.block)
    if torch.compiler.is_compiling() and x.dtype == torch.bfloat16 and x.device.type == "cpu" and x.is_contiguous():
        from mxassay.reference import quantizer_compiled  # loads the compiler

        given = None if scales is None else as_bytes("scales", scales, block_shape).reshape(-1)
        pairs, chosen = quantizer_compiled.quantize_pairs(x.detach().view(-1, E8M0.block), dialect, given)
        return Quantized(pairs.view(*x.shape[:-1], x.shape[-1] // 2), chosen.view(block_shape))
    table = threshold_table(x.dtype, dialect.ties, dialect.byte0_exponent, x.device)
    blocks = x.detach().reshape(-1, E8M0.block)
    packed = torch.empty(len(blocks), E8M0.block // 2, dtype=torch.uint8, device=x.device)
    if scales is None:
        forced = None
        found = torch.empty(len(blocks), dtype=torch.uint8, device=x.device)
    else:
        forced = found = as_bytes("scales", scales, block_shape).reshape(-1).contiguous()
    step = (_CHUNK_CPU if x.device.type == "cpu" else _CHUNK_DEVICE) // E8M0.block
    for start in range(0, len(blocks), step):
        chunk = slice(start, start + step)
        bits = float_bits(blocks[chunk])
        if forced is None:
            found[chunk] = dialect.scale_bytes(_amax_bits(bits))
        thresholds = table.index_select(0, found[chunk].int()).unsqueeze(1)
        packed[chunk] = pack(codes_of(bits, thresholds))
    return Quantized(packed.view(*x.shape[:-1], x.shape[-1] // 2), found.view(block_shape))


def _amax_bits(bits: torch.Tensor) -> torch.Tensor:
    """float32 bits of the largest magnitude of each row of `bits`; NaN above Inf above everything finite."""
    if bits.dtype == torch.int16:
        return (bits & 0x7FFF).amax(-1).int() << 16
    return (bits & 0x7FFFFFFF).amax(-1)


def dequantize(packed: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The values code * 2^(e - 127), shape (..., K).

    Args:
        packed: uint8 (..., K/2), the even k in the low nibble. scales: uint8 (..., K/32).
        dtype: float64 is exact for all inputs. float32 and bfloat16 are exact for scale bytes 0..252; above, values of
            2^128 and more become Inf. float16 rounds and overflows as its range demands. Under
            torch.set_flush_denormal(True) values below 2^-126 vanish, except in float64.

    Elements under scale byte 255 are NaN, zeros included. Source: OCP MX specification 1.0, 5.3.3, 5.4.1, 6.1.

    Raises ContractError on shapes that don't belong together and dtypes other than these four.

    >>> dequantize(torch.full((16,), 0x71, dtype=torch.uint8), torch.tensor([128], dtype=torch.uint8))[:2].tolist()
    [1.0, 12.0]
    """
    if dtype not in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        raise ContractError(
            f"dtype must be float64, float32, bfloat16 or float16, not {str(dtype).removeprefix('torch.')}"
        )
    packed = as_bytes("packed", packed)
    if packed.ndim == 0 or packed.shape[-1] % (E8M0.block // 2):
        raise ContractError(
            f"packed's last dimension must be a multiple of 16, not {tuple(packed.shape)}; pad K with zeros"
        )
    blocks = packed.shape[-1] // (E8M0.block // 2)
    scales = as_bytes("scales", scales, (*packed.shape[:-1], blocks))
    values = decode_packed(packed.contiguous(), torch.float64).view(*scales.shape, E8M0.block)
    return values.mul_(decode_scales(scales).unsqueeze(-1)).flatten(-2).to(dtype)
