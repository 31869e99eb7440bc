# mypy: allow-untyped-decorators
"""Few tokens: everything in registers. Each warp of a CTA has k of its own; what they have is summed at the end."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from mxassay.optimized.hopper.numbers import round_blocks, widen_words
from mxassay.optimized.hopper.places import along, blocks, scales_of_blocks, sums

_LET_NEXT_START: gl.constexpr = gl.constexpr("griddepcontrol.launch_dependents; // $0")
_WAIT_FOR_LAST: gl.constexpr = gl.constexpr("griddepcontrol.wait; // $0")


@gluon.jit
def let_next_start() -> None:
    """A kernel launched with `launch_pdl` may start once all CTAs have said so."""
    gl.inline_asm_elementwise(_LET_NEXT_START, "=r", [], dtype=gl.int32, is_pure=False, pack=1)


@gluon.jit
def wait_for_last() -> None:
    """Until the kernel before has ended and all it wrote is there."""
    gl.inline_asm_elementwise(_WAIT_FOR_LAST, "=r", [], dtype=gl.int32, is_pure=False, pack=1)


@gluon.jit
def skinny_gemm_kernel(
    a_ptr: gl.tensor,
    w_ptr: gl.tensor,
    ws_ptr: gl.tensor,
    c_ptr: gl.tensor,
    M: gl.tensor,
    N: gl.tensor,
    K: gl.tensor,
    stride_a: gl.tensor,
    stride_c_row: gl.tensor,
    stride_c_split: gl.tensor,
    TOKENS: gl.constexpr,
    ROWS: gl.constexpr,
    STEPS: gl.constexpr,
    WARPS: gl.constexpr,
    SPLITS: gl.constexpr,
    EVEN_N: gl.constexpr,
    EVEN_K: gl.constexpr,
) -> None:
    """C[split] = quantized(A)[:, span] @ W[:, span].T for TOKENS rows of A and ROWS of W.

    A span is 128 * WARPS * STEPS. a_ptr bfloat16 (M, K); w_ptr int32, preshuffled; ws_ptr shuffled; c_ptr bfloat16 or,
    with splits, float32. Grid: (tiles of N, splits, tiles of M). Rows beyond the matrices are computed from real ones
    and not stored.
    """
    MATRIX: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [WARPS, 1, 1], [1, 16, 8])
    LEFT: gl.constexpr = gl.DotOperandLayout(0, MATRIX, 2)
    RIGHT: gl.constexpr = gl.DotOperandLayout(1, MATRIX, 2)
    NUMBERS: gl.constexpr = blocks(WARPS, TOKENS, 32)
    NUMBER_BLOCKS: gl.constexpr = gl.SliceLayout(3, NUMBERS)
    WORDS: gl.constexpr = blocks(WARPS, ROWS, 4)
    WORD_BLOCKS: gl.constexpr = gl.SliceLayout(3, WORDS)
    SCALES: gl.constexpr = scales_of_blocks(WARPS, ROWS)
    first_n = gl.program_id(0) * ROWS
    split = gl.program_id(1)
    first_m = gl.program_id(2) * TOKENS
    if SPLITS > 1:
        let_next_start()

    token = gl.minimum(along(TOKENS, 1, 3, NUMBER_BLOCKS), M - 1 - first_m)
    a_block = along(WARPS, 0, 3, NUMBER_BLOCKS) * 4 + along(4, 2, 3, NUMBER_BLOCKS)
    a_offsets = gl.expand_dims(token * stride_a + a_block * 32, 3) + along(32, 3, 4, NUMBERS)
    a_tile = a_ptr + first_m.to(gl.int64) * stride_a + split * (STEPS * WARPS * 128)

    row = along(ROWS, 1, 3, WORD_BLOCKS)
    s_row = along(ROWS, 1, 3, SCALES)
    if not EVEN_N:
        row = gl.where(row < N - first_n, row, row % 16)
        s_row = gl.where(s_row < N - first_n, s_row, s_row % 16)
    w_block = along(WARPS, 0, 3, WORD_BLOCKS) * 4 + along(4, 2, 3, WORD_BLOCKS)
    w_offsets = gl.expand_dims(row // 16 * (2 * K) + row % 16 * 4 + w_block * 64, 3) + along(4, 3, 4, WORDS)
    w_tile = w_ptr + (first_n // 16).to(gl.int64) * (2 * K) + split * (STEPS * WARPS * 256)

    s_row += first_n
    s_block = along(WARPS, 0, 3, SCALES) * 4 + along(4, 2, 3, SCALES)
    s_offsets = s_row // 32 * ((K + 255) // 256 * 256) + s_row % 16 * 4 + s_row % 32 // 16

    # All loads are issued before the first result is needed. Gluon knows no starred tuples.
    numbers = ()
    words = ()
    scales = ()
    for step in gl.static_range(STEPS):
        a_pointers = a_tile + (a_offsets + step * (WARPS * 128))
        w_pointers = w_tile + (w_offsets + step * (WARPS * 256))
        first_block = (split * STEPS + step) * (WARPS * 4)
        block = first_block + s_block
        s_pointers = ws_ptr + (s_offsets + block // 8 * 256 + block % 4 * 64 + block % 8 // 4 * 2)
        if EVEN_K:
            w = gl.load(w_pointers)
            x = gl.load(a_pointers)
            s = gl.load(s_pointers)
        else:
            left = K // 32 - first_block
            w = gl.load(w_pointers, mask=gl.expand_dims(w_block < left, 3), other=0)
            x = gl.load(a_pointers, mask=gl.expand_dims(a_block < left, 3), other=0.0)
            s = gl.load(s_pointers, mask=s_block < left, other=127)
        numbers = numbers + (x,)  # type: ignore[assignment]  # noqa: RUF005
        words = words + (w,)  # type: ignore[assignment]  # noqa: RUF005
        scales = scales + (s,)  # type: ignore[assignment]  # noqa: RUF005
    accumulator = gl.zeros((WARPS, ROWS, TOKENS), gl.float32, MATRIX)
    for step in gl.static_range(STEPS):
        x = round_blocks(numbers[step], WARPS, TOKENS)
        x = x.reshape(WARPS, TOKENS, 4, 8, 2, 2).permute(0, 3, 4, 2, 5, 1).reshape(WARPS, 128, TOKENS)
        w = widen_words(words[step], scales[step])  # warp, row, t, word, e, p, i
        w = w.permute(0, 1, 3, 6, 5, 2, 4).reshape(WARPS, ROWS, 128)
        w = gl.convert_layout(w, LEFT, assert_trivial=True)
        x = gl.convert_layout(x, RIGHT, assert_trivial=True)
        accumulator = gl.nvidia.ampere.mma_v2(w, x, accumulator)

    ALL: gl.constexpr = sums(WARPS, ROWS, TOKENS)
    OUT: gl.constexpr = gl.SliceLayout(0, ALL)
    total = gl.sum(gl.convert_layout(accumulator, ALL), 0)
    n, m = along(ROWS, 0, 2, OUT), along(TOKENS, 1, 2, OUT)
    c_tile = c_ptr + first_m.to(gl.int64) * stride_c_row + first_n + split.to(gl.int64) * stride_c_split
    mask = (m < M - first_m) & (n < N - first_n)
    gl.store(c_tile + (m * stride_c_row + n), total.to(c_ptr.dtype.element_ty), mask=mask)


@gluon.jit
def sum_splits_kernel(
    partials_ptr: gl.tensor,
    out_ptr: gl.tensor,
    N: gl.tensor,
    stride_split: gl.tensor,
    stride_out: gl.tensor,
    SPLITS: gl.constexpr,
    COLUMNS: gl.constexpr,
) -> None:
    """bfloat16 sums of float32 partials (SPLITS, M, N), splits in ascending order. Grid: (columns, M). Starts while
    the kernel that writes the partials still runs."""
    LAYOUT: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    row = gl.program_id(1).to(gl.int64)
    column = gl.program_id(0) * COLUMNS + gl.arange(0, COLUMNS, LAYOUT)
    mask = column < N
    source = partials_ptr + row * N
    wait_for_last()
    total = gl.load(source + column, mask=mask, other=0.0)
    for _ in gl.static_range(SPLITS - 1):
        source += stride_split
        total += gl.load(source + column, mask=mask, other=0.0)
    gl.store(out_ptr + row * stride_out + column, total.to(gl.bfloat16), mask=mask)
