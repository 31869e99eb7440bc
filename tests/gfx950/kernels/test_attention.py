"""Attention in one pass over the keys with a running maximum (Dao et al., FlashAttention), forward."""

import math

import pytest
import torch
import triton
import triton.language as tl

U, HALF = 2.0**-24, 2.0**-11


@triton.jit
def attention(
    q, k, v, out, scale, keys, stride, head_stride,
    TM: tl.constexpr, TN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    q += tl.program_id(1) * head_stride
    k += tl.program_id(1) * head_stride
    v += tl.program_id(1) * head_stride
    out += tl.program_id(1) * head_stride
    rows, columns, depth = tl.program_id(0) * TM + tl.arange(0, TM), tl.arange(0, TN), tl.arange(0, D)
    queries = tl.load(q + rows[:, None] * stride + depth[None, :], mask=rows[:, None] < keys, other=0.0)
    highest = tl.full([TM], -float("inf"), tl.float32)
    total = tl.zeros([TM], tl.float32)
    summed = tl.zeros([TM, D], tl.float32)
    last = min((tl.program_id(0) + 1) * TM, keys) if CAUSAL else keys
    for start in range(0, last, TN):
        where = start + columns
        key = tl.load(k + where[None, :] * stride + depth[:, None], mask=where[None, :] < keys, other=0.0)
        score = tl.dot(queries, key) * scale
        seen = where[None, :] < keys
        if CAUSAL:
            seen = seen & (where[None, :] <= rows[:, None])
        score = tl.where(seen, score, -float("inf"))
        higher = tl.maximum(highest, tl.max(score, axis=1))
        weight = tl.exp2(score - higher[:, None])
        fade = tl.exp2(highest - higher)
        value = tl.load(v + where[:, None] * stride + depth[None, :], mask=where[:, None] < keys, other=0.0)
        total = total * fade + tl.sum(weight, axis=1)
        summed = tl.dot(weight.to(v.dtype.element_ty), value, summed * fade[:, None])
        highest = higher
    summed = summed / total[:, None]
    inside = rows[:, None] < keys
    tl.store(out + rows[:, None] * stride + depth[None, :], summed.to(out.dtype.element_ty), mask=inside)


def run(q, k, v, causal, tiles=(64, 32), warps=4):
    heads, keys, depth = q.shape
    out = torch.empty_like(q)
    scale = math.log2(math.e) / math.sqrt(depth)
    attention[(triton.cdiv(keys, tiles[0]), heads)](
        q, k, v, out, scale, keys, q.stride(1), q.stride(0), TM=tiles[0], TN=tiles[1], D=depth, CAUSAL=causal,
        num_warps=warps,
    )  # fmt: skip
    return out


def exact(q, k, v, causal):
    """float64, and the same with absolute values of v, which the error is proportional to."""
    q, k, v = q.double(), k.double(), v.double()
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[2])
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[1:], dtype=torch.bool).triu(1), float("-inf"))
    weights = torch.softmax(scores, dim=2)
    return weights @ v, weights @ v.abs(), scores


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "keys", "depth"), [(2, 128, 64), (1, 100, 32), (1, 65, 128)])
def test_within_the_bound_of_its_roundings(heads, keys, depth, causal, generator):
    q, k, v = (torch.randn(heads, keys, depth, generator=generator).half() for _ in range(3))
    out = run(q, k, v, causal)
    expected, size, scores = exact(q, k, v, causal)
    # A score in units of log2 is off by (depth + 3) u times the sum of its absolute products (the scale is rounded
    # too), a difference of two by the double and one rounding; 2^x by that times ln 2 and 2u; each of the fades, one a
    # tile, alike. The weights of v are rounded to half precision, sums once a term. All that is relative to the sum of
    # weighted |v|; the result is rounded to half precision.
    products = (q.double().abs() @ k.double().abs().transpose(1, 2)).max() / math.sqrt(depth) / math.log(2)
    finite = scores[scores.isfinite()]
    spread = float(finite.max() - finite.min()) / math.log(2)
    tiles = math.ceil(keys / 32)
    power = (2 * (depth + 3) * float(products) + spread) * U * math.log(2) + 2 * U
    relative = HALF + 2 * (tiles + 1) * power + 2 * (keys + tiles + 3) * U
    assert ((out.double() - expected).abs() <= relative * size + HALF * expected.abs() + 2.0**-25).all()


@pytest.mark.parametrize("causal", [False, True])
def test_equal_scores_average_exactly(causal, integers):
    v = integers(1, 64, 32, low=-8, high=8, dtype=torch.float16)
    zero = torch.zeros(1, 64, 32, dtype=torch.float16)
    out = run(zero, zero, v, causal)
    if causal:
        count = torch.arange(1, 65)[:, None]
        mean = v.float().cumsum(dim=1) / count
        # A power of two divides exactly; the card's quotient of other counts may be off by an ulp of float32.
        exactly = (count & (count - 1) == 0)[:, 0]
        assert torch.equal(out[:, exactly], mean[:, exactly].half())
    else:
        assert torch.equal(out, (v.float().sum(dim=1, keepdim=True) / 64).half().expand_as(out))


def test_one_key_that_outweighs_all_is_copied(integers):
    q = torch.zeros(1, 64, 32, dtype=torch.float16)
    k, v = q.clone(), integers(1, 64, 32, dtype=torch.float16)
    q[:, :, 0], k[0, 40, 0] = 100.0, 100.0
    assert torch.equal(run(q, k, v, False), v[:, 40:41].expand(1, 64, 32))
