"""Blocks of 32 bfloat16 activations: sharp, special, arbitrary."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import torch
from hypothesis import strategies as st

from mxassay.properties.kernel import under_test
from mxassay.properties.reading import ReadsWell
from mxassay.reference import E2M1

BLOCK = 32
_INFINITY, _SUBNORMAL = 0x7F80, 0x007F

# Ratios to the scale at which the code changes, and the codes themselves.
RATIOS = tuple(sorted({*E2M1.midpoints, *(value for value in E2M1.values[1:8])}))


@dataclass(frozen=True, repr=False)
class Block(ReadsWell):
    """32 bfloat16 numbers, given by the bits of the first ones; zeros stand behind them. Its repr shows bits."""

    bits: tuple[int, ...]
    name: str = ""

    @property
    def values(self) -> torch.Tensor:
        """bfloat16 (32,)."""
        return stacked([self])[0]

    def __repr__(self) -> str:
        if self.name:
            return f"<block: {self.name}>"
        shown = [f"{place}: {bits:#06x}" for place, bits in enumerate(self.bits) if bits]
        return f"<block {', '.join(shown) or 'of zeros'}>"


def stacked(blocks: Iterable[Block]) -> torch.Tensor:
    """bfloat16 (len(blocks), 32).

    >>> stacked([Block((0x3F80,))])[0, :2].tolist()
    [1.0, 0.0]
    """
    rows = [[*block.bits, *[0] * (BLOCK - len(block.bits))] for block in blocks]
    return torch.tensor(rows, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)


@cache
def _bits_of(ratio: float, exponent: int) -> int:
    """The bits of the bfloat16 ratio * 2^exponent, or of its neighbour toward zero."""
    exact = torch.tensor(ratio, dtype=torch.float64) * 2.0**exponent
    near = exact.to(torch.bfloat16)
    return int(near.view(torch.int16)) & 0x7FFF


@st.composite
def sharp_blocks(draw: st.DrawFn) -> Block:
    """A largest magnitude of any exponent and mantissa, and elements at the ratios where codes change,
    exactly or one unit in the last place beside, with both signs.

    Shrinks towards few elements at a tie, scale 1.
    """
    field = draw(st.sampled_from((129, 130, 128, 2, 1, 3, 8, 134, 200, 253, 254)) | st.integers(1, 254), label="field")
    mantissa = draw(st.sampled_from((0, 0x40, 0x5F, 0x60, 0x61, 0x7F)) | st.integers(0, 127), label="mantissa")
    one = st.tuples(st.sampled_from(RATIOS), st.sampled_from((0, 1, -1)), st.booleans())
    drawn = draw(st.lists(one, max_size=BLOCK - 1), label="(ratio, units beside, negative)")
    bits = [field << 7 | mantissa, *_at_ratios(field << 7 | mantissa, drawn)]
    place = draw(st.integers(0, BLOCK - 1), label="place of the largest")
    bits += [0] * (BLOCK - len(bits))
    return Block(tuple(bits[-place:] + bits[:-place]))


def _at_ratios(amax: int, elements: Iterable[tuple[float, int, bool]]) -> list[int]:
    """The bits of elements at (ratio, units beside, negative), none beyond amax."""
    # The scale of EVEN; other dialects lie at most one step beside, where these ratios are sharp as well.
    exponent = max((amax + 0x20) >> 7, 2) - 2 - 127
    return [
        min(max(_bits_of(ratio, exponent) + units, 0), amax) | (0x8000 if negative else 0)
        for ratio, units, negative in elements
    ]


# Of the largest magnitude, where rules turn (CEIL above 0, RCEIL above 0x40, EVEN at 0x60), and beside.
_TURNS = (0, 1, 0x3F, 0x40, 0x41, 0x5F, 0x60, 0x61, 0x7F)


def turning_blocks(field: int = 129) -> list[list[Block]]:
    """By mantissa of the largest magnitude, at or beside which a rule of scales turns: blocks with an element at every
    ratio where codes change, exactly there and one unit beside. Where two rules give a row other scales, every block of
    it gets other values.
    """
    rows = []
    for mantissa in _TURNS:
        amax = field << 7 | mantissa
        elements = [[(ratio, units, i % 2 == 0) for i, ratio in enumerate(RATIOS)] for units in (0, 1, -1)]
        rows.append([Block((*_at_ratios(amax, row), amax)) for row in elements])
    return rows


_SPECIAL: dict[str, list[int]] = {
    "zeros": [],
    "one -0": [0x8000],
    "all -0": [0x8000] * BLOCK,
    "one-hot 1": [0x3F80],
    "one-hot at the end": [0] * 31 + [0x3F80],
    "outlier among ones": [0x3F80] * 16 + [0x4B00] + [0x3F80] * 15,
    "least subnormal": [0x0001],
    "largest subnormal": [_SUBNORMAL, 0x807F, 0x0001, 0x0040],
    "subnormal and normal": [0x0080, _SUBNORMAL, 0x0020, 0x8001],
    "largest finite": [0x7F7F, 0xFF7F, 0x7F00, 0x3F80],
    "1.75 * 2^127": [0x7F60, 0x7F5F, 0xFF40],
    "just below 1.75 * 2^127": [0x7F5F, 0x7F00],
    "Inf": [_INFINITY, 0x3F80, 0x7F00],
    "-Inf": [0xFF80, 0x3F80],
    "Inf and -Inf": [_INFINITY, 0xFF80],
    "NaN": [0x7FC0, 0x3F80],
    "NaN last": [0x3F80] * 31 + [0x7FC0],
    "negative NaN": [0xFFC0, 0x3F80],
    "signalling NaN": [0x7F81, 0x3F80],
    "NaN of all ones": [0xFFFF, 0x4000],
    "NaN and Inf": [0x7FC0, _INFINITY, 0x3F80],
}
SPECIAL: dict[str, Block] = {name: Block(tuple(bits), name) for name, bits in _SPECIAL.items()}
"""Blocks by hand."""


def special_blocks() -> st.SearchStrategy[Block]:
    """One of SPECIAL."""
    return st.sampled_from(list(SPECIAL.values()))


def any_blocks() -> st.SearchStrategy[Block]:
    """A block of any bit patterns."""
    return st.lists(st.integers(0, 0xFFFF), max_size=BLOCK).map(lambda bits: Block(tuple(bits)))


def blocks() -> st.SearchStrategy[Block]:
    """A sharp, special or arbitrary block."""
    return sharp_blocks() | special_blocks() | any_blocks()


@st.composite
def usable_blocks(draw: st.DrawFn, palette: st.SearchStrategy[Block] | None = None) -> Block:
    """A block of the palette (sharp or special without one) whose product the device can give in full range.

    Where Triton widens code times scale to bfloat16, scales near both ends are left out, NaN and Inf with them.
    """
    palette = sharp_blocks() | special_blocks() | any_blocks() if palette is None else palette
    return draw(palette if under_test().full_range else palette.filter(fits_bfloat16))


def fits_bfloat16(block: Block) -> bool:
    """Whether every code times its scale is a normal bfloat16, in every dialect."""
    amax = max((bits & 0x7FFF for bits in block.bits), default=0)
    return amax == 0 or 8 << 7 <= amax < 250 << 7
