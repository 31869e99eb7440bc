# mypy: allow-untyped-decorators
"""The fused kernel for gfx950 with every layout chosen by hand: a lane quantizes whole blocks, weights need no shuffle.

In the scaled MFMA one lane holds exactly one block of 32 (AMD CDNA4 ISA, "Dense matrix F8F6F4"). Activations are
brought into that layout before they are quantized, so the largest magnitude of a block is found inside a lane, two
numbers at a time, and each conversion fills its own byte of a register. Preshuffled weights and shuffled scales lie in
memory as the lanes want them. Waves share the quantizing of a tile. Everything that goes through LDS is written before
any of it is read, so that a workgroup meets twice at most, however many steps it has.
"""

import contextlib
from typing import TYPE_CHECKING

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from mxassay.optimized.arrivals import APART, counters
from mxassay.optimized.direct_join import arrive, clear, count_in, sum_partials, write_partial
from mxassay.optimized.direct_layouts import block_layout, row_layout, shared_rows, shared_scales, stripe_layout

if TYPE_CHECKING:
    import torch

    from mxassay.optimized.plans import Plan
    from mxassay.optimized.split_k import SplitK

_MOST_SPAN, _MOST_WORK = 2048, 1 << 23  # unrolled: what compiles without spills (tile_m * tile_n * span)
_MOST_STAGED = 1 << 15  # tile_m * span: pairs, codes and scales of it take 84 of 160 KiB of LDS
_MOST_JOINED = 128  # registers of a lane for the partials of its outputs
_GRID_Y = 65535  # HIP and CUDA: the largest second and third size of a grid


@gluon.jit
def pairs_max(x: gl.tensor, y: gl.tensor) -> gl.tensor:
    """The larger of both halves each, as unsigned 16-bit numbers."""
    return gl.inline_asm_elementwise("v_pk_max_u16 $0, $1, $2", "=v,v,v", [x, y], dtype=gl.int32, is_pure=True, pack=1)


@gluon.jit
def halves_max(x: gl.tensor) -> gl.tensor:
    """The larger half, in both halves."""
    return gl.inline_asm_elementwise(
        "v_pk_max_u16 $0, $1, $1 op_sel:[0,1] op_sel_hi:[1,0]", "=v,v", [x], dtype=gl.int32, is_pure=True, pack=1
    )


# Sixteen conversions fill four registers: byte j of register d holds the codes of pair 4 * d + j. A register is written
# again three instructions later at the earliest, which is the wait that its reader needs, and `s_nop 1` closes the run
# (see `pack.convert_pairs`).
_CONVERT: gl.constexpr = gl.constexpr(
    "\n".join(
        f"v_cvt_scalef32_pk_fp4_bf16 ${d}, ${4 + 4 * j + d}, ${20 + d} op_sel:[0,0,{j & 1},{j >> 1}]"
        for j in range(4)
        for d in range(4)
    )
    + "\ns_nop 1"
)
_APART: gl.constexpr = gl.constexpr(APART)
_CONSTRAINTS: gl.constexpr = gl.constexpr(",".join(["=&v"] * 4 + ["v"] * 20))


@gluon.jit
def quantize_blocks(pairs: gl.tensor, TILE_M: gl.constexpr, TILE_K: gl.constexpr) -> tuple[gl.tensor, gl.tensor]:
    """`pack.quantize_tile` on int32 pairs (TILE_M, TILE_K // 2) in `block_layout`: the same bytes."""
    BLOCKS: gl.constexpr = TILE_K // 32
    x, y = gl.split((pairs & 0x7FFF7FFF).reshape(TILE_M, BLOCKS, 8, 2))
    x, y = gl.split(pairs_max(x, y).reshape(TILE_M, BLOCKS, 4, 2))
    x, y = gl.split(pairs_max(x, y).reshape(TILE_M, BLOCKS, 2, 2))
    x, y = gl.split(pairs_max(x, y))
    peak = halves_max(pairs_max(x, y)) & 0xFFFF
    # The rule EVEN, see `pack.block_scale`.
    scale = gl.maximum((gl.minimum(peak, 0x7F80) + 0x20) >> 7, 2) - 2
    low, high = gl.split(pairs.reshape(TILE_M, BLOCKS, 4, 2, 2))
    first, third = gl.split(low)
    second, fourth = gl.split(high)
    LAYOUT: gl.constexpr = first.type.layout
    operand = gl.convert_layout(gl.maximum(scale << 23, 0x00400000), gl.SliceLayout(2, LAYOUT))
    operand, first = gl.broadcast(gl.expand_dims(operand, 2), first)
    codes = gl.inline_asm_elementwise(
        _CONVERT, _CONSTRAINTS, [first, second, third, fourth, operand], dtype=gl.int32, is_pure=True, pack=4
    )
    even = gl.join(codes.to(gl.uint8), (codes >> 16).to(gl.uint8))
    odd = gl.join((codes >> 8).to(gl.uint8), (codes >> 24).to(gl.uint8))
    return gl.join(even, odd).reshape(TILE_M, TILE_K // 2), scale.to(gl.uint8)


@gluon.jit
def store_tile(
    c_ptr: gl.tensor,
    first_m: gl.tensor,
    first_n: gl.tensor,
    stride_c_row: gl.tensor,
    row: gl.tensor,
    column: gl.tensor,
    values: gl.tensor,
    mask: gl.tensor,
) -> None:
    """Round float32 values to the bfloat16 tile at (first_m, first_n)."""
    tile = c_ptr + first_m.to(gl.int64) * stride_c_row + first_n
    gl.amd.cdna4.buffer_store(values.to(gl.bfloat16), tile, row * stride_c_row + column, mask=mask)


@gluon.jit
def direct_gemm_kernel(
    pairs_ptr: gl.tensor,
    w_ptr: gl.tensor,
    ws_ptr: gl.tensor,
    partials_ptr: gl.tensor,
    c_ptr: gl.tensor,
    M: gl.tensor,
    N: gl.tensor,
    K: gl.tensor,
    stride_pairs: gl.tensor,
    stride_c_row: gl.tensor,
    arrivals_ptr: gl.tensor,
    TILE_M: gl.constexpr,
    TILE_N: gl.constexpr,
    TILE_K: gl.constexpr,
    STEPS: gl.constexpr,
    WARPS: gl.constexpr,
    BY_ROWS: gl.constexpr,
    EVEN_M: gl.constexpr,
    EVEN_N: gl.constexpr,
    JOINED: gl.constexpr,
) -> None:
    """C = quantized(A)[:, span] @ W[:, span].T for a tile, STEPS steps of TILE_K, all of them inside K.

    pairs_ptr int32, A (M, K) as pairs; w_ptr and ws_ptr preshuffled and shuffled; c_ptr bfloat16 (M, N). With splits,
    partials_ptr float32 (splits, M, N) gets a partial each. Of JOINED splits the workgroup that comes last sums the
    partials to c_ptr, with a counter a tile in arrivals_ptr; JOINED is 0 where another launch does.
    Grid: (tiles of N, tiles of M, splits). All loads are issued before the first result is needed. Rows and columns
    beyond the matrix are computed from its last ones and not stored.
    """
    MATRIX: gl.constexpr = gl.amd.AMDMFMALayout(4, [16, 16, 128], True, [1, WARPS], tiles_per_warp=[1, 2])
    LEFT: gl.constexpr = gl.DotOperandLayout(0, MATRIX, 16)
    RIGHT: gl.constexpr = gl.DotOperandLayout(1, MATRIX, 16)
    BLOCKS: gl.constexpr = block_layout(TILE_M, TILE_K, WARPS)
    LOADED: gl.constexpr = row_layout(TILE_K // 2, WARPS) if BY_ROWS else BLOCKS
    ROWS: gl.constexpr = row_layout(TILE_N, WARPS)
    STRIPES: gl.constexpr = stripe_layout(TILE_N, TILE_K, WARPS)
    LEFT_SCALES: gl.constexpr = gl.amd.cdna4.get_mfma_scale_layout(LEFT, [TILE_M, TILE_K // 32])
    RIGHT_SCALES: gl.constexpr = gl.amd.cdna4.get_mfma_scale_layout(RIGHT, [TILE_N, TILE_K // 32])
    PAIRS_SHARED: gl.constexpr = shared_rows(TILE_M, TILE_K // 2, 4)
    CODES_SHARED: gl.constexpr = shared_rows(TILE_M, TILE_K // 2, 16)
    SCALES_SHARED: gl.constexpr = shared_scales(TILE_M, TILE_K // 32)
    first_n = gl.program_id(0) * TILE_N
    first_m = gl.program_id(1) * TILE_M
    split = gl.program_id(2)

    row = gl.arange(0, TILE_M, layout=gl.SliceLayout(1, LOADED))
    if not EVEN_M:
        row = gl.minimum(row, M - 1 - first_m)
    pair = gl.arange(0, TILE_K // 2, layout=gl.SliceLayout(0, LOADED))
    a_offsets = row[:, None] * stride_pairs + pair[None, :]
    a_tile = pairs_ptr + first_m * stride_pairs + split * (STEPS * TILE_K // 2)

    byte = gl.arange(0, TILE_K // 2, layout=gl.SliceLayout(1, RIGHT))
    column = gl.arange(0, TILE_N, layout=gl.SliceLayout(0, RIGHT))
    stripe = column // 16
    if not EVEN_N:
        stripe = gl.minimum(stripe, (N - first_n) // 16 - 1)
    # Sixteen rows are one run of bytes in the order (half of a k-tile, row, byte); see `load_preshuffled_weights`.
    w_offsets = (stripe * (8 * K) + column % 16 * 16)[None, :] + (byte // 16 * 256 + byte % 16)[:, None]
    w_tile = w_ptr + first_n // 16 * (8 * K) + split * (STEPS * TILE_K * 8)

    stripe32 = gl.arange(0, TILE_N // 32, layout=gl.SliceLayout(1, STRIPES))
    place = gl.arange(0, TILE_K, layout=gl.SliceLayout(0, STRIPES))
    ws_offsets = stripe32[:, None] * K + place[None, :]
    ws_tile = ws_ptr + first_n // 32 * K + split * (STEPS * TILE_K)

    # Gluon knows no starred tuples.
    a_loaded = ()
    w_loaded = ()
    ws_loaded = ()
    for step in gl.static_range(STEPS):
        a_loaded = a_loaded + (gl.amd.cdna4.buffer_load(a_tile, a_offsets + step * (TILE_K // 2)),)  # type: ignore[assignment]  # noqa: RUF005
    for step in gl.static_range(STEPS):
        weights = gl.amd.cdna4.buffer_load(w_tile, w_offsets + step * (TILE_K * 8), cache=".cg")
        w_loaded = w_loaded + (weights,)  # type: ignore[assignment]  # noqa: RUF005
        stripes = gl.amd.cdna4.buffer_load(ws_tile, ws_offsets + step * TILE_K, cache=".cg")
        ws_loaded = ws_loaded + (stripes,)  # type: ignore[assignment]  # noqa: RUF005
    if BY_ROWS:
        staged = ()
        for step in gl.static_range(STEPS):
            rows = gl.allocate_shared_memory(gl.int32, [TILE_M, TILE_K // 2], PAIRS_SHARED, a_loaded[step])
            staged = staged + (rows,)  # type: ignore[assignment]  # noqa: RUF005
        a_loaded = ()
        for step in gl.static_range(STEPS):
            a_loaded = a_loaded + (staged[step].load(BLOCKS),)  # type: ignore[assignment]  # noqa: RUF005
    codes = ()
    code_scales = ()
    for step in gl.static_range(STEPS):
        packed, scale = quantize_blocks(a_loaded[step], TILE_M, TILE_K)
        rows = gl.allocate_shared_memory(gl.uint8, [TILE_M, TILE_K // 2], CODES_SHARED, packed)
        codes = codes + (rows,)  # type: ignore[assignment]  # noqa: RUF005
        columns = gl.allocate_shared_memory(gl.uint8, [TILE_M, TILE_K // 32], SCALES_SHARED, scale)
        code_scales = code_scales + (columns,)  # type: ignore[assignment]  # noqa: RUF005
    left = ()
    left_scales = ()
    for step in gl.static_range(STEPS):
        left = left + (codes[step].load(LEFT),)  # type: ignore[assignment]  # noqa: RUF005
        left_scales = left_scales + (code_scales[step].load(LEFT_SCALES),)  # noqa: RUF005
    accumulator = gl.zeros((TILE_M, TILE_N), gl.float32, MATRIX)
    for step in gl.static_range(STEPS):
        # Bytes of a chunk: (group % 4, row % 16, group % 8 // 4, row % 32 // 16).
        scales = ws_loaded[step].reshape(TILE_N // 32, TILE_K // 256, 4, 16, 2, 2).permute(0, 5, 3, 1, 4, 2)  # type: ignore[var-annotated]
        scales = gl.convert_layout(scales.reshape(TILE_N, TILE_K // 32), RIGHT_SCALES)
        accumulator = gl.amd.cdna4.mfma_scaled(
            left[step], left_scales[step], "e2m1", w_loaded[step], scales, "e2m1", accumulator
        )

    out_row = gl.arange(0, TILE_M, layout=gl.SliceLayout(1, MATRIX))[:, None]
    out_column = gl.arange(0, TILE_N, layout=gl.SliceLayout(0, MATRIX))[None, :]
    mask = (out_row < M - first_m) & (out_column < N - first_n)
    if partials_ptr is None:
        store_tile(c_ptr, first_m, first_n, stride_c_row, out_row, out_column, accumulator, mask)
    else:
        tile = partials_ptr + first_m.to(gl.int64) * N + first_n
        apart = gl.to_tensor(M).to(gl.int64) * N
        write_partial(tile + split * apart, out_row * N + out_column, accumulator, mask)
        if JOINED > 0:
            arrive(stride_c_row)
            counter = arrivals_ptr + (gl.program_id(1) * gl.num_programs(0) + gl.program_id(0)) * _APART
            if count_in(counter) == JOINED - 1:
                sum_row = gl.arange(0, TILE_M, layout=gl.SliceLayout(1, ROWS))[:, None]
                sum_column = gl.arange(0, TILE_N, layout=gl.SliceLayout(0, ROWS))[None, :]
                inside = (sum_row < M - first_m) & (sum_column < N - first_n)
                total = sum_partials(tile, apart, sum_row * N + sum_column, inside, JOINED)
                store_tile(c_ptr, first_m, first_n, stride_c_row, sum_row, sum_column, total, inside)
                clear(counter)


def fits(
    a: "torch.Tensor",
    weights: "torch.Tensor",
    scales: "torch.Tensor",
    out: "torch.Tensor",
    plan: "Plan",
    split: "SplitK",
) -> bool:
    """Whether this kernel takes a launch: whole steps of K, aligned rows, and offsets that fit in 32 bits."""
    m, k = a.shape
    whole = k == split.count * split.span and split.tile_k % 256 == 0
    aligned = a.stride(1) == 1 and a.stride(0) % 8 == 0 and not (a.data_ptr() | weights.data_ptr()) % 16
    # Rows of partials, float32, lie side by side.
    row = max(2 * out.stride(0), 4 * out.shape[1])
    small = (
        split.span <= _MOST_SPAN
        and plan.tile_m * split.span <= _MOST_STAGED
        and plan.tile_m * plan.tile_n * split.span <= _MOST_WORK
        and max(2 * m * a.stride(0), weights.numel(), scales.numel(), plan.tile_m * row) < 1 << 31
        and max(triton.cdiv(m, plan.tile_m), split.count) <= _GRID_Y
    )
    return whole and aligned and small and a.stride(0) > 0


def joins(plan: "Plan", split: "SplitK", device: "torch.device") -> bool:
    """Whether a launch that `fits` sums its partials itself: as the plan says, unless there are too many for registers,
    or a graph captures the launch, which must not use counters that are kept (see `arrivals`)."""
    import torch

    registers = split.count * plan.tile_m * plan.tile_n // (64 * plan.num_warps)
    captured = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
    return plan.joined and split.count > 1 and registers <= _MOST_JOINED and not captured


def launch_direct(
    a: "torch.Tensor",
    weights: "torch.Tensor",
    scales: "torch.Tensor",
    out: "torch.Tensor",
    partials: "torch.Tensor | None",
    plan: "Plan",
    split: "SplitK",
) -> bool:
    """Launch on tensors that `fits` accepts; with splits, `partials` is float32 (splits, M, N), contiguous.

    Returns whether `out` holds the product; otherwise it is what `reduce_partials` makes of `partials`.
    """
    import torch

    (m, k), n = a.shape, weights.shape[0]
    tiles_n, tiles_m = triton.cdiv(n, plan.tile_n), triton.cdiv(m, plan.tile_m)
    # Every wave has blocks of its own to quantize where the span has enough.
    depth = max(split.tile_k, min(split.span & -split.span, 128 * plan.num_warps))
    joined = joins(plan, split, a.device)
    with counters(tiles_n * tiles_m, a.device) if joined else contextlib.nullcontext() as arrivals:
        direct_gemm_kernel[(tiles_n, tiles_m, split.count)](
            a.detach().view(torch.int32),
            weights,
            scales,
            partials,
            out,
            m,
            n,
            k,
            a.stride(0) // 2,
            out.stride(0),
            arrivals,
            TILE_M=plan.tile_m,
            TILE_N=plan.tile_n,
            TILE_K=depth,
            STEPS=split.span // depth,
            WARPS=plan.num_warps,
            # An exchange more through LDS, against four times as many lines of memory: it pays where K is long.
            BY_ROWS=split.span > 512,
            EVEN_M=m % plan.tile_m == 0,
            EVEN_N=n % plan.tile_n == 0,
            JOINED=split.count if joined else 0,
            num_warps=plan.num_warps,
            waves_per_eu=plan.waves_per_eu,
        )
    return joined or partials is None
