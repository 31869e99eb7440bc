"""The kernel with hand-chosen layouts gives the bits of the usual one, and says which launches it takes."""

import os

import pytest
import torch

from mxassay.errors import ContractError
from mxassay.optimized import LEADERBOARD, TEST_SHAPES, Plan, matmul, plan_for

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
    monkeypatch.setattr(direct_gemm, "launch_direct", lambda *words: (calls.append(words), launch(*words)))
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
def test_nothing_undefined_races_or_goes_unwaited(make_case):
    from mxassay.gfx950 import Options, emulated
    from mxassay.gfx950.checks import Checks

    case = make_case(17, 144, 1024)
    with Checks("default") as checks, emulated(Options(observer=checks)):
        matmul(case.a, case.b, case.scales, plan=Plan(tile_m=16, tile_n=128, tile_k=512, direct=True))
    assert not checks.findings, checks.text()


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
