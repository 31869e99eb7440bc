# mypy: allow-untyped-decorators
"""Loading one tile of each operand, from every layout the kernel takes.

Base pointers are scalars that already stand at the tile in 64-bit arithmetic; offsets inside a tile are 32-bit, or
64-bit with WIDE. What a mask leaves out reads as zero codes or the neutral scale byte 127, whatever the memory
behind it holds.
"""

import triton
import triton.language as tl

NEUTRAL_SCALE: tl.constexpr = tl.constexpr(127)  # E8M0 byte of 2^0, OCP MX spec 1.0, 5.4.1
SCALE_STRIPE: tl.constexpr = tl.constexpr(32)  # rows of one stripe of the e8m0 shuffle
SCALE_CHUNK: tl.constexpr = tl.constexpr(8)  # scale columns of one 256-byte chunk of the e8m0 shuffle


@triton.jit
def tile_range(SIZE: tl.constexpr, WIDE: tl.constexpr) -> tl.tensor:
    index = tl.arange(0, SIZE)
    if WIDE:
        index = index.to(tl.int64)
    return index


@triton.jit
def load_activations(
    a_ptr: tl.tensor,
    rows_left: tl.tensor,
    k_left: tl.tensor,
    stride_row: tl.tensor,
    stride_k: tl.tensor,
    TILE_M: tl.constexpr,
    TILE_K: tl.constexpr,
    EVEN_M: tl.constexpr,
    EVEN_K: tl.constexpr,
    WIDE: tl.constexpr,
) -> tl.tensor:
    """A (TILE_M, TILE_K) bfloat16 tile of A; rows from `rows_left` and columns from `k_left` on read as zero."""
    row = tile_range(TILE_M, WIDE)[:, None]
    k = tile_range(TILE_K, WIDE)[None, :]
    pointers = a_ptr + (row * stride_row + k * stride_k)
    if EVEN_M and EVEN_K:
        return tl.load(pointers)
    if EVEN_K:
        return tl.load(pointers, mask=row < rows_left, other=0.0)
    if EVEN_M:
        return tl.load(pointers, mask=k < k_left, other=0.0)
    return tl.load(pointers, mask=(row < rows_left) & (k < k_left), other=0.0)


@triton.jit
def load_linear_weights(
    w_ptr: tl.tensor,
    rows_left: tl.tensor,
    k_left: tl.tensor,
    stride_row: tl.tensor,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    EVEN_N: tl.constexpr,
    EVEN_K: tl.constexpr,
    WIDE: tl.constexpr,
) -> tl.tensor:
    """Packed codes (TILE_N, TILE_K // 2) of row-major W."""
    row = tile_range(TILE_N, WIDE)[:, None]
    byte = tl.arange(0, TILE_K // 2)[None, :]
    pointers = w_ptr + (row * stride_row + byte)
    if EVEN_N and EVEN_K:
        return tl.load(pointers, cache_modifier=".cg")
    return tl.load(pointers, mask=(row < rows_left) & (byte < k_left // 2), other=0, cache_modifier=".cg")


@triton.jit
def load_preshuffled_weights(
    w_ptr: tl.tensor,
    rows_left: tl.tensor,
    k_left: tl.tensor,
    stride_row: tl.tensor,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    EVEN_N: tl.constexpr,
    EVEN_K: tl.constexpr,
    WIDE: tl.constexpr,
) -> tl.tensor:
    """Packed codes (TILE_N, TILE_K // 2) of W in the (16,16) preshuffle; `stride_row` is K // 2.

    Sixteen rows are one run of 16 * K/2 bytes, in the order (k-tile of 32 bytes, k-half, row, byte): the tile is read
    in storage order, with wide loads, and put in order in registers. TILE_N % 16 == 0 and TILE_K % 64 == 0.
    """
    stripe = tile_range(TILE_N // 16, WIDE)[:, None]
    byte = tl.arange(0, TILE_K // 2 * 16)[None, :]
    pointers = w_ptr + (stripe * (stride_row * 16) + byte)
    if EVEN_N and EVEN_K:
        stored = tl.load(pointers, cache_modifier=".cg")
    else:
        # N and the bytes of K are whole stripes and whole k-tiles, so the mask is constant over 512-byte runs.
        mask = (stripe * 16 < rows_left) & (byte < k_left // 2 * 16)
        stored = tl.load(pointers, mask=mask, other=0, cache_modifier=".cg")
    stored = stored.reshape(TILE_N // 16, TILE_K // 64, 2, 16, 16)
    return stored.permute(0, 3, 1, 2, 4).reshape(TILE_N, TILE_K // 2)


@triton.jit
def load_linear_scales(
    s_ptr: tl.tensor,
    rows_left: tl.tensor,
    groups_left: tl.tensor,
    stride_row: tl.tensor,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    EVEN_N: tl.constexpr,
    EVEN_K: tl.constexpr,
    WIDE: tl.constexpr,
) -> tl.tensor:
    """Scale bytes (TILE_N, TILE_K // 32) of a row-major table."""
    row = tile_range(TILE_N, WIDE)[:, None]
    group = tl.arange(0, TILE_K // 32)[None, :]
    pointers = s_ptr + (row * stride_row + group)
    if EVEN_N and EVEN_K:
        return tl.load(pointers, cache_modifier=".cg")
    mask = (row < rows_left) & (group < groups_left)
    return tl.load(pointers, mask=mask, other=NEUTRAL_SCALE, cache_modifier=".cg")


@triton.jit
def load_shuffled_scales(
    s_ptr: tl.tensor,
    rows_left: tl.tensor,
    groups_left: tl.tensor,
    stride_row: tl.tensor,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    EVEN_N: tl.constexpr,
    EVEN_K: tl.constexpr,
    WIDE: tl.constexpr,
) -> tl.tensor:
    """Scale bytes (TILE_N, TILE_K // 32) of an e8m0-shuffled table whose stripes of 32 rows are 32 * stride_row "
    "bytes."

    The tile is read in storage order and put in order in registers. Padding bytes are read with the rest, since
    they lie among real ones, and then replaced: no value they hold can reach a result. TILE_N % 32 == 0 and TILE_K
    % 256 == 0.
    """
    stripe = tile_range(TILE_N // SCALE_STRIPE, WIDE)[:, None]
    byte = tl.arange(0, TILE_K)[None, :]
    pointers = s_ptr + (stripe * (stride_row * SCALE_STRIPE) + byte)
    if EVEN_N and EVEN_K:
        stored = tl.load(pointers, cache_modifier=".cg")
    else:
        mask = (stripe * SCALE_STRIPE < rows_left) & (byte // 256 * SCALE_CHUNK < groups_left)
        stored = tl.load(pointers, mask=mask, other=NEUTRAL_SCALE, cache_modifier=".cg")
    # Bytes of a chunk: (group % 4, row % 16, group % 8 // 4, row % 32 // 16).
    stored = stored.reshape(TILE_N // SCALE_STRIPE, TILE_K // 256, 4, 16, 2, 2)
    scales = stored.permute(0, 5, 3, 1, 4, 2).reshape(TILE_N, TILE_K // 32)
    if EVEN_N and EVEN_K:
        return scales
    row = tl.arange(0, TILE_N)[:, None]
    group = tl.arange(0, TILE_K // 32)[None, :]
    return tl.where((row < rows_left) & (group < groups_left), scales, NEUTRAL_SCALE).to(tl.uint8)


@triton.jit
def gather_shuffled_scales(
    s_ptr: tl.tensor,
    first_row: tl.tensor,
    first_group: tl.tensor,
    rows_left: tl.tensor,
    groups_left: tl.tensor,
    stride_row: tl.tensor,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    WIDE: tl.constexpr,
) -> tl.tensor:
    """Scale bytes (TILE_N, TILE_K // 32) of an e8m0-shuffled table by its address formula, for every tile size.

    `s_ptr` is the start of the table: a tile may begin inside a stripe or a chunk, so only the stripe is addressed
    from the tile's own first row.
    """
    row_in_tile = tl.arange(0, TILE_N)[:, None]
    group_in_tile = tl.arange(0, TILE_K // 32)[None, :]
    row = first_row % SCALE_STRIPE + row_in_tile
    group = first_group + group_in_tile
    base = s_ptr + (first_row // SCALE_STRIPE).to(tl.int64) * SCALE_STRIPE * stride_row
    stripe = row // SCALE_STRIPE
    if WIDE:
        stripe = stripe.to(tl.int64)
    offset = stripe * (stride_row * SCALE_STRIPE) + group // SCALE_CHUNK * 256
    offset += group % 4 * 64 + row % 16 * 4 + group % 8 // 4 * 2 + row % 32 // 16
    mask = (row_in_tile < rows_left) & (group_in_tile < groups_left)
    return tl.load(base + offset, mask=mask, other=NEUTRAL_SCALE, cache_modifier=".cg")
