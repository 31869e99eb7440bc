"""The x-ray finds nothing wrong with a right kernel, whatever its plan, and names what is wrong with a wrong one."""

from dataclasses import replace

import pytest
import torch

from mxassay.errors import MxassayError
from mxassay.gfx950 import emulated
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.loading import Request, open_kernels
from mxassay.properties.faults import STAGES
from mxassay.properties.kernel import KernelUnderTest, Launch, Placement
from mxassay.properties.operands import Operands
from mxassay.reference import quantize
from mxassay.triage.failure import Failure, Subject
from mxassay.triage.rerun import on
from mxassay.triage.xray import xray

RIGHT = "every point looked at is right"


@pytest.fixture(scope="module")
def kernel():
    with emulated(), open_kernels(Request(None, None, "even", "emulated")) as kernels:
        yield KernelUnderTest(kernels[0], "emulated", "cpu", own=True)


def operands_of(m, n, k, seed=0):
    """Ramped scales, so that nothing that is exchanged looks alike."""
    generator = torch.Generator().manual_seed(seed)
    blocks = torch.arange(k // 32)
    a = torch.randn(m, k // 32, 32, generator=generator)
    a *= torch.exp2(((7 * torch.arange(m)[:, None] + 3 * blocks) % 13 - 6).float())[..., None]
    weights = quantize(torch.randn(n, k, generator=generator).to(torch.bfloat16))
    ramp = (5 * torch.arange(n)[:, None] + 11 * blocks) % 9
    scales = (weights.scales.int() + ramp - 4).to(torch.uint8)
    return Operands(a.reshape(m, k).to(torch.bfloat16), weights.packed, scales, words="ramped")


def failure_of(m, n, k, plan=None, **options):
    entry, view = options.get("entry", "matmul"), options.get("view", "contiguous")
    return Failure(Subject(), operands_of(m, n, k), Launch(plan, entry), Placement(0xFF, view), None)


def contest_plans():
    from mxassay.optimized.plans import LEADERBOARD, TEST_SHAPES, plan_for

    return {shape: plan_for(*shape) for shape in (*LEADERBOARD, *TEST_SHAPES)}


@pytest.mark.parametrize("shape", contest_plans(), ids=lambda shape: "x".join(map(str, shape)))
def test_a_right_kernel_is_right_at_every_point_of_each_contest_plan(kernel, shape):
    plan = contest_plans()[shape]
    m, n, k = min(shape[0], plan.tile_m), 32, shape[2]
    found = xray(failure_of(m, n, k, plan), on(kernel))
    assert found.first_divergence is None
    assert found.notes == (RIGHT,)
    stages = {point.stage for point in found.checkpoints if point.compared}
    assert stages >= {"activations", "quantizer.scale", "quantizer.element", "pack", "weights.layout", "scales.layout"}
    assert stages >= {"launch", "k-loop", "split-k", "accumulate", "store"}
    assert ("reduce" in stages) == (plan.splits > 1)
    counts = {point.what: point.compared for point in found.checkpoints}
    assert counts["times that each block of K is counted"] == m * n * k // 32
    assert counts["times that each output is stored"] == m * n


@pytest.mark.parametrize(
    ("shape", "plan", "options"),
    [
        ((5, 48, 320), {"tile_m": 8, "tile_n": 64, "tile_k": 256, "splits": 2}, {}),
        ((5, 48, 320), {"tile_m": 8, "tile_n": 64, "tile_k": 256, "splits": 2, "linear": True}, {}),
        ((33, 48, 320), {"tile_m": 32, "tile_n": 64, "tile_k": 64, "splits": 2, "matrix_instr_nonkdim": 32}, {}),
        ((16, 48, 576), {"tile_m": 16, "tile_n": 16, "tile_k": 128}, {"view": "transposed"}),
        ((3, 16, 64), {"tile_m": 16, "tile_n": 64, "tile_k": 256}, {"entry": "matmul(out=columns of a wider buffer)"}),
    ],
)
def test_ragged_shapes_linear_weights_views_and_the_large_instruction_are_right_too(kernel, shape, plan, options):
    from mxassay.optimized import Plan

    found = xray(failure_of(*shape, Plan(**plan), **options), on(kernel))
    assert found.first_divergence is None
    assert found.notes == (RIGHT,)


# What goes wrong on the way into the kernel looks to the x-ray as if it went wrong inside: same code, other bytes.
def _rows_of_w_exchanged(x):
    rows = torch.arange(len(x.codes)).view(-1, 2).flip(1).reshape(-1)
    return x, replace(x, codes=x.codes[rows].contiguous())


def _rows_of_scales_exchanged(x):
    rows = torch.arange(len(x.scales)).view(-1, 2).flip(1).reshape(-1)
    return x, replace(x, scales=x.scales[rows].contiguous())


def _scale_byte_raised(x):
    return x, replace(x, scales=torch.where(x.scales == x.scales.max(), x.scales + 1, x.scales))


def _nibbles_of_w_swapped(x):
    return x, replace(x, codes=(x.codes >> 4 | x.codes << 4).contiguous())


def _columns_of_a_exchanged(x):
    blocks = torch.arange(x.a.shape[1] // 32).view(-1, 2).flip(1).reshape(-1)
    return x, replace(x, a=x.a.view(len(x.a), -1, 32)[:, blocks].reshape(x.a.shape))


def _elements_of_a_exchanged(x):
    return x, replace(x, a=x.a.view(*x.a.shape[:1], -1, 2).flip(2).reshape(x.a.shape))


def _elements_of_a_cut(x):
    return x, replace(x, a=(x.a.view(torch.int16) & -16).view(torch.bfloat16))


def _subnormals_of_a_flushed(x):
    tiny = (x.a.view(torch.int16) & 0x7F80) == 0
    return x, replace(x, a=torch.where(tiny, torch.zeros_like(x.a), x.a))


@pytest.mark.parametrize(
    ("wrong", "stage"),
    [
        (_rows_of_w_exchanged, "weights.layout"),
        (_nibbles_of_w_swapped, "weights.layout"),
        (_rows_of_scales_exchanged, "scales.layout"),
        (_scale_byte_raised, "scales.layout"),
        (_columns_of_a_exchanged, "activations"),
        (_elements_of_a_exchanged, "pack"),
        (_elements_of_a_cut, "quantizer.element"),
        (_subnormals_of_a_flushed, "activations"),
    ],
)
def test_the_first_divergence_names_the_stage_with_everything_about_it(kernel, wrong, stage):
    from mxassay.optimized import Plan

    failure = failure_of(16, 64, 256, Plan(tile_m=16, tile_n=64, tile_k=256))
    if wrong is _subnormals_of_a_flushed:
        bits = torch.arange(1, 1 + 16 * 256, dtype=torch.int16).reshape(16, 256) % 0x180
        failure = replace(failure, operands=replace(failure.operands, a=bits.view(torch.bfloat16)))

    def run(case):
        _, given = wrong(case.operands)
        return kernel.run(given, case.launch, case.placement).out

    first = xray(failure, run).first_divergence
    assert first is not None
    assert first.stage == stage
    assert first.stage in STAGES
    assert 0 < first.differing <= first.compared
    assert first.kernel == "fused_gemm_kernel"
    assert first.pc is not None
    assert first.instruction.startswith(("v_mfma_scale_f32_16x16x128", "v_cvt_scalef32_pk_fp4"))
    assert first.source is not None
    assert first.source[0].endswith((".py",))
    assert first.lane in range(64)
    assert first.wave in range(4)
    assert first.place.startswith("v")
    assert first.index
    assert first.expected != first.found


def test_a_kernel_that_is_not_seen_gives_no_checkpoints_but_a_note():
    operands = operands_of(4, 16, 64)
    failure = Failure(Subject("theirs.py", "gpumode"), operands, Launch(), Placement(), None)
    found = xray(failure, lambda case: case.operands.expectation.exact)
    assert found.checkpoints == ()
    assert found.notes == ("no launch was seen on the emulated card: the kernel ran elsewhere, or in another process",)


def test_a_kernel_that_raises_is_looked_at_up_to_there(kernel):
    def run(case):
        kernel.run(case.operands, case.launch, case.placement)
        raise MxassayError("the outputs must arrive, not vanish")

    found = xray(failure_of(4, 16, 128), run)
    assert found.first_divergence is None
    assert found.notes[0] == "the run ended with MxassayError: the outputs must arrive, not vanish"
    assert len(found.checkpoints) > 15


def test_weights_prepared_wrongly_are_told_before_anything_else(kernel, monkeypatch):
    from mxassay.optimized import Plan, workspace
    from mxassay.optimized.prepare import PreparedWeights

    def badly(weights, scales):
        n, k = weights.shape[0], 2 * weights.shape[1]
        return PreparedWeights(WEIGHT_PRESHUFFLE.apply(weights), SCALE_SHUFFLE.invert(scales, (n, k // 32)))

    monkeypatch.setattr(workspace, "prepare", badly)
    found = xray(failure_of(16, 64, 256, Plan(tile_m=16, tile_n=64, tile_k=256, linear=True)), on(kernel))
    first = found.first_divergence
    assert first is not None
    assert (first.stage, first.what, first.place) == ("prepare", "W in row-major order", "w_ptr")
