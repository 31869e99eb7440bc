"""Oracles in exact rational arithmetic, and operands for products."""

import bisect
from fractions import Fraction

import pytest
import torch
from hypothesis import strategies as st

MAGNITUDES = [Fraction(m) for m in ("0", "1/2", "1", "3/2", "2", "3", "4", "6")]


def _bfloat16_of(value: Fraction) -> int:
    """The bits of the bfloat16 nearest to `value`, by searching the sorted list of all of them; zero is +0."""
    grid = _bfloat16_grid()
    size = abs(value)
    above = bisect.bisect_left(grid, size)
    if above == len(grid):
        found = 0x7F80
    elif above == 0 or grid[above] == size:
        found = above
    else:
        low, high = size - grid[above - 1], grid[above] - size
        found = above - 1 if low < high or (low == high and above % 2) else above
    return found | (0x8000 if value < 0 else 0)


_GRID: list[Fraction] = []


def _bfloat16_grid() -> list[Fraction]:
    if not _GRID:
        finite = torch.arange(0x7F80, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).double()
        # Inf stands where the next number would be: rounding to it is overflow.
        _GRID.extend([Fraction(x) for x in finite.tolist()] + [Fraction(2) ** 128])
    return _GRID


def _terms(a, a_scales, b, b_scales, i, j) -> list[Fraction]:
    """All products of output (i, j), decoded nibble by nibble."""
    found = []
    for k in range(2 * a.shape[1]):
        factors = []
        for packed, scales, row in ((a, a_scales, i), (b, b_scales, j)):
            code = int(packed[row, k // 2]) >> 4 * (k % 2) & 15
            value = MAGNITUDES[code & 7] * Fraction(2) ** (int(scales[row, k // 32]) - 127)
            factors.append(-value if code & 8 else value)
        found.append(factors[0] * factors[1])
    return found


@pytest.fixture(scope="session")
def bfloat16_of():
    return _bfloat16_of


@pytest.fixture(scope="session")
def terms_of():
    return _terms


def _codes(pool: str):
    nibbles = {
        "any": list(range(16)),
        "sparse": [0, 0, 0, 0, 0, 0, 1, 7, 9, 12, 8],
        "powers": [0, 1, 2, 4, 6, 9, 14],
    }[pool]
    return st.sampled_from(nibbles)


@st.composite
def _operands(draw, scale_ranges=((0, 254), (100, 160), (124, 130), (0, 20), (120, 254), (0, 255)), max_blocks=4):
    """a, a_scales, b, b_scales of a small product; the scales spread over one of `scale_ranges`."""
    m, n = draw(st.integers(1, 3), label="M"), draw(st.integers(1, 3), label="N")
    blocks = draw(st.integers(1, max_blocks), label="blocks of K")
    low, high = draw(st.sampled_from(scale_ranges), label="scale bytes")
    pool = draw(st.sampled_from(["any", "sparse", "powers"]), label="codes")
    found = []
    for rows in (m, n):
        seed = draw(st.lists(_codes(pool), min_size=8, max_size=8))
        generator = draw(st.randoms(use_true_random=False))
        packed = [
            [generator.choice(seed) | generator.choice(seed) << 4 for _ in range(16 * blocks)] for _ in range(rows)
        ]
        scales = draw(
            st.lists(st.lists(st.integers(low, high), min_size=blocks, max_size=blocks), min_size=rows, max_size=rows)
        )
        found += [torch.tensor(packed, dtype=torch.uint8), torch.tensor(scales, dtype=torch.uint8)]
    return tuple(found)


@pytest.fixture(scope="session")
def operands():
    return _operands
