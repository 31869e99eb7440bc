# mypy: allow-untyped-decorators
"""Where the numbers of the gfx950 kernel with chosen layouts lie: in registers, and on their way through LDS."""

from typing import Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.constexpr_function
def block_layout(TILE_M: int, TILE_K: int, WARPS: int) -> Any:
    """Pairs int32 (TILE_M, TILE_K // 2): lane m + 16 * (block % 4) holds the sixteen pairs of a block; waves share K,
    then rows."""
    lane = [[1, 0], [2, 0], [4, 0], [8, 0], [0, 16], [0, 32]]
    register = [[0, 1], [0, 2], [0, 4], [0, 8]]
    warp: list[list[int]] = []
    k, m = 64, 16
    while 1 << len(warp) < WARPS:
        if k < TILE_K // 2:
            warp.append([0, k])
            k *= 2
        elif m < TILE_M:
            warp.append([m, 0])
            m *= 2
        else:
            warp.append([0, 0])
    while k < TILE_K // 2:
        register.append([0, k])
        k *= 2
    while m < TILE_M:
        register.append([m, 0])
        m *= 2
    return gl.DistributedLinearLayout(register, lane, warp, [], [TILE_M, TILE_K // 2])


@gluon.constexpr_function
def row_layout(COLUMNS: int, WARPS: int) -> Any:
    """Rows of 4-byte numbers as memory is read best: 16 bytes a lane, neighbours beside each other."""
    lanes = min(64, COLUMNS // 4)
    return gl.BlockedLayout([1, 4], [64 // lanes, lanes], [WARPS, 1], [1, 0])


@gluon.constexpr_function
def stripe_layout(TILE_N: int, TILE_K: int, WARPS: int) -> Any:
    """Shuffled scale bytes (TILE_N // 32, TILE_K): a lane's four neighbours are its two tiles of rows by two halves of
    K."""
    lane = [[0, 4 << i] for i in range(6)]
    register = [[0, 1], [0, 2]]
    k = 256
    while k < TILE_K:
        register.append([0, k])
        k *= 2
    warp: list[list[int]] = []
    stripe = 1
    while 1 << len(warp) < WARPS:
        warp.append([stripe, 0])
        stripe *= 2
    while stripe < TILE_N // 32:
        register.append([stripe, 0])
        stripe *= 2
    return gl.DistributedLinearLayout(register, lane, warp, [], [TILE_N // 32, TILE_K])


@gluon.constexpr_function
def shared_rows(ROWS: int, COLUMNS: int, PADDING: int) -> Any:
    """(ROWS, COLUMNS) in LDS row by row, with 16 bytes (PADDING elements) after each row of a power of two: sixteen
    lanes that read the same 16 bytes of sixteen rows then use all banks once."""
    return gl.PaddedSharedLayout.with_identity_for([[COLUMNS, PADDING]], [ROWS, COLUMNS], [1, 0])


@gluon.constexpr_function
def shared_scales(ROWS: int, BLOCKS: int) -> Any:
    """Scale bytes (ROWS, BLOCKS) in LDS: those of one row and of the same quarter of each 128 along K are neighbours,
    as a lane of the MFMA wants them."""
    steps: list[list[int]] = []
    while 4 << len(steps) < BLOCKS:
        steps.append([0, 4 << len(steps)])
    rows: list[list[int]] = []
    while 1 << len(rows) < ROWS:
        rows.append([1 << len(rows), 0])
    return gl.SharedLinearLayout([*steps, *rows[:4], [0, 1], [0, 2], *rows[4:]])
