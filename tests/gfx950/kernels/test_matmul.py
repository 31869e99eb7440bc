"""Matrix products with grouped tiles and an activation, persistent and by groups of problems: small integers, so that
every sum is exact and every bit is known."""

import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def tile_of(pid, M, N, TM: tl.constexpr, TN: tl.constexpr, GROUP: tl.constexpr):
    """Neighbouring programs share tiles of B: GROUP rows of tiles are walked column by column."""
    wide = tl.cdiv(N, TN)
    first = pid // (GROUP * wide) * GROUP
    high = min(tl.cdiv(M, TM) - first, GROUP)
    inside = pid % (GROUP * wide)
    return first + inside % high, inside // high


@triton.jit
def product(a, b, M, N, K, row, column, a_m, a_k, b_k, b_n, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    rows, columns, depth = row * TM + tl.arange(0, TM), column * TN + tl.arange(0, TN), tl.arange(0, TK)
    total = tl.zeros((TM, TN), tl.float32)
    for k in range(0, K, TK):
        left = tl.load(
            a + rows[:, None] * a_m + (k + depth)[None, :] * a_k,
            mask=(rows[:, None] < M) & ((k + depth)[None, :] < K),
            other=0.0,
        )
        right = tl.load(
            b + (k + depth)[:, None] * b_k + columns[None, :] * b_n,
            mask=((k + depth)[:, None] < K) & (columns[None, :] < N),
            other=0.0,
        )
        total = tl.dot(left, right, total)
    return total


@triton.jit
def leaky(x):
    return tl.where(x >= 0, x, 0.25 * x)


@triton.jit
def matmul(
    a, b, c, M, N, K, a_m, a_k, b_k, b_n, c_m, c_n,
    TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr, GROUP: tl.constexpr, LEAKY: tl.constexpr,
    PERSISTENT: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(M, TM) * tl.cdiv(N, TN)
    step = tl.num_programs(0) if PERSISTENT else tiles
    for pid in range(tl.program_id(0), tiles, step):
        row, column = tile_of(pid, M, N, TM, TN, GROUP)
        total = product(a, b, M, N, K, row, column, a_m, a_k, b_k, b_n, TM, TN, TK)
        if LEAKY:
            total = leaky(total)
        rows, columns = row * TM + tl.arange(0, TM), column * TN + tl.arange(0, TN)
        inside = (rows[:, None] < M) & (columns[None, :] < N)
        where = c + rows[:, None] * c_m + columns[None, :] * c_n
        tl.store(where, total.to(c.dtype.element_ty), mask=inside)


def run(a, b, out, tiles=(64, 64, 32), group=4, leaky=False, programs=None, warps=4, **options):
    (M, K), N = a.shape, b.shape[1]
    grid = programs or triton.cdiv(M, tiles[0]) * triton.cdiv(N, tiles[1])
    matmul[(grid,)](
        a, b, out, M, N, K, *a.stride(), *b.stride(), *out.stride(), TM=tiles[0], TN=tiles[1], TK=tiles[2],
        GROUP=group, LEAKY=leaky, PERSISTENT=programs is not None, num_warps=warps, **options,
    )  # fmt: skip
    return out


DTYPES = [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.float32]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(128, 128, 128), (70, 90, 100)])
def test_every_format_is_exact(dtype, shape, integers):
    M, N, K = shape
    a, b = integers(M, K, dtype=dtype), integers(K, N, dtype=dtype)
    out = run(a, b, torch.full((M, N), -1.0))
    assert torch.equal(out, a.float() @ b.float())


@pytest.mark.parametrize("size", [16, 32])
def test_both_matrix_instructions_are_exact(size, integers, card):
    a, b = integers(64, 128, dtype=torch.bfloat16), integers(128, 64, dtype=torch.bfloat16)
    out = run(a, b, torch.empty(64, 64), matrix_instr_nonkdim=size)
    assert torch.equal(out, a.float() @ b.float())


@pytest.mark.parametrize("out_dtype", [torch.float16, torch.bfloat16])
def test_a_transposed_operand_and_an_activation(out_dtype, integers):
    a, b = integers(96, 160, dtype=torch.float16), integers(80, 160, dtype=torch.float16).T
    out = run(a, b, torch.empty(96, 80, dtype=out_dtype), leaky=True)
    total = a.float() @ b.float()
    expected = torch.where(total >= 0, total, 0.25 * total)
    assert torch.equal(out, expected.to(out_dtype))


@pytest.mark.parametrize("programs", [1, 3, 7])
def test_persistent_programs_cover_every_tile_once(programs, integers):
    a, b = integers(200, 64, dtype=torch.float16), integers(64, 136, dtype=torch.float16)
    out = run(a, b, torch.full((200, 136), float("nan")), tiles=(32, 32, 32), programs=programs)
    assert torch.equal(out, a.float() @ b.float())


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_pipelined_loads(stages, integers):
    a, b = integers(128, 256, dtype=torch.float16), integers(256, 128, dtype=torch.float16)
    out = run(a, b, torch.empty(128, 128), tiles=(128, 128, 64), num_stages=stages, warps=8)
    assert torch.equal(out, a.float() @ b.float())


@triton.jit
def grouped(
    a, b, c, sizes, offsets, groups, programs: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr
):
    """Problem g has sizes[g] = (M, N, K) and its matrices, row-major, at offsets[g] in three arenas."""
    tile = tl.program_id(0)
    before = 0
    for g in range(groups):
        M, N, K = tl.load(sizes + 3 * g), tl.load(sizes + 3 * g + 1), tl.load(sizes + 3 * g + 2)
        wide = tl.cdiv(N, TN)
        after = before + tl.cdiv(M, TM) * wide
        while tile >= before and tile < after:
            row, column = (tile - before) // wide, (tile - before) % wide
            left, right = a + tl.load(offsets + 3 * g), b + tl.load(offsets + 3 * g + 1)
            total = product(left, right, M, N, K, row, column, K, 1, N, 1, TM, TN, TK)
            rows, columns = row * TM + tl.arange(0, TM), column * TN + tl.arange(0, TN)
            inside = (rows[:, None] < M) & (columns[None, :] < N)
            where = c + tl.load(offsets + 3 * g + 2) + rows[:, None] * N + columns[None, :]
            tl.store(where, total.to(c.dtype.element_ty), mask=inside)
            tile += programs
        before = after


def test_groups_of_problems_share_the_programs(integers):
    problems = [(64, 64, 64), (40, 96, 32), (128, 17, 48), (1, 33, 80)]
    lefts = [integers(M, K, dtype=torch.float16) for M, _, K in problems]
    rights = [integers(K, N, dtype=torch.float16) for _, N, K in problems]
    starts = lambda parts: [0, *torch.tensor([part.numel() for part in parts]).cumsum(0).tolist()[:-1]]  # noqa: E731
    outs = [torch.empty(M, N) for M, N, _ in problems]
    offsets = torch.tensor([starts(lefts), starts(rights), starts(outs)], dtype=torch.int64).T.contiguous()
    a, b = (torch.cat([part.reshape(-1) for part in parts]) for parts in (lefts, rights))
    c = torch.full((sum(part.numel() for part in outs),), float("nan"))
    sizes = torch.tensor(problems, dtype=torch.int32)
    grouped[(3,)](a, b, c, sizes, offsets, len(problems), programs=3, TM=32, TN=32, TK=32)
    expected = torch.cat(
        [(left.float() @ right.float()).reshape(-1) for left, right in zip(lefts, rights, strict=True)]
    )
    assert torch.equal(c, expected)
