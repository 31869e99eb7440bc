# mypy: allow-untyped-decorators
"""Where elements of a tile lie in lanes and registers.

Fragments of the tensor cores put row `g` (and `g + 8`) into the four lanes `4 * g + t`, and of every 16 k the numbers
2t, 2t + 1, 2t + 8 and 2t + 9 into lane t (PTX ISA, "Matrix Fragments for mma.m16n8k16"). Both operands may count k in
any order, as long as it is the same. Here lane t takes LENGTH k of every group of 4 * LENGTH: a whole block of 32,
whose largest magnitude is found without an exchange, or half a one. The order that the tensor cores see is called K':
position 16 * i + 8 * p + 2 * t + e of a group holds element 4 * i + 2 * p + e of lane t.
"""

from typing import Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.constexpr_function
def bases(axis: int, rank: int, first: int, last: int) -> list[list[int]]:
    """The bases first, 2 * first, ... below last along an axis."""
    found = []
    while first < last:
        found.append([first if d == axis else 0 for d in range(rank)])
        first *= 2
    return found


@gluon.constexpr_function
def numbers_of_tokens(WARPS: int, TOKENS: int, LENGTH: int) -> Any:
    """(WARPS, TOKENS // 8, 8, 4, LENGTH): a warp has all tokens of its own 4 * LENGTH k, a lane LENGTH items of every
    eighth token. Axes that lie in registers are apart from those along lanes, so that addresses differ by constants."""
    lane = bases(3, 5, 1, 4) + bases(2, 5, 1, 8)
    register = bases(4, 5, 1, LENGTH) + bases(1, 5, 1, TOKENS // 8)
    shape = [WARPS, TOKENS // 8, 8, 4, LENGTH]
    return gl.DistributedLinearLayout(register, lane, bases(0, 5, 1, WARPS), [], shape)


@gluon.constexpr_function
def words_of_rows(WARPS: int, ROWS: int, LENGTH: int) -> Any:
    """(WARPS, ROWS // 16, 2, 8, 4, LENGTH): rows as stripe, half of a stripe, row of eight; a lane has LENGTH words."""
    lane = bases(4, 6, 1, 4) + bases(3, 6, 1, 8)
    register = bases(5, 6, 1, LENGTH) + bases(2, 6, 1, 2) + bases(1, 6, 1, ROWS // 16)
    shape = [WARPS, ROWS // 16, 2, 8, 4, LENGTH]
    return gl.DistributedLinearLayout(register, lane, bases(0, 6, 1, WARPS), [], shape)


@gluon.constexpr_function
def scales_of_rows(WARPS: int, ROWS: int) -> Any:
    """(WARPS, ROWS // 32, 2, 8, 4): beside `words_of_rows`, the scales of rows n and n + 16 in one place."""
    lane = bases(4, 5, 1, 4) + bases(3, 5, 1, 8)
    register = bases(2, 5, 1, 2) + bases(1, 5, 1, ROWS // 32)
    shape = [WARPS, ROWS // 32, 2, 8, 4]
    return gl.DistributedLinearLayout(register, lane, bases(0, 5, 1, WARPS), [], shape)


@gluon.constexpr_function
def sums(WARPS: int, ROWS: int, TOKENS: int) -> Any:
    """(WARPS, ROWS, TOKENS): what the warps have for an output in one lane, rows along lanes."""
    free = bases(1, 3, 1, ROWS) + bases(2, 3, 1, TOKENS)
    lane, rest = free[:5], free[5:]
    warp: list[list[int]] = []
    while 1 << len(warp) < WARPS:
        warp.append(rest.pop() if rest else [0, 0, 0])
    return gl.DistributedLinearLayout(bases(0, 3, 1, WARPS) + rest, lane, warp, [], [WARPS, ROWS, TOKENS])


@gluon.constexpr_function
def stored_codes(ROWS: int, WARPS: int) -> Any:
    """(ROWS // 16, 8, 32) words of 128 k as the preshuffle stores them: stripe; row // 8 + 2 * block; row % 8 * 4 +
    word. A warp has a stripe."""
    register = [[0, 0, 1], [0, 0, 2], [0, 1, 0]]
    lane = [[0, 2, 0], [0, 4, 0], [0, 0, 4], [0, 0, 8], [0, 0, 16]]
    return gl.DistributedLinearLayout(register, lane, bases(0, 3, 1, WARPS), [], [ROWS // 16, 8, 32])


@gluon.constexpr_function
def stored_scales(ROWS: int, WARPS: int) -> Any:
    """(ROWS // 32, 256) bytes of 256 k as the e8m0 shuffle stores them: block % 4 * 64 + row % 16 * 4 + half of K * 2 +
    row % 32 // 16. Beside `stored_codes`, both halves of K in one lane."""
    lane = [[0, 64], [0, 128], [0, 4], [0, 8], [0, 16]]
    warp = [[0, 1], *bases(0, 2, 1, WARPS // 2)]
    return gl.DistributedLinearLayout([[0, 2], [0, 32]], lane, warp, [], [ROWS // 32, 256])


@gluon.constexpr_function
def sliced(axis: int, rank: int, layout: Any) -> Any:
    """The layout of a vector along one axis of a layout."""
    for d in reversed(range(rank)):
        if d != axis:
            layout = gl.SliceLayout(d, layout)
    return layout


@gluon.jit
def along(SIZE: gl.constexpr, AXIS: gl.constexpr, RANK: gl.constexpr, LAYOUT: gl.constexpr) -> gl.tensor:
    """0, 1, ... along an axis; all others have the size 1."""
    x = gl.arange(0, SIZE, sliced(AXIS, RANK, LAYOUT))
    for d in gl.static_range(RANK):
        if d != AXIS:
            x = gl.expand_dims(x, d)
    return x
