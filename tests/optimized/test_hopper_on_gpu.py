"""The kernels for Hopper on one: bits, repeats, tails, activations, graphs, streams. Run with MXASSAY_DEVICE=cuda."""

import os

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
