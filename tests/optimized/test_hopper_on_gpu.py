"""The kernels for Hopper on one: bits, repeats, tails, activations, graphs, streams. Run with MXASSAY_DEVICE=cuda."""

import os
import random

import pytest
import torch

from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.optimized import LEADERBOARD, TEST_SHAPES, Plan, matmul
from mxassay.optimized.hopper import launches
from mxassay.reference import expectation, quantize

ON_HOPPER = os.environ.get("MXASSAY_DEVICE") == "cuda" and torch.cuda.get_device_capability() == (9, 0)
pytestmark = pytest.mark.skipif(not ON_HOPPER, reason="needs a Hopper GPU: set MXASSAY_DEVICE=cuda")

DIRECT = Plan(tile_m=16, tile_n=64, tile_k=256, num_warps=2, direct=True)
# Tails of M, N and K; one and several splits and steps; both kernels.
ODD = [
    (1, 16, 64), (2, 272, 192), (5, 48, 320), (17, 80, 576), (33, 272, 1088), (3, 112, 3648), (40, 128, 1024),
    (64, 192, 2560), (50, 64, 512), (9, 4096, 4160), (63, 320, 1536), (64, 64, 16384), (13, 2112, 7168),
]  # fmt: skip


@pytest.fixture
def taken(monkeypatch):
    """How often the kernels took a launch."""
    from mxassay.optimized import hopper

    calls, launch = [], launches.launch_on_hopper
    monkeypatch.setattr(hopper, "launch_on_hopper", lambda *words: calls.append(launch(*words)) or calls[-1])
    return calls


@pytest.mark.parametrize("shape", [*LEADERBOARD, *TEST_SHAPES, *ODD], ids=str)
def test_bits_and_repeats(shape, taken):
    from mxassay.cases import Case, build

    problem = build(Case(shape, seed=sum(shape)), "cuda")
    x = problem.arguments
    plan = DIRECT if shape in ODD else None
    out = matmul(x.a, x.b_preshuffled, x.b_scales_shuffled, plan=plan)
    assert taken == [True]
    assert not problem.expectation.wrong(out.cpu()).any()
    for _ in range(50):
        again = matmul(x.a, x.b_preshuffled, x.b_scales_shuffled, plan=plan)
        assert torch.equal(again.view(torch.int16), out.view(torch.int16))
    assert not problem.changed()


# Every tail: of 8 and 16 tokens, of stripes, of steps and splits; K of whole loads, which the other kernel takes.
SOME_M = [1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 24, 31, 32, 33, 40, 47, 57, 63, 64]
SOME_STRIPES = [1, 2, 3, 4, 5, 7, 8, 11, 12, 17, 20, 33]
SOME_K = [64, 192, 320, 448, 512, 576, 960, 1024, 1088, 1536, 2048, 3648, 4160, 4608]


def drawn(seed):
    """Activations (M, K) in rows that may lie apart, codes and scales of W; which rows of A are promised a result."""
    choose, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    m, n, k = choose.choice(SOME_M), 16 * choose.choice(SOME_STRIPES), choose.choice(SOME_K)
    blocks = torch.randn(m, k // 32, 32, generator=generator)
    blocks *= torch.exp2(torch.randint(-3, 4, (m, k // 32, 1), generator=generator))
    blocks = blocks.to(torch.bfloat16)
    kind = torch.randint(0, 20, (m, k // 32), generator=generator)
    blocks[kind == 0] = 0
    subnormal = torch.randint(0, 0x80, blocks.shape, generator=generator, dtype=torch.int16)
    blocks[kind == 1] = subnormal.view(torch.bfloat16)[kind == 1]
    blocks[kind == 2] *= 2.0**100
    blocks[kind == 3] *= -(2.0**-100)
    rows = blocks.reshape(m, k)
    poisoned = torch.rand(m, generator=generator) < 0.1
    rows[poisoned, choose.randrange(k)] = choose.choice([float("nan"), float("inf"), -float("inf")])
    pitch = k + 8 * choose.choice([0, 0, 1, 5])
    a = torch.full((m, pitch), float("nan"), dtype=torch.bfloat16)[:, :k]
    a.copy_(rows)
    codes = torch.randint(0, 256, (n, k // 2), generator=generator, dtype=torch.uint8)
    scales = torch.randint(122, 130, (n, k // 32), generator=generator, dtype=torch.uint8)
    if choose.random() < 0.3:
        scales[torch.rand(scales.shape, generator=generator) < 0.02] = choose.choice([0, 1, 255])
    return a, codes, scales, ~poisoned


@pytest.mark.parametrize("seed", range(320))
def test_random_launches(seed, taken):
    a, codes, scales, promised = drawn(seed)
    m, n = len(a), len(codes)
    on_gpu = torch.full((m, a.stride(0)), float("nan"), dtype=torch.bfloat16, device="cuda")[:, : a.shape[1]]
    on_gpu.copy_(a)
    b, ws = WEIGHT_PRESHUFFLE.apply(codes).cuda(), SCALE_SHUFFLE.apply(scales, fill=0xFF).cuda()
    apart = torch.full((m + 2, n + 32), 7.0, dtype=torch.bfloat16, device="cuda")
    matmul(on_gpu, b, ws, plan=DIRECT, out=apart[1:-1, 16:-16])
    out = matmul(on_gpu, b, ws, plan=DIRECT)
    assert taken == [True, True]
    assert torch.equal(apart[1:-1, 16:-16].view(torch.int16), out.view(torch.int16))
    apart[1:-1, 16:-16] = 7
    assert apart.eq(7).all()
    expected = expectation(*quantize(a[promised]), codes, scales)
    assert not expected.wrong(out.cpu()[promised]).any()


@pytest.mark.parametrize("m", [8, 64])
def test_every_activation_under_every_scale_that_is_promised(m, taken):
    """One-hot rows of W pick single activations: what comes out is the activation on the grid of its block."""
    k = 512
    rows = (1 << 16) // 32  # each bfloat16 in one block, with neighbours of up to five binades below
    bits = torch.arange(1 << 16, dtype=torch.int32).view(rows, 32)
    generator = torch.Generator().manual_seed(4)
    field = (bits >> 7 & 0xFF) - torch.randint(0, 6, bits.shape, generator=generator)
    mixed = torch.where(torch.arange(32) % 2 == 0, bits, bits & 0x807F | field.clamp(min=0) << 7)
    a = mixed.to(torch.int16).view(torch.bfloat16).view(-1, k)
    a = a[quantize(a).scales.le(250).all(1)]
    codes = torch.zeros(k, k // 2, dtype=torch.uint8)
    at = torch.arange(k)
    codes[at, at // 2] = torch.where(at % 2 == 0, 0x02, 0x20).to(torch.uint8)
    scales = torch.full((k, k // 32), 127, dtype=torch.uint8)
    b, ws = WEIGHT_PRESHUFFLE.apply(codes).cuda(), SCALE_SHUFFLE.apply(scales, fill=0xFF).cuda()
    assert len(a) > 100
    for part in a.split(m):
        out = matmul(part.cuda(), b, ws, plan=DIRECT).cpu()
        assert not expectation(*quantize(part), codes, scales).wrong(out).any()
    assert all(taken)


@pytest.mark.parametrize("shape", [(5, 48, 1024), (48, 128, 1024), (16, 64, 8192)], ids=str)
def test_a_captured_graph_replays_with_new_inputs(shape, make_case, assert_same_bits):
    first, second, case = make_case(*shape, seed=1), make_case(*shape, seed=2), make_case(*shape, seed=1)
    matmul(case.a, case.b, case.scales, plan=DIRECT)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = matmul(case.a, case.b, case.scales, plan=DIRECT)
    graph.replay()
    assert_same_bits(out, first.expected)
    for target, source in ((case.a, second.a), (case.b, second.b), (case.scales, second.scales)):
        target.copy_(source)
    for _ in range(20):
        out.fill_(float("nan"))
        graph.replay()
        assert_same_bits(out, second.expected)


@pytest.mark.parametrize("shape", [(48, 128, 1024), (16, 64, 8192)], ids=str)
def test_two_streams_at_once(shape, make_case, assert_same_bits):
    cases = [make_case(*shape, seed=seed) for seed in (1, 2)]
    streams = [torch.cuda.Stream() for _ in cases]
    torch.cuda.synchronize()
    for _ in range(50):
        found = []
        for case, stream in zip(cases, streams, strict=True):
            with torch.cuda.stream(stream):
                found.append(matmul(case.a, case.b, case.scales, plan=DIRECT))
        torch.cuda.synchronize()
        for output, case in zip(found, cases, strict=True):
            assert_same_bits(output, case.expected)
