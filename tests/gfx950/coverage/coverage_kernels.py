"""Triton kernels of many kinds, each small: what compilers make of them is what the emulator must know."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def arithmetic(x, y, out, n, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """One operator for any type."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + at, mask=at < n), tl.load(y + at, mask=at < n)
    if KIND == "mul":
        r = a * b
    elif KIND == "sub":
        r = a - b
    elif KIND == "div":
        r = a / b
    elif KIND == "floordiv":
        r = a // b
    elif KIND == "mod":
        r = a % b
    elif KIND == "min":
        r = tl.minimum(a, b)
    elif KIND == "max":
        r = tl.maximum(a, b)
    elif KIND == "fma":
        r = a * b + a
    elif KIND == "shl":
        r = a << (b & 7)
    elif KIND == "shr":
        r = a >> (b & 7)
    elif KIND == "bits":
        r = (a & b) ^ (~a | b)
    elif KIND == "less":
        r = tl.where(a < b, a, b - a)
    elif KIND == "clamp":
        r = tl.clamp(a, -0.5, 0.75)
    elif KIND == "mulhi":
        r = tl.umulhi(a, b)
    tl.store(out + at, r, mask=at < n)


@triton.jit
def convert(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def elementary(x, out, n, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """One function of one argument."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at, mask=at < n, other=1.0)
    if KIND == "exp":
        r = tl.exp(a)
    elif KIND == "exp2":
        r = tl.exp2(a)
    elif KIND == "log":
        r = tl.log(a)
    elif KIND == "log2":
        r = tl.log2(a)
    elif KIND == "sqrt":
        r = tl.sqrt(a)
    elif KIND == "sqrt_rn":
        r = tl.sqrt_rn(a)
    elif KIND == "rsqrt":
        r = tl.rsqrt(a)
    elif KIND == "sin":
        r = tl.sin(a)
    elif KIND == "cos":
        r = tl.cos(a)
    elif KIND == "erf":
        r = tl.erf(a)
    elif KIND == "floor":
        r = tl.floor(a)
    elif KIND == "ceil":
        r = tl.ceil(a)
    elif KIND == "abs":
        r = tl.abs(a)
    elif KIND == "sigmoid":
        r = tl.sigmoid(a)
    elif KIND == "tanh":
        r = libdevice.tanh(a)
    elif KIND == "rint":
        r = libdevice.rint(a)
    elif KIND == "log1p":
        r = libdevice.log1p(a)
    elif KIND == "expm1":
        r = libdevice.expm1(a)
    elif KIND == "atan":
        r = libdevice.atan(a)
    elif KIND == "erfc":
        r = libdevice.erfc(a)
    elif KIND == "trunc":
        r = libdevice.trunc(a)
    tl.store(out + at, r, mask=at < n)


@triton.jit
def softmax(x, out, stride, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    a = tl.load(x + row * stride + at, mask=at < n, other=-float("inf"))
    e = tl.exp(a - tl.max(a, 0))
    tl.store(out + row * stride + at, e / tl.sum(e, 0), mask=at < n)


@triton.jit
def layer_norm(x, w, b, out, mean, rstd, n, EPS: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    a = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    m = tl.sum(a, 0) / n
    d = tl.where(at < n, a - m, 0.0)
    r = 1 / tl.sqrt(tl.sum(d * d, 0) / n + EPS)
    tl.store(mean + row, m)
    tl.store(rstd + row, r)
    y = d * r * tl.load(w + at, mask=at < n) + tl.load(b + at, mask=at < n)
    tl.store(out + row * n + at, y, mask=at < n)


@triton.jit
def layer_norm_backward(dy, x, w, mean, rstd, dx, dw, n, BLOCK: tl.constexpr):
    """dw is summed over rows with atomics."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    on = at < n
    a = tl.load(x + row * n + at, mask=on, other=0.0).to(tl.float32)
    g = tl.load(dy + row * n + at, mask=on, other=0.0).to(tl.float32)
    m, r = tl.load(mean + row), tl.load(rstd + row)
    hat = tl.where(on, (a - m) * r, 0.0)
    wg = tl.where(on, tl.load(w + at, mask=on, other=0.0) * g, 0.0)
    c1, c2 = tl.sum(hat * wg, 0) / n, tl.sum(wg, 0) / n
    tl.store(dx + row * n + at, (wg - (hat * c1 + c2)) * r, mask=on)
    tl.atomic_add(dw + at, g * hat, mask=on)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    whole: tl.constexpr = a.dtype.element_ty == tl.int8
    nothing: tl.constexpr = 0 if whole else 0.0
    total = tl.zeros((BM, BN), tl.int32 if whole else tl.float32)
    for start in range(0, K, BK):
        inside = start + k < K
        left_at = a + i[:, None] * K + (start + k)[None, :]
        left = tl.load(left_at, mask=(i < M)[:, None] & inside[None, :], other=nothing)
        right_at = b + (start + k)[:, None] * N + j[None, :]
        right = tl.load(right_at, mask=inside[:, None] & (j < N)[None, :], other=nothing)
        total = tl.dot(left, right, total)
    tl.store(c + i[:, None] * N + j[None, :], total.to(c.dtype.element_ty), mask=(i < M)[:, None] & (j < N)[None, :])


@triton.jit
def attention(q, k, v, out, n, SCALE: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Causal, one head; online softmax."""
    i, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    query = tl.load(q + i[:, None] * D + d[None, :])
    high = tl.full((BM,), -float("inf"), tl.float32)
    total, acc = tl.zeros((BM,), tl.float32), tl.zeros((BM, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BM, BN):
        j = start + tl.arange(0, BN)
        s = tl.dot(query, tl.load(k + j[None, :] * D + d[:, None])) * SCALE
        s = tl.where(i[:, None] >= j[None, :], s, -float("inf"))
        above = tl.maximum(high, tl.max(s, 1))
        p, fade = tl.exp2(s - above[:, None]), tl.exp2(high - above)
        total = total * fade + tl.sum(p, 1)
        acc = tl.dot(p.to(query.dtype), tl.load(v + j[:, None] * D + d[None, :]), acc * fade[:, None])
        high = above
    tl.store(out + i[:, None] * D + d[None, :], (acc / total[:, None]).to(out.dtype.element_ty))


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(keep, tl.load(x + at, mask=at < n) / (1 - p), 0.0), mask=at < n)


@triton.jit
def uniforms(out, n, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.rand(seed, at), mask=at < n)


@triton.jit
def _combine(a, b):
    return a + b + a * b


@triton.jit
def reduction(x, out, KIND: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """A row of `out` for each row of `x`, as long as the operation makes it."""
    row, at = tl.arange(0, ROWS), tl.arange(0, BLOCK)
    a = tl.load(x + row[:, None] * BLOCK + at[None, :])
    whole = out + row[:, None] * BLOCK + at[None, :]
    if KIND == "sort":
        tl.store(whole, tl.sort(a))
    elif KIND == "cumsum":
        tl.store(whole, tl.cumsum(a, 1))
    elif KIND == "cumprod":
        tl.store(whole, tl.cumprod(a, 1))
    elif KIND == "scan":
        tl.store(whole, tl.associative_scan(a, 1, _combine))
    elif KIND == "flip":
        tl.store(whole, tl.flip(a, 1))
    elif KIND == "topk":
        tl.store(out + row[:, None] * 8 + tl.arange(0, 8)[None, :], tl.topk(a, 8))
    elif KIND == "argmax":
        tl.store(out + row, tl.argmax(a, 1))
    elif KIND == "argmin":
        tl.store(out + row, tl.argmin(a, 1))
    elif KIND == "sum":
        tl.store(out + row, tl.sum(a, 1))
    elif KIND == "max":
        tl.store(out + row, tl.max(a, 1))
    elif KIND == "min":
        tl.store(out + row, tl.min(a, 1))
    elif KIND == "xor":
        tl.store(out + row, tl.xor_sum(a, 1))


@triton.jit
def histogram(x, out, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + tl.arange(0, BINS), tl.histogram(tl.load(x + at), BINS))


@triton.jit
def gather_rows(x, index, out, width, BLOCK: tl.constexpr):
    """64-bit index arithmetic."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    source = tl.load(index + row).to(tl.int64)
    value = tl.load(x + source * width + at, mask=at < width)
    tl.store(out + row * width + at, value, mask=at < width)


@triton.jit
def transposed(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i[:, None] * N + i[None, :], tl.trans(tl.load(x + i[:, None] * N + i[None, :])))


@triton.jit
def atomics(x, out, n, KIND: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    on = at < n
    a = tl.load(x + at, mask=on)
    if KIND == "add":
        tl.atomic_add(out + at % 16, a, mask=on)
    elif KIND == "max":
        tl.atomic_max(out + at % 16, a, mask=on)
    elif KIND == "min":
        tl.atomic_min(out + at % 16, a, mask=on)
    elif KIND == "xor":
        tl.atomic_xor(out + at % 16, a, mask=on)


@triton.jit
def _square_or_halve(a):
    return tl.where(a > 0, a * a, a * 0.5)


@triton.jit
def loop(x, out, n, steps, BLOCK: tl.constexpr):
    """A while loop whose count is data, and a call that isn't inlined away."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at, mask=at < n)
    i = 0
    while i < steps:
        a = _square_or_halve(a) - 0.25
        i += 1
    tl.store(out + at, a, mask=at < n)
