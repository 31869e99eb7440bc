# mypy: allow-untyped-decorators
"""Few tokens: everything in registers. Each warp of a CTA has k of its own; what they have is summed at the end."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from mxassay.optimized.hopper.numbers import factors, round_blocks, tables, widen_words
from mxassay.optimized.hopper.places import along, numbers_of_tokens, scales_of_rows, sums, words_of_rows

LENGTH: gl.constexpr = gl.constexpr(16)  # k of a lane, half a block: so many warps find work on few tiles
GROUP: gl.constexpr = gl.constexpr(4 * 16)  # k of a warp

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
    EVEN_M: gl.constexpr,
    EVEN_N: gl.constexpr,
    EVEN_K: gl.constexpr,
) -> None:
    """C[split] = quantized(A)[:, span] @ W[:, span].T for TOKENS rows of A and ROWS of W.

    A span is 64 * WARPS * STEPS. a_ptr bfloat16 (M, K); w_ptr int32, preshuffled; ws_ptr int16, shuffled; c_ptr
    bfloat16 or, with splits, float32. Grid: (tiles of N, splits, tiles of M). Rows beyond the matrices are computed
    from real ones and not stored.
    """
    MATRIX: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [WARPS, 1, 1], [1, 16, 8])
    LEFT: gl.constexpr = gl.DotOperandLayout(0, MATRIX, 2)
    RIGHT: gl.constexpr = gl.DotOperandLayout(1, MATRIX, 2)
    NUMBERS: gl.constexpr = numbers_of_tokens(WARPS, TOKENS, LENGTH)
    OF_NUMBERS: gl.constexpr = gl.SliceLayout(4, NUMBERS)
    WORDS: gl.constexpr = words_of_rows(WARPS, ROWS, LENGTH // 8)
    OF_WORDS: gl.constexpr = gl.SliceLayout(5, WORDS)
    SCALES: gl.constexpr = scales_of_rows(WARPS, ROWS)
    STEP: gl.constexpr = WARPS * GROUP
    first_n = gl.program_id(0) * ROWS
    split = gl.program_id(1)
    first_m = gl.program_id(2) * TOKENS
    if SPLITS > 1:
        let_next_start()

    w_half = along(WARPS, 0, 5, OF_WORDS) * 4 + along(4, 4, 5, OF_WORDS)  # of a block
    stripe = along(ROWS // 16, 1, 5, OF_WORDS)
    if not EVEN_N:
        stripe = gl.where(first_n + stripe * 16 < N, stripe, 0)
    w_lane = w_half // 2 * 64 + w_half % 2 * 2 + along(8, 3, 5, OF_WORDS) * 4
    w_tile = w_ptr + (first_n // 16).to(gl.int64) * (2 * K) + split * (STEPS * WARPS * 128)
    w_rows = (w_tile + w_lane) + (stripe * (2 * K) + along(2, 2, 5, OF_WORDS) * 32)
    w_rows = gl.expand_dims(w_rows, 5) + along(LENGTH // 8, 5, 6, WORDS)

    # The table's rows are padded to 256, beyond which no tile reaches.
    s_half = along(WARPS, 0, 5, SCALES) * 4 + along(4, 4, 5, SCALES)
    s_block = s_half // 2
    s_lane = s_block // 8 * 128 + s_block % 4 * 32 + s_block % 8 // 4 + along(8, 3, 5, SCALES) * 2
    s_stripe = (K + 255) // 256 * 128
    s_tile = ws_ptr + (first_n // 32 * s_stripe + split * (STEPS * WARPS * 32))
    s_rows = (s_tile + s_lane) + (along(ROWS // 32, 1, 5, SCALES) * s_stripe + along(2, 2, 5, SCALES) * 16)

    a_half = along(WARPS, 0, 4, OF_NUMBERS) * 4 + along(4, 3, 4, OF_NUMBERS)
    a_tile = a_ptr + first_m.to(gl.int64) * stride_a + split * (STEPS * STEP)
    token = along(8, 2, 4, OF_NUMBERS)
    if EVEN_M:
        a_rows = (a_tile + (a_half * LENGTH + token * stride_a)) + along(TOKENS // 8, 1, 4, OF_NUMBERS) * (8 * stride_a)
    else:
        token = gl.minimum(along(TOKENS // 8, 1, 4, OF_NUMBERS) * 8 + token, M - 1 - first_m)
        a_rows = a_tile + (a_half * LENGTH + token * stride_a)
    a_rows = gl.expand_dims(a_rows, 4) + along(LENGTH, 4, 5, NUMBERS)

    # All loads stand before the first use; ptxas moves some behind it. Gluon knows no starred tuples.
    words = ()
    scales = ()
    numbers = ()
    for step in gl.static_range(STEPS):
        if EVEN_K:
            w = gl.load(w_rows + step * (2 * STEP))
            s = gl.load(s_rows + step * (STEP // 2))
            x = gl.load(a_rows + step * STEP)
        else:
            left = K // 16 - (split * STEPS + step) * (WARPS * 4)
            w = gl.load(w_rows + step * (2 * STEP), mask=gl.expand_dims(w_half < left, 5), other=0)
            s = gl.load(s_rows + step * (STEP // 2), mask=s_half < left, other=0x7F7F)
            x = gl.load(a_rows + step * STEP, mask=gl.expand_dims(a_half < left, 4), other=0.0)
        words = words + (w,)  # type: ignore[assignment]  # noqa: RUF005
        scales = scales + (s,)  # type: ignore[assignment]  # noqa: RUF005
        numbers = numbers + (x,)  # type: ignore[assignment]  # noqa: RUF005
    p, q, high = tables()
    accumulator = gl.zeros((WARPS, ROWS, TOKENS), gl.float32, MATRIX)
    for step in gl.static_range(STEPS):
        x = round_blocks(numbers[step].reshape(WARPS, TOKENS, 4, LENGTH), WARPS, TOKENS, LENGTH)
        x = x.reshape(WARPS, TOKENS, 4, LENGTH // 4, 2, 2).permute(0, 3, 4, 2, 5, 1).reshape(WARPS, GROUP, TOKENS)
        upper, upper22, lower, lower22 = factors(scales[step].to(gl.int32))
        factor = gl.join(upper, lower).permute(0, 1, 5, 2, 3, 4).reshape(WARPS, ROWS, 4)
        minus22 = gl.join(upper22, lower22).permute(0, 1, 5, 2, 3, 4).reshape(WARPS, ROWS, 4)
        w = widen_words(words[step].reshape(WARPS, ROWS, 4, LENGTH // 8), factor, minus22, p, q, high)
        w = w.permute(0, 1, 3, 6, 5, 2, 4).reshape(WARPS, ROWS, GROUP)  # warp, row, t, word, e, p, i to K'
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
