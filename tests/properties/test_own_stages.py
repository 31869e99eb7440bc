"""Properties of our own stages, plans and entry points: each sees a stage that is wrong in one way.

The stages are replaced by plain torch, right or wrong, so no device is needed.
"""

from dataclasses import replace

import pytest
import torch
from hypothesis.errors import Flaky

import mxassay.optimized
import mxassay.optimized.tile_map
from mxassay.errors import ContractError
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE, BoundLayout
from mxassay.optimized import QuantizedActivations, SplitK, reconcile
from mxassay.optimized.tile_map import grouped_order_py, xcd_remap_py
from mxassay.properties import test_blocks as blocks
from mxassay.properties import test_contracts as contracts
from mxassay.properties import test_formats as formats
from mxassay.properties import test_gemm as gemm
from mxassay.properties import test_invariance as invariance
from mxassay.properties import test_layouts as layouts
from mxassay.properties import test_padding as padding
from mxassay.properties import test_split_k as split_k
from mxassay.properties import test_tile_map as tile_map
from mxassay.properties import tile_map_kernels, witnesses
from mxassay.properties.checks import PropertyError
from mxassay.properties.entries import ENTRIES
from mxassay.reference import EVEN, FLOOR, encode, matmul, partials, quantize, round_to_bfloat16


def linear(x):
    n, k = x.b_preshuffled.shape[0], 2 * x.b_preshuffled.shape[1]
    return WEIGHT_PRESHUFFLE.invert(x.b_preshuffled), SCALE_SHUFFLE.invert(x.b_scales_shuffled, (n, k // 32))


def product(x, _plan):
    return matmul(*quantize(x.a), *linear(x))


@pytest.fixture
def seen(own_kernel, run_property):
    """Run a property and see it fail."""

    def check(test, **arguments):
        with pytest.raises(PropertyError):
            run_property(test, own_kernel, **arguments)

    return check


# The quantizer


def quantizer_of(dialect):
    return lambda x: QuantizedActivations(*quantize(x, dialect))


def scale_of_the_row(x):
    m, k = x.shape
    amax = (x.view(torch.int16).int() & 0x7FFF).amax(1, keepdim=True).expand(m, k // 32) << 16
    return QuantizedActivations(*quantize(x, scales=EVEN.scale_bytes(amax)))


BLOCKS = [blocks.test_every_largest_magnitude, blocks.test_every_ratio_under_every_scale]
BLOCKS += [blocks.test_any_block, blocks.test_a_block_depends_on_itself_alone]


@pytest.mark.parametrize("test", BLOCKS)
def test_a_right_quantizer_passes(test, own_kernel, run_property, monkeypatch):
    monkeypatch.setattr(mxassay.optimized, "quantize", quantizer_of(EVEN))
    run_property(test, own_kernel)


@pytest.mark.parametrize(
    ("test", "wrong"),
    [
        (blocks.test_every_largest_magnitude, quantizer_of(FLOOR)),
        (blocks.test_every_ratio_under_every_scale, quantizer_of(replace(EVEN, ties="away"))),
        (blocks.test_any_block, quantizer_of(replace(EVEN, ties="away"))),
        (blocks.test_any_block, quantizer_of(replace(EVEN, nan=254))),
        (blocks.test_any_block, quantizer_of(replace(EVEN, overflow=254))),
        (blocks.test_a_block_depends_on_itself_alone, scale_of_the_row),
    ],
)
def test_a_wrong_quantizer_is_seen(test, wrong, seen, monkeypatch):
    monkeypatch.setattr(mxassay.optimized, "quantize", wrong)
    seen(test)


# Splits


def with_empty_splits(k, tile_k, splits):
    return replace(reconcile(k, tile_k, splits), count=splits)


def without_the_last_tile(k, tile_k, splits):
    cut = reconcile(k, tile_k, splits)
    return SplitK(max(cut.span - cut.tile_k, cut.tile_k), cut.tile_k, cut.count)


def span_in_blocks(k, tile_k, splits):
    cut = reconcile(k, tile_k, splits)
    return replace(cut, span=cut.span + 32)


@pytest.mark.parametrize("wrong", [with_empty_splits, without_the_last_tile, span_in_blocks])
def test_a_wrong_cut_is_seen(wrong, seen, monkeypatch):
    monkeypatch.setattr(mxassay.optimized, "reconcile", wrong)
    seen(split_k.test_every_k_lies_in_one_split)


def reduce_right(x):
    total = x[0].clone()
    for part in x[1:]:
        total += part
    return round_to_bfloat16(total.double())


def reduce_in_bfloat16(x):
    total = x[0].bfloat16()
    for part in x[1:]:
        total += part.bfloat16()
    return total


def reduce_without_the_last(x):
    return reduce_right(x[:-1] if len(x) > 1 else x)


def reduce_descending(x):
    return reduce_right(x.flip(0))


def reduce_truncating(x):
    total = x[0].clone()
    for part in x[1:]:
        total += part
    return (total.view(torch.int32) >> 16).to(torch.int16).view(torch.bfloat16)


def test_a_right_reduction_passes(own_kernel, run_property, monkeypatch):
    monkeypatch.setattr(mxassay.optimized, "reduce_partials", reduce_right)
    run_property(split_k.test_the_reduce_kernel, own_kernel)


@pytest.mark.parametrize("wrong", [reduce_in_bfloat16, reduce_without_the_last, reduce_descending, reduce_truncating])
def test_a_wrong_reduction_is_seen(wrong, seen, monkeypatch):
    monkeypatch.setattr(mxassay.optimized, "reduce_partials", wrong)
    seen(split_k.test_the_reduce_kernel)


def split_product(shift):
    """`matmul` with partials over spans that begin `shift` elements too late."""

    def multiply(a, b, scales, *, plan, workspace):
        n, k = b.shape[0], 2 * b.shape[1]
        cut = reconcile(k, plan.tile_k, plan.splits)
        a = a.clone()
        if shift:
            a[:, cut.span : cut.span + shift] = 0
        operands = (*quantize(a), WEIGHT_PRESHUFFLE.invert(b), SCALE_SHUFFLE.invert(scales, (n, k // 32)))
        kept = workspace.partials(cut.count, a.shape[0], n, a.device)
        kept.copy_(partials(*operands, span=cut.span))
        return reduce_right(kept)

    return multiply


def test_right_partials_pass_and_wrong_ones_are_seen(own_kernel, run_property, seen, monkeypatch):
    monkeypatch.setattr(mxassay.optimized, "matmul", split_product(0))
    run_property(split_k.test_partials_are_exact_and_add_up, own_kernel)
    monkeypatch.setattr(mxassay.optimized, "matmul", split_product(32))
    seen(split_k.test_partials_are_exact_and_add_up)


# Tile maps


def remapped(map_):
    def of(totals, _device):
        out = torch.full((len(totals), 4096), -1, dtype=torch.int32)
        for row, total in enumerate(totals):
            out[row, :total] = torch.tensor([map_(pid, total) for pid in range(total)], dtype=torch.int32)
        return out

    return of


def ordered(map_):
    def of(grids, group_m, _device):
        out = torch.full((len(grids), 4096), -1, dtype=torch.int32)
        for row, (m, n) in enumerate(grids):
            found = [map_(tile, m, n, group_m) for tile in range(m * n)]
            out[row, : m * n] = torch.tensor([i * n + j for i, j in found], dtype=torch.int32)
        return out

    return of


def remap_for_multiples_of_eight(pid, total):
    return pid % 8 * (total // 8) + pid // 8


def order_without_the_last_band(tile, tiles_m, tiles_n, group_m):
    band, within = divmod(tile, group_m * tiles_n)
    return band * group_m + within % group_m, within // group_m


@pytest.fixture
def few_grids(monkeypatch):
    monkeypatch.setattr(tile_map, "_TOTALS", [1, 7, 8, 9, 16, 333])
    monkeypatch.setattr(tile_map, "every_grid", lambda: [(1, 1), (3, 2), (9, 5), (8, 8)])


@pytest.mark.usefixtures("few_grids")
def test_right_maps_pass(own_kernel, run_property, monkeypatch):
    monkeypatch.setattr(tile_map_kernels, "remapped", remapped(xcd_remap_py))
    monkeypatch.setattr(tile_map_kernels, "ordered", ordered(grouped_order_py))
    tile_map.test_every_count_is_spread_over_the_dies(own_kernel)
    tile_map.test_every_grid_is_covered(own_kernel, 4)
    run_property(tile_map.test_the_twin_gives_the_same_order, own_kernel)


@pytest.mark.usefixtures("few_grids")
def test_wrong_maps_are_seen(seen, monkeypatch):
    monkeypatch.setattr(tile_map_kernels, "remapped", remapped(remap_for_multiples_of_eight))
    seen(tile_map.test_every_count_is_spread_over_the_dies)
    monkeypatch.setattr(tile_map_kernels, "remapped", remapped(lambda pid, _total: pid))
    seen(tile_map.test_every_count_is_spread_over_the_dies)  # a bijection, but not the twin's
    monkeypatch.setattr(tile_map_kernels, "ordered", ordered(order_without_the_last_band))
    seen(tile_map.test_every_grid_is_covered, group_m=4)
    monkeypatch.setattr(tile_map_kernels, "ordered", ordered(lambda t, m, n, g: divmod(t, n)))
    seen(tile_map.test_the_twin_gives_the_same_order)


# Entry points, plans, strides


def one_off(x, plan):
    out = product(x, plan)
    out.view(torch.int16)[0, 0] += 1
    return out


def all_entries(monkeypatch, **wrong):
    for name in ENTRIES:
        monkeypatch.setitem(ENTRIES, name, wrong.get(name, product))


def test_entry_points_that_disagree_are_seen(own_kernel, run_property, seen, monkeypatch):
    all_entries(monkeypatch)
    run_property(gemm.test_entry_points_agree, own_kernel)
    for name in list(ENTRIES)[1:]:
        all_entries(monkeypatch, **{name: one_off})
        seen(gemm.test_entry_points_agree)


def test_plans_that_disagree_are_seen(own_kernel, run_property, seen, monkeypatch):
    all_entries(monkeypatch)
    run_property(invariance.test_any_plan_any_split, own_kernel)
    all_entries(monkeypatch, matmul=lambda x, plan: (one_off if plan and plan.linear else product)(x, plan))
    seen(invariance.test_any_plan_any_split)
    all_entries(monkeypatch, matmul=lambda x, plan: (one_off if plan and plan.splits > 7 else product)(x, plan))
    with pytest.raises((PropertyError, Flaky)):
        run_property(invariance.test_any_plan_any_split, own_kernel)


def rows_taken_for_contiguous(x, plan):
    m, k = x.a.shape
    return product(replace(x, a=x.a.as_strided((m, k), (k, 1))), plan)


def test_strides_ignored_are_seen(own_kernel, run_property, seen, monkeypatch):
    all_entries(monkeypatch)
    run_property(padding.test_strides_change_no_bit, own_kernel)
    all_entries(monkeypatch, matmul=rows_taken_for_contiguous)
    seen(padding.test_strides_change_no_bit)


# Contracts


def test_calls_that_are_not_refused_are_seen(seen, monkeypatch):
    monkeypatch.setattr(mxassay.optimized, "matmul", lambda *_args, **_kwargs: None)
    seen(contracts.test_illegal_calls_are_refused, name="a float32")

    def refuses_everything_else(**arguments):
        if arguments["a"].dtype != torch.bfloat16:
            raise ContractError("something must be otherwise, not as it is")

    monkeypatch.setattr(mxassay.optimized, "matmul", refuses_everything_else)
    seen(contracts.test_illegal_calls_are_refused, name="a float32")  # refused, but not by name


def test_plans_that_are_not_refused_are_seen(seen, monkeypatch):
    monkeypatch.setattr(mxassay.optimized, "Plan", dict)
    seen(contracts.test_illegal_plans_are_refused, tile_m=16)


# Formats and layouts


@pytest.mark.parametrize(
    ("test", "name", "wrong"),
    [
        ("test_sixteen_codes", "decode", lambda codes, dtype: torch.zeros(16, dtype=dtype)),
        ("test_every_scale_byte", "decode_scales", lambda scales: 2.0 ** (scales.double().clamp(min=1) - 127)),
        ("test_the_even_element_is_low", "quantize", lambda x: (torch.tensor([0x17] * 16), torch.tensor([127]))),
        ("test_every_bfloat16_under_every_scale", "encode", lambda x, scales: torch.zeros(len(x), dtype=torch.uint8)),
    ],
)
def test_wrong_formats_are_seen(test, name, wrong, monkeypatch):
    monkeypatch.setattr(formats, name, wrong)
    with pytest.raises(PropertyError):
        getattr(formats, test)()


@pytest.mark.parametrize("name", formats.WITNESSES)
def test_a_witness_that_differs_is_seen(name, monkeypatch):
    pytest.importorskip(formats.WITNESSES[name].module)
    monkeypatch.setattr(witnesses, "encode", lambda x: encode(x) ^ (x > 2).to(torch.uint8))
    monkeypatch.setattr(witnesses, "quantize", lambda x, dialect: quantize(x, FLOOR if dialect != FLOOR else EVEN))
    with pytest.raises(PropertyError):
        formats.test_other_libraries_agree(name)


def test_wrong_layouts_are_seen(run_property, monkeypatch):
    right = BoundLayout.offsets
    monkeypatch.setattr(BoundLayout, "offsets", lambda bound, place=None: right(bound, place).flip(0))
    with pytest.raises(PropertyError):
        run_property(layouts.test_every_element_lies_where_the_formula_says, None)
    monkeypatch.setattr(BoundLayout, "offsets", lambda bound, place=None: right(bound, place).clamp(max=5))
    with pytest.raises(PropertyError):
        run_property(layouts.test_no_byte_holds_two_elements, None)


def test_a_shuffle_that_is_not_the_formula_is_seen(run_property, monkeypatch):
    right = BoundLayout.apply
    monkeypatch.setattr(BoundLayout, "apply", lambda bound, x, fill=0: right(bound, x, fill).flip(0))
    with pytest.raises(PropertyError):
        run_property(layouts.test_every_element_lies_where_the_formula_says, None)


def test_padding_that_is_not_filled_is_seen(run_property, monkeypatch):
    right = BoundLayout.apply
    monkeypatch.setattr(BoundLayout, "apply", lambda bound, x, fill=0: right(bound, x, 0))
    with pytest.raises(PropertyError):
        run_property(layouts.test_no_byte_holds_two_elements, None)


def test_a_golden_vector_that_changed_is_seen(monkeypatch):
    monkeypatch.setattr(layouts, "computed_vectors", lambda: {"layouts": {"PACKING": {"formula": "k"}}})
    with pytest.raises(PropertyError, match="formula of PACKING"):
        layouts.test_golden_vectors("PACKING")
