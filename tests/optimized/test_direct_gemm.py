"""The kernel with hand-chosen layouts gives the bits of the usual one, and says which launches it takes."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from mxassay.errors import ContractError
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.optimized import LEADERBOARD, TEST_SHAPES, Plan, arrivals, gemm, matmul, plan_for

DEVICE = os.environ.get("MXASSAY_DEVICE", "emulated")
only_gfx950 = pytest.mark.skipif(DEVICE != "emulated", reason="the kernel is for gfx950")

# Tails of M and of N, tiles of 32 rows, splits, both ways to read activations, one and several steps, 2 to 8 warps.
CASES = [
    ((1, 16, 256), {"tile_m": 16, "tile_n": 64, "tile_k": 256, "num_warps": 2}),
    ((16, 64, 512), {"tile_m": 16, "tile_n": 64, "tile_k": 256, "num_warps": 2}),
    ((5, 144, 512), {"tile_m": 16, "tile_n": 128, "tile_k": 512}),
    ((17, 272, 1024), {"tile_m": 16, "tile_n": 128, "tile_k": 512}),
    ((33, 160, 768), {"tile_m": 32, "tile_n": 128, "tile_k": 256}),
    ((48, 256, 1536), {"tile_m": 16, "tile_n": 128, "tile_k": 512, "splits": 3}),
    ((7, 528, 2048), {"tile_m": 16, "tile_n": 256, "tile_k": 512, "splits": 2, "num_warps": 8}),
    ((64, 48, 256), {"tile_m": 64, "tile_n": 64, "tile_k": 256, "num_warps": 2}),
    ((16, 144, 2048), {"tile_m": 16, "tile_n": 128, "tile_k": 1024}),  # as much as is staged in LDS
    ((32, 272, 1024), {"tile_m": 32, "tile_n": 256, "tile_k": 512, "num_warps": 8}),
]


def launched(monkeypatch):
    """How often the kernel is launched from now on."""
    from mxassay.optimized import direct_gemm

    calls, launch = [], direct_gemm.launch_direct
    monkeypatch.setattr(direct_gemm, "launch_direct", lambda *words: calls.append(words) or launch(*words))
    return calls


def reductions(monkeypatch):
    """How often a launch of its own sums partials from now on."""
    calls = []
    real = gemm.reduce_partials
    monkeypatch.setattr(gemm, "reduce_partials", lambda *words, **named: calls.append(words) or real(*words, **named))
    return calls


@only_gfx950
@pytest.mark.parametrize(("shape", "fields"), CASES, ids=str)
@pytest.mark.parametrize("fill", [0xFF, 0x00])
def test_the_bits_are_right_whatever_the_padding_holds(shape, fields, fill, make_case, assert_same_bits, monkeypatch):
    calls = launched(monkeypatch)
    case = make_case(*shape, seed=sum(shape), fill=fill)
    out = matmul(case.a, case.b, case.scales, plan=Plan(**fields, direct=True))
    assert len(calls) == 1
    assert_same_bits(out, case.expected)


@only_gfx950
def test_special_activations_and_scales_as_the_usual_kernel_takes_them(assert_same_bits, monkeypatch):
    """NaN, infinities, zeros, subnormals and every exponent; scale bytes 0 to 255: not what the reference promises, but
    what the usual kernel does, bit for bit."""
    calls = launched(monkeypatch)
    bits = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16)
    a = bits.view(32, 8, 256).transpose(0, 1).reshape(64, 1024).contiguous().view(torch.bfloat16)
    generator = torch.Generator().manual_seed(5)
    b = torch.randint(0, 256, (64, 512), generator=generator, dtype=torch.uint8)
    scales = torch.randint(0, 256, (256, 32), generator=generator, dtype=torch.uint8)
    plan = {"tile_m": 16, "tile_n": 64, "tile_k": 256, "num_warps": 2}
    found = matmul(a, b, scales, plan=Plan(**plan, direct=True))
    assert len(calls) == 1
    assert_same_bits(found, matmul(a, b, scales, plan=Plan(**plan)))
    assert found.isnan().any()
    assert found.isfinite().any()


@only_gfx950
@pytest.mark.parametrize(
    "changed",
    [
        lambda a: torch.cat((a, a), 1)[:, ::2].contiguous().t().contiguous().t(),  # columns lie apart
        lambda a: torch.cat((a[:, :4], a), 1)[:, 4:],  # rows begin in the middle of 16 bytes
        lambda a: torch.cat((a, a[:, :4]), 1)[:, :-4],  # and their distance is no multiple of it
    ],
)
def test_activations_that_do_not_fit_take_the_usual_kernel(changed, make_case, assert_same_bits, monkeypatch):
    calls = launched(monkeypatch)
    case = make_case(16, 64, 512)
    a = changed(case.a)
    plan = Plan(tile_m=16, tile_n=64, tile_k=256, num_warps=2, direct=True)
    out = matmul(a, case.b, case.scales, plan=plan)
    assert not calls
    assert_same_bits(out, matmul(a.contiguous(), case.b, case.scales, plan=plan))
    assert len(calls) == 1


@only_gfx950
def test_more_than_lds_holds_takes_the_usual_kernel(make_case, assert_same_bits, monkeypatch):
    calls = launched(monkeypatch)
    case = make_case(64, 64, 768)
    plan = Plan(tile_m=64, tile_n=64, tile_k=256, num_warps=2, direct=True)
    assert_same_bits(matmul(case.a, case.b, case.scales, plan=plan), case.expected)
    assert not calls


@only_gfx950
@pytest.mark.parametrize("shape", [(16, 64, 576), (16, 64, 320)])
def test_a_ragged_k_takes_the_usual_kernel(shape, make_case, assert_same_bits, monkeypatch):
    calls = launched(monkeypatch)
    case = make_case(*shape)
    plan = Plan(tile_m=16, tile_n=64, tile_k=256, num_warps=2, direct=True)
    assert_same_bits(matmul(case.a, case.b, case.scales, plan=plan), case.expected)
    assert not calls


@only_gfx950
@pytest.mark.parametrize("splits", [1, 2])
def test_nothing_undefined_races_or_goes_unwaited(splits, make_case):
    from mxassay.gfx950 import Options, emulated
    from mxassay.gfx950.checks import Checks

    case = make_case(17, 144, 1024)
    plan = Plan(tile_m=16, tile_n=128, tile_k=512, splits=splits, direct=True, joined=True)
    with Checks("default") as checks, emulated(Options(observer=checks)):
        matmul(case.a, case.b, case.scales, plan=plan)
    assert not checks.findings, checks.text()


JOINED = [
    ((1, 16, 512), {"tile_m": 16, "tile_n": 64, "tile_k": 256, "num_warps": 2, "splits": 2}),
    ((33, 272, 1536), {"tile_m": 16, "tile_n": 128, "tile_k": 512, "splits": 3}),
    ((17, 528, 7168), {"tile_m": 16, "tile_n": 256, "tile_k": 512, "splits": 7, "num_warps": 8}),
    ((40, 144, 2048), {"tile_m": 32, "tile_n": 128, "tile_k": 256, "splits": 8}),
]


@only_gfx950
@pytest.mark.parametrize(("shape", "fields"), JOINED, ids=str)
def test_splits_are_summed_in_the_same_launch_call_after_call(shape, fields, make_case, assert_same_bits, monkeypatch):
    calls, apart = launched(monkeypatch), reductions(monkeypatch)
    plan = Plan(**fields, direct=True, joined=True)
    for seed in range(3):
        case = make_case(*shape, seed=seed)
        assert_same_bits(matmul(case.a, case.b, case.scales, plan=plan), case.expected)
    assert (len(calls), len(apart)) == (3, 0)
    assert_same_bits(matmul(case.a, case.b, case.scales, plan=replace(plan, joined=False)), case.expected)
    assert (len(calls), len(apart)) == (4, 1)


@only_gfx950
@pytest.mark.parametrize("waves", [1, 8, 4096])
def test_workgroups_may_come_one_after_another_or_together(waves, make_case, assert_same_bits):
    from mxassay.gfx950 import Options, emulated

    case = make_case(17, 144, 1536)
    plan = Plan(tile_m=16, tile_n=128, tile_k=512, splits=3, direct=True, joined=True)
    with emulated(Options(waves_per_batch=waves)):
        for _ in range(2):
            assert_same_bits(matmul(case.a, case.b, case.scales, plan=plan), case.expected)


@only_gfx950
def test_splits_are_added_in_ascending_order():
    """Row n of W is 1 in split n, a large number and its opposite in the others. 256 is lost where it is added to the
    large one first."""
    sign = torch.tensor([[2, 2, 10], [2, 2, 10], [2, 10, 2]], dtype=torch.uint8).repeat_interleave(128, 1)
    scale = torch.full((3, 3), 127 + 40, dtype=torch.uint8).fill_diagonal_(127).repeat_interleave(8, 1)
    codes, scales = torch.zeros((16, 384), dtype=torch.uint8), torch.full((16, 24), 127, dtype=torch.uint8)
    codes[:3], scales[:3] = sign * 17, scale
    plan = Plan(tile_m=16, tile_n=64, tile_k=256, num_warps=2, splits=3, direct=True, joined=True)
    a = torch.ones((1, 768), dtype=torch.bfloat16)
    out = matmul(a, WEIGHT_PRESHUFFLE.apply(codes), SCALE_SHUFFLE.apply(scales), plan=plan)
    assert out[0, :4].tolist() == [0, 0, 256, 0]


@only_gfx950
def test_rows_of_an_output_may_lie_apart(make_case, assert_same_bits):
    case = make_case(17, 144, 1024)
    wide = torch.full((17, 160), -1.0, dtype=torch.bfloat16)
    plan = Plan(tile_m=16, tile_n=128, tile_k=512, splits=2, direct=True, joined=True)
    matmul(case.a, case.b, case.scales, plan=plan, out=wide[:, :144])
    assert_same_bits(wide[:, :144], case.expected)
    assert (wide[:, 144:] == -1).all()


@only_gfx950
def test_torch_learns_of_the_write(make_case):
    case = make_case(1, 16, 512)
    out = torch.empty((1, 16), dtype=torch.bfloat16)
    plan = Plan(tile_m=16, tile_n=64, tile_k=256, num_warps=2, splits=2, direct=True, joined=True)
    before = out._version
    matmul(case.a, case.b, case.scales, plan=plan, out=out)
    assert out._version > before


@only_gfx950
def test_partials_of_more_than_the_registers_are_summed_apart(make_case, assert_same_bits, monkeypatch):
    apart = reductions(monkeypatch)
    plan = Plan(tile_m=16, tile_n=256, tile_k=256, splits=8, direct=True, joined=True)
    case = make_case(1, 16, 2048)
    assert_same_bits(matmul(case.a, case.b, case.scales, plan=plan), case.expected)
    assert not apart
    case = make_case(1, 16, 2304)
    assert_same_bits(matmul(case.a, case.b, case.scales, plan=replace(plan, splits=9)), case.expected)
    assert len(apart) == 1


@only_gfx950
def test_a_launch_that_raised_leaves_no_counts_behind(make_case, assert_same_bits, monkeypatch):
    from mxassay.optimized import direct_gemm

    plan = Plan(tile_m=16, tile_n=64, tile_k=256, num_warps=2, splits=2, direct=True, joined=True)
    case = make_case(1, 16, 512)
    kernel = direct_gemm.direct_gemm_kernel

    class Dies:
        def __getitem__(self, grid):
            def launch(*arguments, **named):
                arguments[10].fill_(1)
                raise RuntimeError("the kernel died")

            return launch

    monkeypatch.setattr(direct_gemm, "direct_gemm_kernel", Dies())
    with pytest.raises(RuntimeError, match="the kernel died"):
        matmul(case.a, case.b, case.scales, plan=plan)
    monkeypatch.setattr(direct_gemm, "direct_gemm_kernel", kernel)
    assert_same_bits(matmul(case.a, case.b, case.scales, plan=plan), case.expected)


def test_counters_are_kept_for_the_thread_and_enough_for_the_tiles():
    device = torch.device("cpu")
    with arrivals.counters(3, device) as first, arrivals.counters(3, device) as inner:
        assert inner.data_ptr() != first.data_ptr()
    with arrivals.counters(2, device) as again:
        assert again.data_ptr() == first.data_ptr()
    with arrivals.counters(4, device) as more:
        assert len(more) == 4 * 32
        assert not more.any()
    with ThreadPoolExecutor(1) as pool, arrivals.counters(4, device) as mine:
        assert pool.submit(lambda: arrivals._kept.by_stream).result() == {}
    assert mine.data_ptr() == more.data_ptr()


@pytest.mark.parametrize(
    "fields",
    [
        {"tile_m": 8, "tile_n": 128, "tile_k": 256},
        {"tile_m": 16, "tile_n": 64, "tile_k": 256},
        {"tile_m": 16, "tile_n": 128, "tile_k": 128},
        {"tile_m": 16, "tile_n": 128, "tile_k": 256, "linear": True},
    ],
)
def test_plans_that_the_kernel_has_no_layouts_for_are_refused(fields):
    with pytest.raises(ContractError, match=r"Plan.direct must go with preshuffled weights, tile_m of 16"):
        Plan(**fields, direct=True)


def test_the_contest_shapes_use_it():
    assert all(plan_for(*shape).direct for shape in (*LEADERBOARD, *TEST_SHAPES))
