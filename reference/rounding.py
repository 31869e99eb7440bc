"""One rounding, on bits: conversions that torch does in two steps or that flush-to-zero modes would spoil."""

import torch

from mxassay.errors import ContractError


def round_to_bfloat16(x: torch.Tensor) -> torch.Tensor:
    """float64 `x` (any shape) to bfloat16, to nearest, ties to even, in one rounding.

    Subnormal results are rounded on their own coarser grid; 2^128 - 2^119 and above become Inf; zeros keep their sign;
    NaN becomes a quiet NaN. Source: IEEE 754-2019, 4.3.1. Going through float32, as torch's cast does, rounds twice.

    Raises ContractError on another dtype.

    >>> x = torch.tensor([1 + 2**-8 + 2**-40], dtype=torch.float64)
    >>> round_to_bfloat16(x).item(), x.float().bfloat16().item()
    (1.0078125, 1.0)
    """
    if x.dtype != torch.float64:
        raise ContractError(f"x must be float64, not {str(x.dtype).removeprefix('torch.')}; call double()")
    bits = x.view(torch.int64)
    magnitude = bits & 0x7FFFFFFFFFFFFFFF
    # float64 stores 52 mantissa bits and bfloat16 7: drop 45, and rebias the exponent from 1023 to 127.
    nearest = (magnitude + (2**44 - 1) + (magnitude >> 45 & 1)) >> 45
    normal = (nearest - (1023 - 127 << 7)).clamp(max=0x7F80)
    # Counted in the least subnormal, 2^-133, a subnormal's magnitude is its bit pattern, and 128 the first normal.
    subnormal = torch.round(x.abs() * 2.0**133).clamp(max=128).nan_to_num(0).long()
    result = torch.where(magnitude < (1023 - 126 << 52), subnormal, normal)
    result = torch.where(magnitude > 0x7FF0000000000000, 0x7FC0, result)
    return (result | (bits >> 63 & 1) << 15).to(torch.int16).view(torch.bfloat16)


def power_of_two(exponent: torch.Tensor) -> torch.Tensor:
    """2^exponent as float64, from int64 exponents within -1022..1023. torch.ldexp would go through float32."""
    return ((exponent + 1023) << 52).view(torch.float64)
