"""Right Triton kernels, and wrong twins of some."""

import triton
import triton.language as tl


@triton.jit
def softmax(x, y, n, stride, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + column, mask=column < n, other=-float("inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * stride + column, power / tl.sum(power, 0), mask=column < n)


@triton.jit
def layernorm(x, weight, bias, y, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    mask = column < n
    value = tl.load(x + row * n + column, mask=mask, other=0.0)
    apart = tl.where(mask, value - tl.sum(value, 0) / n, 0.0)
    scaled = apart / tl.sqrt(tl.sum(apart * apart, 0) / n + 1e-5)
    tl.store(
        y + row * n + column,
        scaled * tl.load(weight + column, mask=mask) + tl.load(bias + column, mask=mask),
        mask=mask,
    )


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        left = (rows[:, None] < M) & (inner[None, :] < K - k * BK)
        right = (columns[None, :] < N) & (inner[:, None] < K - k * BK)
        x = tl.load(a + rows[:, None] * K + (k * BK + inner)[None, :], mask=left, other=0.0)
        y = tl.load(b + (k * BK + inner)[:, None] * N + columns[None, :], mask=right, other=0.0)
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def column_sums(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    value = tl.load(x + rows[:, None] * N + columns[None, :], mask=mask, other=0.0)
    tl.store(y + columns, tl.sum(value, 0), mask=columns < N)


@triton.jit
def transpose(x, y, M, N, B: tl.constexpr):
    rows, columns = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    value = tl.load(x + rows[:, None] * N + columns[None, :], mask=(rows[:, None] < M) & (columns[None, :] < N))
    tl.store(y + columns[:, None] * M + rows[None, :], value.T, mask=(columns[:, None] < N) & (rows[None, :] < M))


@triton.jit
def histogram(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + tl.load(x + at, mask=at < n, other=0), 1, mask=at < n)


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def copy_without_mask(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at), mask=at < n)


@triton.jit
def copy_rows(x, y, n, stride, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(y + row * n + column, tl.load(x + row * stride + column, mask=column < n), mask=column < n)


@triton.jit
def reduce_partials(partials, y, splits, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for split in range(splits):
        total += tl.load(partials + split * n + at, mask=at < n, other=0.0)
    tl.store(y + at, total, mask=at < n)
