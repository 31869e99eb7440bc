"""The scale rules in use, each a row of data. A kernel under test names the dialect it implements.

All of them take the largest magnitude of a block, amax, as float32 bits, and read the scale byte off its exponent:

    byte = exponent field of (amax_bits + carry) - 2, never below 0

where `carry` alone tells the rules apart: it decides from which mantissa on amax counts as the next power of two.

    FLOOR  carry 0          never
    CEIL   carry 0x7FFFFF   from the first bit above the power of two
    RCEIL  carry 0x3FFFFF   above mantissa 1.5, so that amax/scale never exceeds 6
    EVEN   carry 0x200000   from mantissa 1.75 on, so that amax/scale stays below 7, which rounds to 6

What differs beyond that are edges: blocks of zeros, tiny blocks, blocks near the top, Inf, NaN.

| dialect              | amax >= 1.75*2^127 | Inf | NaN | tiny blocks                                    |
|----------------------|--------------------|-----|-----|------------------------------------------------|
| EVEN                 | 253                | 253 | 253 | byte 0 is 2^-127                               |
| EVEN_AITER           | 254                | 254 | 254 | byte 0 is 2^-127                               |
| EVEN_AITER_MX        | 255                | 255 | 255 | byte 0 is 2^-127                               |
| EVEN_TORCHAO         | 253                | 253 | 255 | elements of byte 0 are divided by 2^-126       |
| FLOOR                | 252                | 253 | 255 | byte 0 is 2^-127                               |
| FLOOR_AITER_MX       | 252                | 255 | 255 | byte 0 is 2^-127                               |
| FLOOR_TORCHAO        | 252                | 253 | 255 | elements of byte 0 are divided by 2^-126       |
| CEIL                 | 253                | 253 | 255 | byte 0 is 2^-127                               |
| CEIL_AITER_MX        | 253                | 255 | 255 | byte 1 is the least for amax > 2^-148          |
| CEIL_TORCHAO         | 253                | 253 | 255 | elements of byte 0 are divided by 2^-126       |
| RCEIL                | 253                | 254 | 255 | byte 0 is 2^-127                               |
| RCEIL_AITER_MX       | 253                | 255 | 255 | byte 1 is the least for amax > 3*2^-149        |
| RCEIL_TORCHAO        | 253                | 254 | 255 | elements of byte 0 are divided by 1            |

A block of zeros has scale byte 0 in every dialect. The NaN column holds for the default quiet NaN, 0x7FC00000. Adding
EVEN's carry to a NaN of 0x7FE00000 or more runs into the sign bit, and then aiter's op test gives 0 (so it does for the
NaN, 0xFFFF, that torch's CPU cast to bfloat16 makes). Our dialects take the column for every NaN.
"""

from dataclasses import dataclass, replace

import torch

from mxassay.errors import UnsupportedError
from mxassay.reference.formats import Ties

_INFINITY = 0x7F800000  # float32
_MANTISSA = 23


@dataclass(frozen=True)
class Dialect:
    """A named set of choices: scale rule, tie rule, edge values.

    Attributes:
        name: the key in DIALECTS.
        carry: what is added to amax's float32 bits before the mantissa is dropped.
        overflow: the scale byte of a finite block whose rounded amax reaches 2^128.
        infinity: the scale byte of a block that holds an Inf and no NaN.
        nan: the scale byte of a block that holds a NaN.
        least: the least scale byte of a block whose amax bits exceed `zero_up_to`.
        zero_up_to: the largest amax, as float32 bits, that counts as zero for `least`.
        byte0_exponent: the exponent that elements under scale byte 0 are divided by.
        ties: where a midpoint between two codes goes.
        source: who defines it.
    """

    name: str
    carry: int
    overflow: int
    infinity: int
    nan: int
    source: str
    least: int = 0
    zero_up_to: int = 0
    byte0_exponent: int = -127
    ties: Ties = "even"

    def scale_bytes(self, amax_bits: torch.Tensor) -> torch.Tensor:
        """The scale byte of each block.

        `amax_bits`: int32, any shape, the bits of the block's largest magnitude as float32 (sign bit clear; Inf is
        0x7F800000, a NaN anything above it). Returns uint8 of that shape.

        >>> EVEN.scale_bytes(torch.tensor([7.0, 6.9]).view(torch.int32)).tolist()
        [128, 127]
        """
        finite = amax_bits.clamp(max=_INFINITY - 1)
        field = (finite + self.carry) >> _MANTISSA
        byte = (field - 2).clamp_(min=0)
        if self.least:
            byte = torch.where(finite > self.zero_up_to, byte.clamp(min=self.least), byte)
        byte.masked_fill_(field == 255, self.overflow)
        byte.masked_fill_(amax_bits == _INFINITY, self.infinity)
        byte.masked_fill_(amax_bits > _INFINITY, self.nan)
        return byte.to(torch.uint8)


_TORCHAO = "torchao 0.18 to_mx, eager"
_AITER_MX = "aiter fp4_utils.f32_to_mx_e8m0_scale"

EVEN = Dialect(
    name="even",
    carry=0x200000,
    overflow=253,
    infinity=253,
    nan=253,
    source="GPU MODE amd-mxfp4-mm submission 748756: exponent - 129 clamped to [-127, 127]; NaN: declared policy",
)
EVEN_AITER = replace(
    EVEN,
    name="even-aiter",
    overflow=254,
    infinity=254,
    nan=254,
    source="aiter op test torch_dynamic_mxfp4_quant: log2, then clamp to [-127, 127]; NaN: see above",
)
EVEN_AITER_MX = replace(EVEN, name="even-aiter-mx", overflow=255, infinity=255, nan=255, source=_AITER_MX)
EVEN_TORCHAO = replace(EVEN, name="even-torchao", nan=255, byte0_exponent=-126, source=_TORCHAO)

FLOOR = Dialect(
    name="floor",
    carry=0,
    overflow=253,
    infinity=253,
    nan=255,
    source="OCP MX specification 1.0, 6.3; Inf and NaN as torchao FLOOR",
)
FLOOR_AITER_MX = replace(FLOOR, name="floor-aiter-mx", infinity=255, source=_AITER_MX)
FLOOR_TORCHAO = replace(FLOOR, name="floor-torchao", byte0_exponent=-126, source=_TORCHAO)

CEIL = replace(FLOOR, name="ceil", carry=0x7FFFFF, source="torchao CEIL, with the E8M0 reading of byte 0")
CEIL_AITER_MX = replace(CEIL, name="ceil-aiter-mx", infinity=255, least=1, zero_up_to=2, source=_AITER_MX)
CEIL_TORCHAO = replace(CEIL, name="ceil-torchao", byte0_exponent=-126, source=_TORCHAO)

RCEIL = replace(
    CEIL,
    name="rceil",
    carry=0x3FFFFF,
    infinity=254,
    source="NVIDIA cuBLAS 1D block scaling; torchao RCEIL; byte 0 as E8M0",
)
RCEIL_AITER_MX = replace(RCEIL, name="rceil-aiter-mx", infinity=255, least=1, zero_up_to=3, source=_AITER_MX)
RCEIL_TORCHAO = replace(RCEIL, name="rceil-torchao", byte0_exponent=0, source=_TORCHAO)

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        EVEN,
        EVEN_AITER,
        EVEN_AITER_MX,
        EVEN_TORCHAO,
        FLOOR,
        FLOOR_AITER_MX,
        FLOOR_TORCHAO,
        CEIL,
        CEIL_AITER_MX,
        CEIL_TORCHAO,
        RCEIL,
        RCEIL_AITER_MX,
        RCEIL_TORCHAO,
    )
}


def dialect_named(name: str) -> Dialect:
    """The dialect called `name`.

    Raises UnsupportedError when there is none.

    >>> dialect_named("even") is EVEN
    True
    """
    if name not in DIALECTS:
        raise UnsupportedError(f"dialect must be one of {', '.join(DIALECTS)}, not {name!r}")
    return DIALECTS[name]
