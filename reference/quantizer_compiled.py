# mypy: allow-untyped-decorators
"""`quantize` as torch.compile sees it: the same bytes from arithmetic on pairs, which vectorizes as a whole.

Two bfloat16 numbers lie in 32 bits and are handled together. Every block's largest magnitude comes from a tree of
maxima, since a compiled reduction over 32 neighbours takes ten times as long.
"""

import torch

from mxassay.reference.dialects import Dialect
from mxassay.reference.formats import E8M0, Ties, threshold_table

_PAIRS = E8M0.block // 2
_HIGH_BITS = -0x7FFF8000  # 0x80008000 as int32: bit 15 of both halves
_SIGNS, _ONES = 0x80008, 0x10001


def quantize_pairs(
    blocks: torch.Tensor, dialect: Dialect, forced: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Packed bytes (blocks, 16) and scale bytes (blocks,) of contiguous bfloat16 `blocks` (blocks, 32).

    `forced`: uint8 scale bytes (blocks,) instead of the dialect's.
    """
    pairs = _pairs_of(blocks)
    scales = dialect.scale_bytes(_amax(pairs) << 16) if forced is None else forced
    thresholds = _constant(dialect.ties, dialect.byte0_exponent)[scales.int()]
    # With bit 15 set in front of each magnitude, no difference borrows from the other half; the bit survives where the
    # magnitude reaches the threshold.
    magnitudes = (pairs & ~_HIGH_BITS) | _HIGH_BITS
    codes = (pairs >> 12) & _SIGNS
    for j in range(1, 8):
        codes = codes + (((magnitudes - thresholds[:, j : j + 1]) >> 15) & _ONES)
    return (codes | codes >> 12).to(torch.uint8), scales


@torch.library.custom_op("mxassay::pairs_of", mutates_args=())
def _pairs_of(blocks: torch.Tensor) -> torch.Tensor:
    """int32 (blocks, 16): two bfloat16 each, the even one low. A copy, because a slice of a buffer may begin in the
    middle of 32 bits, and compiled code does not look; an operation of ours, because a compiler drops plain copies."""
    pairs = torch.empty(len(blocks), _PAIRS, dtype=torch.int32)
    pairs.view(torch.bfloat16).copy_(blocks)
    return pairs


@_pairs_of.register_fake
def _(blocks: torch.Tensor) -> torch.Tensor:
    return blocks.new_empty(blocks.shape[0], _PAIRS, dtype=torch.int32)


def _amax(pairs: torch.Tensor) -> torch.Tensor:
    """The largest 15-bit magnitude of each row of pairs."""
    largest = torch.maximum(pairs & 0x7FFF, (pairs >> 16) & 0x7FFF)
    width = _PAIRS
    while width > 1:
        width //= 2
        largest = torch.maximum(largest[:, :width], largest[:, width : 2 * width])
    return largest[:, 0]


def _thresholds_of_pairs(ties: Ties, byte0_exponent: int) -> torch.Tensor:
    """`threshold_table` for bfloat16, each threshold in both halves of an int32."""
    table = threshold_table(torch.bfloat16, ties, byte0_exponent, torch.device("cpu")).int()
    return table | table << 16


# Made once, when compiling; the compiler would otherwise trace the loops that make the table.
_constant = torch.compiler.assume_constant_result(_thresholds_of_pairs)  # type: ignore[no-untyped-call]
