"""The conversion instruction v_cvt_scalef32_pk_fp4_bf16 of gfx950, as a function on bits."""

from dataclasses import dataclass
from typing import Literal

import torch

from mxassay.errors import ContractError
from mxassay.reference.formats import E8M0, codes_of, threshold_table


@dataclass(frozen=True)
class CvtPolicy:
    """What the model answers where no public source says what the silicon does. Every default is a declared policy.

    Attributes:
        negative_nan: the code of -NaN, 0..15. AMD's hardware test covers +NaN alone (code 7). Default 15: the sign is
            kept.
        negative_zero: the code of -0.0, 8 or 0. Default 8: the sign is kept.
        denormals: "keep" converts bfloat16 subnormals by value, "flush" treats them as zeros of their sign.
        scale_0_exponent: the exponent that scale field 0 stands for. -127 is the E8M0 reading, -126 that of a float32
            subnormal.
        scale_255: what scale field 255 does. "sign_seven" writes the codes of +-6 by sign (HIP's host header),
            "keep_old" leaves the destination byte unchanged (AMD's rocjitsu emulator).
    """

    negative_nan: int = 15
    negative_zero: int = 8
    denormals: Literal["keep", "flush"] = "keep"
    scale_0_exponent: int = -127
    scale_255: Literal["sign_seven", "keep_old"] = "sign_seven"

    def __post_init__(self) -> None:
        for name, legal in (
            ("negative_nan", range(16)),
            ("negative_zero", (0, 8)),
            ("denormals", ("keep", "flush")),
            ("scale_0_exponent", (-127, -126)),
            ("scale_255", ("sign_seven", "keep_old")),
        ):
            if getattr(self, name) not in legal:
                raise ContractError(f"{name} must be one of {', '.join(map(str, legal))}, not {getattr(self, name)!r}")


DECLARED = CvtPolicy()


def cvt_scalef32_pk_fp4_bf16(
    pair_u32: torch.Tensor | int,
    scale_u32: torch.Tensor | int,
    old: torch.Tensor | int,
    byte: int = 0,
    policy: CvtPolicy = DECLARED,
) -> torch.Tensor:
    """Two bfloat16 numbers to one byte of two E2M1 codes, inside a 32-bit register.

    Args, integers or integer tensors that broadcast against each other, read modulo 2^32:
        pair_u32: two bfloat16 bit patterns; bits 15:0 become the low nibble, bits 31:16 the high one.
        scale_u32: a float32 bit pattern of which only bits 30:23, e, count; elements are divided by 2^(e - 127).
        old: the destination register before. byte: which of its bytes 0..3 is written (OPSEL[3:2]); the others stay.
        policy: the answers to what is unknown.

    Returns int64, values 0..2^32-1, of the broadcast shape.

    Exact for every finite bfloat16 but -0 and subnormals, for Inf (+-6) and +NaN (+6), and e in 1..254: rounding to
    nearest, ties to the even code, saturation at +-6, the sign kept. Source: AMD CDNA4 ISA (byte select, scale bits);
    AMD's rocjitsu, HIP and Composable Kernel agree on the rounding; a hardware test covers the float32 variant's +NaN
    and Inf. The rest is `policy`. Not modelled: EXEC, and the wait that the result needs before it is read (LLVM PR
    #117844).

    Raises ContractError when byte is not 0..3 or an argument is not of integers.

    >>> hex(int(cvt_scalef32_pk_fp4_bf16(0x40C0_3F00, 127 << 23, 0xAABBCCDD, byte=1)))
    '0xaabb71dd'
    """
    if byte not in (0, 1, 2, 3):
        raise ContractError(f"byte must be 0, 1, 2 or 3, not {byte!r}")
    given = {"pair_u32": pair_u32, "scale_u32": scale_u32, "old": old}
    device = next((value.device for value in given.values() if isinstance(value, torch.Tensor)), torch.device("cpu"))
    registers = [_register(name, value, device) for name, value in given.items()]
    pair, scale, before = torch.broadcast_tensors(*registers)  # type: ignore[no-untyped-call]
    exponent = scale >> 23 & 0xFF
    low, high = _code(pair & 0xFFFF, exponent, policy), _code(pair >> 16, exponent, policy)
    shift = 8 * byte
    after = before & ~(0xFF << shift) | (low | high << 4) << shift
    return torch.where(exponent == E8M0.nan, before, after) if policy.scale_255 == "keep_old" else after


def _register(name: str, value: torch.Tensor | int, device: torch.device) -> torch.Tensor:
    tensor = torch.as_tensor(value, device=device)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise ContractError(
            f"{name} must hold integers, not {str(tensor.dtype).removeprefix('torch.')}; view its bits as integers"
        )
    return tensor.to(torch.int64) & 0xFFFFFFFF


def _code(bits: torch.Tensor, exponent: torch.Tensor, policy: CvtPolicy) -> torch.Tensor:
    """int64 codes of bfloat16 `bits` under scale exponents 0..255."""
    magnitude = bits & 0x7FFF
    sign = bits >> 12 & 8
    if policy.denormals == "flush":
        bits = torch.where(magnitude < 0x0080, bits & 0x8000, bits)
    table = threshold_table(torch.bfloat16, "even", policy.scale_0_exponent, bits.device)
    codes = codes_of(bits.to(torch.int16), table[exponent]).long()
    codes = torch.where(bits == 0x8000, policy.negative_zero, codes)
    codes = torch.where(bits > 0xFF80, policy.negative_nan, codes)
    return torch.where(exponent == E8M0.nan, sign | 7, codes)
