"""Shapes on a lattice around every tile and padding edge."""

import math

from hypothesis import strategies as st

from mxassay.kernels import Shape
from mxassay.properties.kernel import under_test

# One row, both sides of every tile height up to 64, primes.
ROWS = (1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 23, 31, 32, 33, 47, 48, 63, 64, 65)
# The contest's (16, 2112, 7168), split along K, is 58 times the usual limit.
_LARGER = 64
# Both sides of 32, 64, 128 and of the scale table's 256 rows.
COLUMNS = (16, 32, 48, 64, 80, 112, 128, 144, 240, 256, 272)
# One MFMA's depth and its neighbours, both sides of 256 and 512, an odd count of scale groups, several tiles.
DEPTHS = (64, 128, 192, 256, 320, 384, 448, 512, 576, 704, 1024, 1088, 1344, 2112)


def _fitting(sizes: tuple[int, ...], multiple: int) -> list[int]:
    return sorted({-(-size // multiple) * multiple for size in sizes})


@st.composite
def shapes(draw: st.DrawFn, most: int = 1 << 22) -> Shape:
    """(M, N, K) that the kernel's contract admits, with M*N*K at most `most`; where the smallest one exceeds it, that.

    Of a kernel that treats shapes apart every third is one of those, up to 64 times as large. Shrinks towards one row,
    one tile of columns and the shallowest K.
    """
    contract = under_test().contract
    if under_test().slow:
        most >>= 5
    rows, columns, depths = (
        _fitting(sizes, multiple) for sizes, multiple in zip((ROWS, COLUMNS, DEPTHS), contract.multiples, strict=True)
    )
    m = draw(st.sampled_from([m for m in rows if m * columns[0] * depths[0] <= most] or rows[:1]), label="M")
    n = draw(st.sampled_from([n for n in columns if m * n * depths[0] <= most] or columns[:1]), label="N")
    k = draw(st.sampled_from([k for k in depths if m * n * k <= most] or depths[:1]), label="K")
    apart = [shape for shape in contract.shapes if math.prod(shape) <= _LARGER * most]
    # Drawn last, and instead of what was drawn: with fewer draws it would be the simpler example.
    if apart and draw(st.sampled_from((False, False, True)), label="a shape that the kernel treats apart"):
        return draw(st.sampled_from(apart), label="which")
    return m, n, k
