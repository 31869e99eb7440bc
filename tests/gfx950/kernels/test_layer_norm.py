"""Layer norm, forward and backward; the backward's partial sums meet under a lock made of atomics."""

import pytest
import torch
import triton
import triton.language as tl

U = 2.0**-24


@triton.jit
def forward(x, y, w, b, mean_out, rstd_out, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    y += row * stride
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        where = start + tl.arange(0, BLOCK)
        total += tl.load(x + where, mask=where < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        where = start + tl.arange(0, BLOCK)
        centred = tl.where(where < N, tl.load(x + where, mask=where < N, other=0.0).to(tl.float32) - mean, 0.0)
        squares += centred * centred
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, rstd)
    for start in range(0, N, BLOCK):
        where = start + tl.arange(0, BLOCK)
        inside = where < N
        value = tl.load(x + where, mask=inside, other=0.0).to(tl.float32)
        scale, shift = tl.load(w + where, mask=inside), tl.load(b + where, mask=inside)
        tl.store(y + where, (value - mean) * rstd * scale + shift, mask=inside)


@triton.jit
def backward(
    dx, dy, dw, db, x, w, mean_in, rstd_in, lock, stride, N, GROUPS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    where = tl.arange(0, BLOCK)
    inside = where < N
    value = tl.load(x + row * stride + where, mask=inside, other=0.0).to(tl.float32)
    grad = tl.load(dy + row * stride + where, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(w + where, mask=inside, other=0.0).to(tl.float32)
    mean, rstd = tl.load(mean_in + row), tl.load(rstd_in + row)
    normal = tl.where(inside, (value - mean) * rstd, 0.0)
    scaled = tl.where(inside, scale * grad, 0.0)
    along, level = tl.sum(normal * scaled, axis=0) / N, tl.sum(scaled, axis=0) / N
    tl.store(dx + row * stride + where, (scaled - (normal * along + level)) * rstd, mask=inside)
    group = row % GROUPS
    turn, count = lock + group, lock + GROUPS + group
    while tl.atomic_cas(turn, 0, 1) == 1:
        pass
    part_w, part_b = grad * normal, grad
    seen = tl.load(count)
    if seen == 0:
        tl.atomic_xchg(count, 1)
    else:
        part_w += tl.load(dw + group * N + where, mask=inside)
        part_b += tl.load(db + group * N + where, mask=inside)
    tl.store(dw + group * N + where, part_w, mask=inside)
    tl.store(db + group * N + where, part_b, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(turn, 0)


def run_forward(x, w, b, block, eps=1e-5, warps=4):
    y, (M, N) = torch.empty_like(x), x.shape
    mean, rstd = torch.empty(M), torch.empty(M)
    forward[(M,)](x, y, w, b, mean, rstd, x.stride(0), N, eps, BLOCK=block, num_warps=warps)
    return y, mean, rstd


def exact_forward(x, w, b, eps=1e-5):
    """float64, and the bound of y's error in float32 arithmetic."""
    x, w, b = x.double(), w.double(), b.double()
    N = x.shape[1]
    mean, var = x.mean(dim=1, keepdim=True), x.var(dim=1, unbiased=False, keepdim=True)
    rstd = (var + eps).rsqrt()
    y = (x - mean) * rstd * w + b
    # Sums round once a term: mean is off by at most N u max|x|, so is each x - mean; the variance relatively by
    # (N + 4) u and by twice the centring's error over the deviation; rstd by half of that and 4 ulp of sqrt and 1/x.
    centring = (N + 2) * U * x.abs().max(dim=1, keepdim=True).values
    relative = 0.5 * ((N + 4) * U + 2 * centring * rstd) + 8 * U
    bound = w.abs() * rstd * (centring + (x - mean).abs() * (relative + 3 * U)) + U * y.abs()
    return y, mean[:, 0], rstd[:, 0], bound, centring[:, 0], relative[:, 0]


@pytest.mark.parametrize(("M", "N", "block"), [(5, 64, 64), (7, 300, 128), (3, 1024, 1024)])
def test_forward_within_the_bound_of_its_roundings(M, N, block, generator):
    x, w, b = (torch.randn(*shape, generator=generator) for shape in ((M, N), (N,), (N,)))
    y, mean, rstd = run_forward(2 * x + 0.5, w, b, block)
    exact, mean64, rstd64, bound, centring, relative = exact_forward(2 * x + 0.5, w, b)
    assert ((y.double() - exact).abs() <= bound).all()
    assert ((mean.double() - mean64).abs() <= centring).all()
    assert ((rstd.double() - rstd64).abs() <= relative * rstd64).all()


def test_forward_of_plus_and_minus_one_is_exact():
    x = torch.tensor([1.0, -1.0] * 32).repeat(2, 1)
    w, b = torch.arange(64.0), torch.arange(64.0, 128.0)
    y, mean, rstd = run_forward(x, w, b, 64, eps=0.0)
    assert (mean == 0).all()
    assert (rstd == 1).all()
    assert torch.equal(y, x * w + b)


@pytest.mark.parametrize(("M", "N", "groups"), [(12, 64, 4), (9, 200, 2), (16, 128, 1)])
def test_backward_adds_every_row_once(M, N, groups, integers):
    # x is +-1 in equal numbers, so mean is 0 and rstd 1; gradients are small integers, so all sums are exact.
    x = torch.tensor([1.0, -1.0]).repeat(M, N // 2)
    dy, w = integers(M, N), integers(N)
    dx, dw, db = torch.empty_like(x), torch.full((groups, N), 7.0), torch.full((groups, N), 7.0)
    lock = torch.zeros(2 * groups, dtype=torch.int32)
    block = triton.next_power_of_2(N)
    backward[(M,)](
        dx, dy, dw, db, x, w, torch.zeros(M), torch.ones(M), lock, N, N, GROUPS=groups, BLOCK=block, num_warps=2
    )
    assert torch.equal(dw.sum(dim=0), (dy * x).sum(dim=0))
    assert torch.equal(db.sum(dim=0), dy.sum(dim=0))
    assert lock.tolist() == [0] * groups + [1] * groups
    scaled = w * dy
    along, level = (x * scaled).sum(dim=1, keepdim=True), scaled.sum(dim=1, keepdim=True)
    exact = scaled.double() - (x * along + level).double() / N
    # Two quotients, a product, two sums: at most 6 roundings of numbers no larger than these.
    size = scaled.abs() + (along.abs() + level.abs()) / N
    assert ((dx.double() - exact).abs() <= 6 * U * size).all()


def test_backward_agrees_with_autograd(generator):
    M, N = 6, 96
    x, dy = (torch.randn(M, N, generator=generator) for _ in range(2))
    w, b = (torch.randn(N, generator=generator) for _ in range(2))
    _, mean, rstd = run_forward(x, w, b, 128)
    dx, dw, db = torch.empty_like(x), torch.zeros(2, N), torch.zeros(2, N)
    backward[(M,)](dx, dy, dw, db, x, w, mean, rstd, torch.zeros(4, dtype=torch.int32), N, N, GROUPS=2, BLOCK=128)
    x64, w64, b64 = (part.double().requires_grad_() for part in (x, w, b))
    torch.nn.functional.layer_norm(x64, (N,), w64, b64, eps=1e-5).backward(dy.double())
    *_, centring, relative = exact_forward(x, w, b)
    normal = (x.double() - mean.double()[:, None]) * rstd.double()[:, None]
    # What the forward pass leaves wrong in a normalised value, and what one more use of it adds.
    off = rstd.double()[:, None] * centring[:, None] + normal.abs() * (relative[:, None] + 3 * U)
    terms = dy.double().abs() * (off + normal.abs() * M * U)
    assert ((dw.double().sum(dim=0) - w64.grad).abs() <= 2 * terms.sum(dim=0)).all()
    assert ((db.double().sum(dim=0) - b64.grad).abs() <= M * U * dy.double().abs().sum(dim=0)).all()
    scaled = (w.double() * dy.double()).abs()
    each = (normal.abs() + off) * (scaled * (normal.abs() + off)).mean(dim=1, keepdim=True)
    wrong = scaled * (relative[:, None] + 8 * U) + scaled.mean(dim=1, keepdim=True) * (N + 8) * U
    wrong += each * ((N + 8) * U + relative[:, None]) + off * (scaled * normal.abs()).mean(dim=1, keepdim=True)
    wrong += normal.abs() * (scaled * off).mean(dim=1, keepdim=True)
    assert ((dx.double() - x64.grad).abs() <= 2 * rstd.double()[:, None] * wrong).all()
