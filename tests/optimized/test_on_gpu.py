"""What only a GPU can show: offsets beyond 32 bits (40 GiB needed), graphs, streams. Run with MXASSAY_DEVICE=cuda."""

import os

import pytest
import torch

from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.optimized import Plan, matmul, prepare, quantize
from mxassay.optimized.gemm import _needs_wide_offsets
from mxassay.reference import certificate
from mxassay.reference import matmul as exact

pytestmark = pytest.mark.skipif(
    os.environ.get("MXASSAY_DEVICE") != "cuda", reason="needs a CUDA GPU with 40 GiB: set MXASSAY_DEVICE=cuda"
)


def random_bytes(*shape):
    return torch.randint(0, 256, shape, dtype=torch.uint8, device="cuda")


def scale_table(n, k):
    row, group = torch.arange(n, device="cuda")[:, None], torch.arange(k // 32, device="cuda")[None, :]
    return (126 + (row + group) % 2).to(torch.uint8)


def check_window(found, a, b, scales, assert_same_bits):
    """A window of an output against the reference, from rows of A and linear rows of W."""
    quantized = quantize(a)
    operands = [tensor.cpu() for tensor in (quantized.packed, quantized.scales, b, scales)]
    assert certificate(*operands).all()
    assert_same_bits(found.cpu(), exact(*operands))


@pytest.fixture(autouse=True)
def free():
    yield
    torch.cuda.empty_cache()


@pytest.mark.parametrize("tile", [{"tile_n": 32, "tile_k": 256}, {"tile_n": 16, "tile_k": 128, "splits": 2}])
def test_activations_and_their_offsets(tile, assert_same_bits):
    m, n, k = 65_600, 32, 32_768
    assert m * k > 1 << 31
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b, scales = random_bytes(n, k // 2), scale_table(n, k)
    found = matmul(a, WEIGHT_PRESHUFFLE.apply(b), SCALE_SHUFFLE.apply(scales), plan=Plan(tile_m=16, **tile))
    for rows in (slice(0, 16), slice(32_760, 32_776), slice(65_530, 65_546), slice(m - 16, m)):
        check_window(found[rows], a[rows], b, scales, assert_same_bits)


@pytest.mark.parametrize("linear", [False, True])
def test_weights_of_more_than_four_gigabytes(linear, assert_same_bits):
    m, n, k = 3, 262_144, 36_864
    assert n * k // 2 > 1 << 32
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = random_bytes(n, k // 2)  # every byte string is the preshuffle of some weights
    scales = scale_table(n, k)
    plan = Plan(tile_m=4, tile_n=64, tile_k=256, linear=linear)
    found = matmul(a, b, SCALE_SHUFFLE.apply(scales, fill=0xFF), plan=plan)
    for first in (0, 58_240, 116_496, 233_008, n - 32):
        columns = slice(first, first + 32)
        linear_b = torch.cat([WEIGHT_PRESHUFFLE.invert(b[i : i + 16], (16, k // 2)) for i in (first, first + 16)])
        check_window(found[:, columns], a, linear_b, scales[columns], assert_same_bits)


def test_an_output_of_more_than_two_to_the_31_elements(assert_same_bits):
    m, n, k = 70_000, 32_768, 64
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b, scales = random_bytes(n, k // 2), scale_table(n, k)
    found = matmul(a, WEIGHT_PRESHUFFLE.apply(b), SCALE_SHUFFLE.apply(scales))
    for rows in (slice(0, 8), slice(65_530, 65_540), slice(m - 8, m)):
        check_window(found[rows], a[rows], b, scales, assert_same_bits)


def test_offsets_inside_a_tile_that_leave_32_bits(assert_same_bits):
    stride = 9_000_000
    a = torch.empty(128, stride, device="cuda", dtype=torch.bfloat16).t()[:5]
    a.copy_(torch.randn(5, 128))
    b, scales = random_bytes(32, 64), scale_table(32, 128)
    plan = Plan(tile_m=8, tile_n=32, tile_k=128)
    arguments = (a, b, scales, torch.empty(1, 5, 32), plan, 128)
    assert _needs_wide_offsets(*arguments)
    found = matmul(a, WEIGHT_PRESHUFFLE.apply(b), SCALE_SHUFFLE.apply(scales), plan=plan)
    check_window(found, a, b, scales, assert_same_bits)


def test_a_captured_graph_replays_with_new_inputs(make_case, assert_same_bits):
    first, second = make_case(5, 48, 1024, seed=1), make_case(5, 48, 1024, seed=2)
    for plan in (
        None,
        Plan(tile_m=4, tile_n=32, tile_k=128, splits=3),
        Plan(tile_m=4, tile_n=32, tile_k=128, linear=True),
    ):
        case = make_case(5, 48, 1024, seed=1)
        matmul(case.a, case.b, case.scales, plan=plan)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = matmul(case.a, case.b, case.scales, plan=plan)
        graph.replay()
        assert_same_bits(out, first.expected)
        for target, source in ((case.a, second.a), (case.b, second.b), (case.scales, second.scales)):
            target.copy_(source)
        graph.replay()
        assert_same_bits(out, second.expected)


def test_two_streams_at_once(make_case, assert_same_bits):
    cases = [make_case(16, 272, 2048, seed=seed) for seed in (1, 2)]
    plan = Plan(tile_m=16, tile_n=32, tile_k=256, splits=4)
    streams = [torch.cuda.Stream() for _ in cases]
    torch.cuda.synchronize()
    for _ in range(20):
        found = []
        for case, stream in zip(cases, streams, strict=True):
            with torch.cuda.stream(stream):
                found.append(matmul(case.a, case.b, case.scales, plan=plan))
        torch.cuda.synchronize()
        for output, case in zip(found, cases, strict=True):
            assert_same_bits(output, case.expected)


def test_prepared_weights_on_a_gpu(make_case, assert_same_bits):
    case = make_case(5, 272, 576)
    weights = prepare(case.b, case.scales)
    assert weights.packed.device == case.b.device
    assert_same_bits(weights.packed, case.linear_b)
    assert_same_bits(weights.scales, case.linear_scales)
