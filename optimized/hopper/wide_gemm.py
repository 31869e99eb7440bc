# mypy: allow-untyped-decorators
"""Many tokens: activations are quantized once, by a kernel before, and warpgroups multiply them with weights that they
widen in registers while the products before are under way."""

from typing import TYPE_CHECKING

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from mxassay.optimized.hopper.numbers import factors, round_blocks, tables, widen_words
from mxassay.optimized.hopper.places import along, numbers_of_tokens, stored_codes, stored_scales
from mxassay.optimized.hopper.skinny_gemm import let_next_start, wait_for_last

if TYPE_CHECKING:
    import torch

# Triton 3.7 and later have new names.
load_tile = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared
barrier = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier
_SHARED = gl.shared_memory_descriptor
seen_as = _SHARED.reinterpret if hasattr(_SHARED, "reinterpret") else _SHARED._reinterpret

CHUNK = 128  # k of one multiplication
QUAD = 4 * CHUNK  # k of one load of weights
_CHUNK_ROWS = 8  # a stripe's codes of a chunk are 1024 bytes: 8 rows of 128, the widest that a swizzle takes


@gluon.jit
def quantize_kernel(
    a_ptr: gl.tensor,
    q_ptr: gl.tensor,
    M: gl.tensor,
    K: gl.tensor,
    stride_a: gl.tensor,
    WARPS: gl.constexpr,
) -> None:
    """A (M, K) on the grid of MXFP4, as bfloat16, the k of each group of 128 in the order K'. Grid: (groups / WARPS,
    M / 8)."""
    let_next_start()
    NUMBERS: gl.constexpr = numbers_of_tokens(WARPS, 8, 32)
    BLOCKS: gl.constexpr = gl.SliceLayout(4, NUMBERS)
    first_m = gl.program_id(1) * 8
    first_group = gl.program_id(0) * WARPS
    token = gl.minimum(first_m + along(8, 2, 4, BLOCKS), M - 1)
    block = (first_group + along(WARPS, 0, 4, BLOCKS)) * 4 + along(4, 3, 4, BLOCKS)
    pointers = a_ptr + (gl.expand_dims(token * stride_a + block * 32, 4) + along(32, 4, 5, NUMBERS))
    x = gl.load(pointers, mask=gl.expand_dims(block < K // 32, 4), other=0.0).reshape(WARPS, 8, 4, 32)
    x = round_blocks(x, WARPS, 8, 32).reshape(WARPS, 8, 4, 8, 2, 2).permute(0, 1, 3, 4, 2, 5).reshape(WARPS, 8, 128)
    OUT: gl.constexpr = gl.BlockedLayout([1, 1, 8], [1, 2, 16], [WARPS, 1, 1], [2, 1, 0])
    x = gl.convert_layout(x, OUT)  # stores of 16 bytes a lane
    token = first_m + along(8, 1, 3, OUT)
    place = (first_group + along(WARPS, 0, 3, OUT)) * 128 + along(128, 2, 3, OUT)
    gl.store(q_ptr + (token * K + place), x, mask=(token < M) & (place < K))


@gluon.jit
def wide_gemm_kernel(
    a_desc: tma.tensor_descriptor,
    w_desc: tma.tensor_descriptor,
    s_desc: tma.tensor_descriptor,
    c_ptr: gl.tensor,
    M: gl.tensor,
    stride_c_row: gl.tensor,
    stride_c_split: gl.tensor,
    TOKENS: gl.constexpr,
    ROWS: gl.constexpr,
    QUADS: gl.constexpr,
    STAGES: gl.constexpr,
    WARPS: gl.constexpr,
    SPLITS: gl.constexpr,
) -> None:
    """C[split] = A'[:, span] @ W[:, span].T for TOKENS rows of what `quantize_kernel` made and ROWS of W; a span is
    512 * QUADS.

    Descriptors as `descriptors` makes them; c_ptr bfloat16 or, with splits, float32. Grid: (N / ROWS, splits, tiles of
    M). The first weights are under way to shared memory before the kernel that quantizes has ended; activations come in
    STAGES chunks, a power of two.
    """
    CHUNKS: gl.constexpr = 4 * QUADS
    MATRIX: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, TOKENS, 16])
    LEFT: gl.constexpr = gl.DotOperandLayout(0, MATRIX, 2)
    CODES: gl.constexpr = stored_codes(ROWS, WARPS)
    SCALES: gl.constexpr = stored_scales(ROWS, WARPS)
    numbers = gl.allocate_shared_memory(gl.bfloat16, [STAGES, TOKENS, 128], gl.NVMMASharedLayout(128, 16, 2))
    codes = gl.allocate_shared_memory(gl.int32, [CHUNKS, ROWS // 16, 8, 32], gl.NVMMASharedLayout(128, 32, 3))
    scales = gl.allocate_shared_memory(gl.uint8, [2 * QUADS, ROWS // 32, 256], gl.NVMMASharedLayout(0, 8, 2))
    number_loads = seen_as(numbers, gl.bfloat16, [STAGES, 2, TOKENS, 64], a_desc.layout)
    code_loads = seen_as(codes, gl.int32, [QUADS, 4, ROWS // 16, 8, 32], w_desc.layout)
    scale_loads = seen_as(scales, gl.uint8, [QUADS, 2, ROWS // 32, 256], s_desc.layout)
    weights_here = gl.allocate_shared_memory(gl.int64, [QUADS, 1], mbarrier.MBarrierLayout())
    numbers_here = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    first_n = gl.program_id(0) * ROWS
    split = gl.program_id(1)
    first_m = gl.program_id(2) * TOKENS
    if SPLITS > 1:
        let_next_start()

    for i in gl.static_range(QUADS):
        mbarrier.init(weights_here.index(i), count=1)
    for i in gl.static_range(QUADS):
        here = weights_here.index(i)
        mbarrier.expect(here, ROWS * (256 + 16))
        load_tile(s_desc, [(split * QUADS + i) * 2, first_n // 32, 0], here, scale_loads.index(i))
        load_tile(w_desc, [(split * QUADS + i) * 4, first_n // 16, 0, 0], here, code_loads.index(i))
        if i == 0:
            # Loads end in the order in which they began: the first activations must not stand behind all weights.
            for j in gl.static_range(STAGES):
                mbarrier.init(numbers_here.index(j), count=1)
            wait_for_last()
            for j in gl.static_range(min(STAGES, CHUNKS)):
                mbarrier.expect(numbers_here.index(j), TOKENS * 256)
                load_tile(a_desc, [(split * CHUNKS + j) * 2, first_m, 0], numbers_here.index(j), number_loads.index(j))

    p, q, high = tables()
    accumulator = gl.zeros((ROWS, TOKENS), gl.float32, MATRIX)
    before = gl.zeros((ROWS, 128), gl.bfloat16, LEFT)
    mbarrier.wait(weights_here.index(0), 0)
    words = codes.index(0).load(CODES)
    for pair in range(2 * QUADS):
        # Stripe of 32, block, row % 16, half of K, row % 32 // 16.
        s = scales.index(pair).load(SCALES).reshape(ROWS // 32, 4, 16, 2, 2).permute(0, 4, 2, 1, 3).reshape(ROWS, 4, 2)
        first, second = gl.split(s)
        first_half, first22, second_half, second22 = factors(first.to(gl.int32) | second.to(gl.int32) << 8)
        for part in gl.static_range(2):
            chunk = pair * 2 + part
            stage = chunk % STAGES
            # Stripe of 16, block, row // 8, row % 8, word.
            words = words.reshape(ROWS // 16, 4, 2, 8, 4).permute(0, 2, 3, 1, 4).reshape(ROWS, 4, 4)
            factor, minus22 = (first_half, first22) if part == 0 else (second_half, second22)
            w = widen_words(words, factor, minus22, p, q, high)
            w = w.permute(0, 2, 5, 4, 1, 3).reshape(ROWS, 128)  # row, t, word, e, p, i to K'
            w = gl.convert_layout(w, LEFT, assert_trivial=True)
            ahead = gl.minimum(chunk + 1, CHUNKS - 1)  # their way from shared memory is hidden by products
            mbarrier.wait(weights_here.index(ahead // 4), 0)
            words = codes.index(ahead).load(CODES)
            mbarrier.wait(numbers_here.index(stage), chunk // STAGES & 1)
            accumulator = hopper.warpgroup_mma(w, numbers.index(stage).permute((1, 0)), accumulator, is_async=True)
            # While these products are under way the next weights are widened, in the registers of the ones before.
            accumulator, before = hopper.warpgroup_mma_wait(1, deps=[accumulator, before])
            before = w
            if STAGES < CHUNKS:
                # All warps are done with the chunk before: its place takes another.
                next_chunk = chunk + (STAGES - 1)
                there = next_chunk % STAGES
                more = (chunk > 0) & (next_chunk < CHUNKS)
                barrier()
                mbarrier.expect(numbers_here.index(there), TOKENS * 256, pred=more)
                place = [(split * CHUNKS + next_chunk) * 2, first_m, 0]
                load_tile(a_desc, place, numbers_here.index(there), number_loads.index(there), pred=more)
    accumulator, before = hopper.warpgroup_mma_wait(0, deps=[accumulator, before])

    OUT: gl.constexpr = gl.BlockedLayout([2, 1], [32, 1], [1, WARPS], [0, 1])
    out = gl.convert_layout(accumulator.to(c_ptr.dtype.element_ty), OUT)
    n, m = along(ROWS, 0, 2, OUT), along(TOKENS, 1, 2, OUT)
    c_tile = c_ptr + first_m.to(gl.int64) * stride_c_row + first_n + split.to(gl.int64) * stride_c_split
    gl.store(c_tile + (m * stride_c_row + n), out, mask=m < M - first_m)


def descriptors(
    q: "torch.Tensor", weights: "torch.Tensor", scales: "torch.Tensor", tokens: int, rows: int
) -> tuple[TensorDescriptor, TensorDescriptor, TensorDescriptor]:
    """How the copy engine sees activations (64 k, M, k), words of codes (chunk, stripe, 8, 32) and bytes of scales
    (256 k, stripe, 256); the kernel loads two, four and two of the first axis at once. K must be a multiple of 256."""
    import torch

    (m, k), n = q.shape, weights.shape[0]
    stripe = n // 16, 2 * k  # how many, and the words of one
    return (
        TensorDescriptor(q, [k // 64, m, 64], [64, k, 1], [2, tokens, 64], gl.NVMMASharedLayout(128, 16, 3)),
        TensorDescriptor(
            weights.view(torch.int32),
            [k // CHUNK, stripe[0], _CHUNK_ROWS, 32],
            [_CHUNK_ROWS * 32, stripe[1], 32, 1],
            [4, rows // 16, _CHUNK_ROWS, 32],
            gl.NVMMASharedLayout(128, 32, 4),
        ),
        TensorDescriptor(
            scales,
            [k // 256, scales.shape[0] // 32, 256],
            [256, k, 1],
            [2, rows // 32, 256],
            gl.NVMMASharedLayout(0, 8, 3),
        ),
    )
