"""The fused GEMM, bit for bit: every plan feature, every tail, poison wherever a kernel must not look."""

import itertools

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.optimized import LEADERBOARD, TEST_SHAPES, Plan, Workspace, matmul, matmul_prepared, plan_for, prepare
from mxassay.optimized.device import current_target
from mxassay.optimized.plans import _TABLE
from mxassay.reference import matmul as exact
from mxassay.reference import quantize


class PoisonedWorkspace(Workspace):
    """Partials that start as NaN, inside a buffer with a canary on both sides."""

    def partials(self, splits, m, n, device):
        self.buffer = torch.full((splits * m * n + 512,), float("nan"), dtype=torch.float32, device=device)
        self.inner = self.buffer[256:-256]
        return self.inner.view(splits, m, n)

    def check(self):
        assert self.buffer[:256].isnan().all()
        assert self.buffer[-256:].isnan().all()
        assert not self.inner.isnan().any()


def poisoned_output(m, n, device, pitch):
    buffer = torch.full((m + 2, pitch), float("nan"), dtype=torch.bfloat16, device=device)
    return buffer, buffer[1 : m + 1, :n]


def check(case, plan, assert_same_bits):
    m, n = case.expected.shape
    workspace = PoisonedWorkspace()
    buffer, out = poisoned_output(m, n, case.a.device, n + 7)
    assert matmul(case.a, case.b, case.scales, out=out, plan=plan, workspace=workspace) is out
    assert_same_bits(out, case.expected)
    out.fill_(float("nan"))
    assert buffer.isnan().all()
    if hasattr(workspace, "buffer"):
        workspace.check()


@pytest.mark.parametrize("m", range(1, 18))
def test_every_row_count_around_a_tile(m, make_case, assert_same_bits):
    check(make_case(m, 32, 256), Plan(tile_m=8, tile_n=32, tile_k=256), assert_same_bits)


@pytest.mark.parametrize("n", [16, 32, 48, 64, 80, 112, 272])
@pytest.mark.parametrize("tile_n", [16, 32, 64])
def test_columns_that_do_not_fill_a_tile(n, tile_n, make_case, assert_same_bits):
    check(make_case(3, n, 256), Plan(tile_m=4, tile_n=tile_n, tile_k=256), assert_same_bits)


@pytest.mark.parametrize("k", [64, 128, 192, 256, 320, 448, 512, 576, 832, 1088])
@pytest.mark.parametrize("tile_k", [64, 128, 256, 512])
@pytest.mark.parametrize("linear", [False, True])
def test_depths_that_do_not_fill_a_tile(k, tile_k, linear, make_case, assert_same_bits):
    nonkdim = 32 if tile_k == 64 else 16
    plan = Plan(tile_m=4, tile_n=32, tile_k=tile_k, matrix_instr_nonkdim=nonkdim, linear=linear)
    check(make_case(3, 48, k), plan, assert_same_bits)


@pytest.mark.parametrize("splits", range(1, 9))
@pytest.mark.parametrize(("tile_n", "tile_k"), [(16, 128), (32, 128), (32, 256)])
@pytest.mark.parametrize("k", [1024, 1088])
def test_splits(splits, tile_n, tile_k, k, make_case, assert_same_bits):
    plan = Plan(tile_m=4, tile_n=tile_n, tile_k=tile_k, splits=splits)
    check(make_case(5, 48, k), plan, assert_same_bits)


@pytest.mark.parametrize("group_m", [1, 2, 3, 65536])
@pytest.mark.parametrize("splits", [1, 3])
def test_grouped_order_and_splits_cover_the_output(group_m, splits, make_case, assert_same_bits):
    plan = Plan(tile_m=2, tile_n=16, tile_k=128, group_m=group_m, splits=splits)
    check(make_case(13, 80, 384), plan, assert_same_bits)


@pytest.mark.parametrize("fill", [0x00, 0x7F, 0xFF])
@pytest.mark.parametrize(("tile_n", "tile_k"), [(16, 128), (32, 256)])
def test_scale_padding_has_no_influence(fill, tile_n, tile_k, make_case, assert_same_bits):
    check(make_case(2, 272, 320, fill=fill), Plan(tile_m=2, tile_n=tile_n, tile_k=tile_k), assert_same_bits)


@given(
    m=st.integers(1, 20),
    n=st.integers(1, 6).map(lambda tiles: 16 * tiles),
    k=st.integers(1, 16).map(lambda tiles: 64 * tiles),
    tile_m=st.sampled_from([1, 2, 4, 8, 16]),
    tile_n=st.sampled_from([16, 32, 64, 128]),
    tile_k=st.sampled_from([128, 256, 512]),
    group_m=st.integers(1, 4),
    splits=st.integers(1, 9),
    linear=st.booleans(),
)
@example(m=17, n=80, k=1088 - 64, tile_m=16, tile_n=64, tile_k=256, group_m=2, splits=3, linear=False)
def test_any_plan_for_any_shape(make_case, assert_same_bits, m, n, k, tile_m, tile_n, tile_k, group_m, splits, linear):
    plan = Plan(tile_m=tile_m, tile_n=tile_n, tile_k=tile_k, group_m=group_m, splits=splits, linear=linear)
    check(make_case(m, n, k), plan, assert_same_bits)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 16, 64), (7, 48, 320), (33, 32, 576), (2, 16, 2048)])
def test_the_planned_default(m, n, k, make_case, assert_same_bits):
    case = make_case(m, n, k)
    assert_same_bits(matmul(case.a, case.b, case.scales), case.expected)


def test_a_plan_is_really_used(make_case, monkeypatch):
    case = make_case(2, 16, 512)
    workspace = PoisonedWorkspace()
    matmul(case.a, case.b, case.scales, plan=Plan(tile_m=2, tile_n=16, tile_k=128, splits=4), workspace=workspace)
    assert workspace.inner.numel() == 4 * 2 * 16


STRIDED = {
    "rows apart": lambda a: torch.cat([a, a * 0 + 9], dim=1)[:, : a.shape[1]],
    "every second row": lambda a: torch.stack([a, a * 0 + 9], dim=1).flatten(0, 1)[::2],
    "every second column": lambda a: torch.stack([a, a * 0 + 9], dim=2).flatten(1)[:, ::2],
    "transposed": lambda a: a.t().contiguous().t(),
    "offset by one element": lambda a: torch.cat([a.new_zeros(1), a.flatten()])[1:].view(a.shape),
}


@pytest.mark.parametrize("name", STRIDED)
def test_strided_activations(name, make_case, assert_same_bits):
    case = make_case(5, 32, 320)
    a = STRIDED[name](case.a)
    assert a.stride() != case.a.stride() or a.storage_offset() != 0
    plan = Plan(tile_m=4, tile_n=32, tile_k=256)
    assert_same_bits(matmul(a, case.b, case.scales, plan=plan), case.expected)


def test_one_row_broadcast_to_many(make_case, assert_same_bits):
    case = make_case(1, 32, 128)
    found = matmul(case.a.expand(6, -1), case.b, case.scales)
    assert_same_bits(found, case.expected.expand(6, -1))


def test_a_lazily_negated_activation_counts_as_negative(make_case, assert_same_bits):
    case = make_case(2, 16, 64)
    negated = torch._neg_view(-case.a)
    assert negated.is_neg()
    assert_same_bits(matmul(negated, case.b, case.scales), case.expected)


@pytest.mark.parametrize("lead", [1, 3, 16])
def test_weights_and_scales_at_any_address(lead, embed, make_case, assert_same_bits):
    case = make_case(3, 48, 320)
    found = matmul(case.a, embed(case.b, lead), embed(case.scales, lead), plan=Plan(tile_m=4, tile_n=32, tile_k=256))
    assert_same_bits(found, case.expected)


def test_float4_and_float8_dtypes_are_the_same_bytes(make_case, assert_same_bits):
    case = make_case(3, 48, 320)
    b, scales = case.b.view(torch.float4_e2m1fn_x2), case.scales.view(torch.float8_e8m0fnu)
    assert_same_bits(matmul(case.a, b, scales), case.expected)


def test_no_rows_give_an_empty_output(make_case):
    case = make_case(1, 32, 128)
    found = matmul(case.a[:0], case.b, case.scales)
    assert found.shape == (0, 32)
    assert found.dtype == torch.bfloat16


@pytest.mark.parametrize("splits", [1, 2])
def test_an_output_that_is_held_is_not_touched_by_later_calls(splits, make_case, assert_same_bits):
    plan = Plan(tile_m=4, tile_n=32, tile_k=128, splits=splits)
    first, second = make_case(4, 32, 256, seed=1), make_case(4, 32, 256, seed=2)
    held = matmul(first.a, first.b, first.scales, plan=plan)
    assert_same_bits(matmul(second.a, second.b, second.scales, plan=plan), second.expected)
    assert_same_bits(held, first.expected)


@pytest.mark.parametrize("linear", [False, True])
def test_weights_rewritten_in_place_are_seen(linear, make_case, assert_same_bits):
    plan = Plan(tile_m=4, tile_n=32, tile_k=128, linear=linear)
    workspace = Workspace()
    first, second = make_case(4, 32, 256, seed=1), make_case(4, 32, 256, seed=2)
    matmul(first.a, first.b, first.scales, plan=plan, workspace=workspace)
    first.b.copy_(second.b)
    first.scales.copy_(second.scales)
    found = matmul(second.a, first.b, first.scales, plan=plan, workspace=workspace)
    assert_same_bits(found, second.expected)


def test_prepared_weights(make_case, assert_same_bits):
    case = make_case(5, 48, 576)
    weights = prepare(case.b, case.scales)
    for splits in (1, 3):
        plan = Plan(tile_m=4, tile_n=32, tile_k=128, splits=splits)
        assert_same_bits(matmul_prepared(case.a, weights, plan=plan), case.expected)
    assert_same_bits(matmul_prepared(case.a, weights), case.expected)


@pytest.mark.parametrize(("tile_n", "tile_k"), [(16, 128), (32, 256)])
def test_offsets_of_64_bits_give_the_same(tile_n, tile_k, make_case, assert_same_bits, monkeypatch):
    monkeypatch.setattr("mxassay.optimized.gemm._needs_wide_offsets", lambda *_: True)
    for linear in (False, True):
        plan = Plan(tile_m=4, tile_n=tile_n, tile_k=tile_k, linear=linear)
        check(make_case(5, 48, 320), plan, assert_same_bits)


def test_scale_byte_255_makes_its_column_nan_and_no_other(make_case, assert_same_bits):
    case = make_case(3, 48, 320)
    for row, group in itertools.product((0, 17, 47), (0, 9)):
        scales = case.linear_scales.clone()
        scales[row, group] = 255
        found = matmul(case.a, case.b, SCALE_SHUFFLE.apply(scales), plan=Plan(tile_m=4, tile_n=32, tile_k=256))
        assert found[:, row].isnan().all()
        others = [column for column in range(48) if column != row]
        assert_same_bits(found[:, others], case.expected[:, others])


def scale_bytes():
    """Every scale byte where the device multiplies codes and scales as such; elsewhere, those that fit bfloat16."""
    backend = current_target().backend
    return range(255) if backend == "hip" else range(1, 253)


@pytest.mark.filterwarnings("error")
def test_every_scale_byte_of_the_weights(embed, device, assert_same_bits):
    generator = torch.Generator().manual_seed(3)
    used = torch.tensor([scale_bytes()[row % len(scale_bytes())] for row in range(256)])
    linear_scales = used[:, None].expand(256, 4).to(torch.uint8)
    linear_b = torch.randint(0, 256, (256, 64), generator=generator, dtype=torch.uint8)
    # One element a row: outputs are single products, from subnormals to infinity.
    a = torch.zeros(8, 128, dtype=torch.bfloat16)
    a[torch.arange(8), torch.arange(8) * 17] = 1.0
    quantized = quantize(a)
    expected = exact(quantized.packed, quantized.scales, linear_b, linear_scales)
    b, scales = embed(WEIGHT_PRESHUFFLE.apply(linear_b)), embed(SCALE_SHUFFLE.apply(linear_scales, fill=255))
    found = matmul(a.to(device), b, scales, plan=Plan(tile_m=8, tile_n=32, tile_k=256))
    assert_same_bits(found.cpu(), expected)


def test_every_scale_byte_of_the_activations(embed, device, assert_same_bits):
    generator = torch.Generator().manual_seed(4)
    used = [byte for byte in scale_bytes() if byte < 254]
    a = torch.zeros(len(used), 128)
    a[torch.arange(len(used)), torch.arange(len(used)) % 128] = 1.0
    a *= torch.exp2(torch.tensor(used, dtype=torch.float64) - 125)[:, None].clamp(max=2.0**127).float()
    quantized = quantize(a.bfloat16())
    assert set(quantized.scales.flatten().tolist()) >= {byte for byte in used if byte < 253}
    linear_b = torch.randint(0, 256, (32, 64), generator=generator, dtype=torch.uint8)
    linear_scales = torch.full((32, 4), 127, dtype=torch.uint8)
    expected = exact(quantized.packed, quantized.scales, linear_b, linear_scales)
    b, scales = embed(WEIGHT_PRESHUFFLE.apply(linear_b)), embed(SCALE_SHUFFLE.apply(linear_scales, fill=255))
    found = matmul(a.bfloat16().to(device), b, scales, plan=Plan(tile_m=8, tile_n=32, tile_k=256))
    assert_same_bits(found.cpu(), expected)


def test_the_default_plan_of_each_named_shape_exists():
    assert set(_TABLE) == {*LEADERBOARD, *TEST_SHAPES}
    assert all(plan_for(*shape) is plan for shape, plan in _TABLE.items())
