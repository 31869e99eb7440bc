"""Every strategy reaches what it claims."""

from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from mxassay.properties import strategies
from mxassay.properties.kernel import Contract
from mxassay.properties.strategies import (
    any_blocks,
    block_matrices,
    blocks,
    certified_operands,
    memory_layouts,
    ramped_operands,
    shapes,
    sharp_blocks,
    special_blocks,
    usable_blocks,
    wide_operands,
)
from mxassay.properties.strategies.blocks import RATIOS, SPECIAL, Block, fits_bfloat16, stacked, turning_blocks
from mxassay.properties.strategies.matrices import activations_of, ramped, random_codes
from mxassay.properties.strategies.scales import ramp, safe_spread, sweep
from mxassay.properties.sweeps import every_amax, every_ratio, matrix_of
from mxassay.reference import CEIL, DIALECTS, EVEN, FLOOR, RCEIL, certificate, dequantize, encode, quantize


def drawn(strategy, count=200):
    """Examples of a strategy."""
    found = []

    @settings(max_examples=count, derandomize=True, suppress_health_check=list(HealthCheck), deadline=None)
    @given(strategy)
    def collect(value):
        found.append(value)

    collect()
    return found


def bits(x):
    return x.view(torch.int16).int() & 0xFFFF


@pytest.fixture(autouse=True)
def _a_kernel(own_kernel):
    """Strategies ask for the kernel under test."""


def test_shapes_reach_every_size_and_shrink_to_the_least():
    found = drawn(shapes(), 400)
    assert {m for m, _, _ in found} >= {1, 2, 3, 16, 17, 33, 65}
    assert {n for _, n, _ in found} >= {16, 32, 48, 256, 272}
    assert {k for _, _, k in found} >= {64, 320, 576, 2112}
    assert find(shapes(), lambda _: True) == (1, 16, 64)


def test_shapes_obey_the_contract_and_the_limit(kernel_of, right):
    kernel_of(right, contract=Contract(m=4, n=32, k=256))
    for m, n, k in drawn(shapes(most=1 << 18)):
        assert (m % 4, n % 32, k % 256) == (0, 0, 0)
        assert m * n * k <= 1 << 18


def test_every_third_shape_is_one_that_the_kernel_treats_apart(kernel_of, right):
    apart = ((4, 2880, 512), (16, 2112, 7168), (256, 3072, 1536))
    kernel_of(right, contract=Contract(shapes=apart))
    # Without a number beside it no shape would come twice.
    found = Counter(shape for shape, _ in drawn(st.tuples(shapes(), st.integers()), 300))
    assert set(found) & set(apart) == set(apart[:2])  # the last is too large
    assert 50 < sum(found[shape] for shape in apart) < 180
    assert set(drawn(shapes(most=1 << 18), 100)) & set(apart) == {apart[0]}
    assert find(shapes(), lambda _: True) == (1, 16, 64)


def test_a_contract_admits_and_fits():
    assert Contract(k=256).admits((1, 16, 512))
    assert not Contract(k=256).admits((1, 16, 320))
    assert not Contract().admits((0, 16, 64))
    assert Contract(m=8, n=32, k=256).fitted((1, 48, 320)) == (8, 64, 512)


def test_sharp_blocks_reach_ties_neighbours_every_mantissa_and_every_field():
    found = [block.values for block in drawn(sharp_blocks(), 1500)]
    ratios, mantissas, fields, off_by = set(), set(), set(), Counter()
    for block in found:
        scale = EVEN.scale_bytes(bits(block).bitwise_and(0x7FFF).amax()[None] << 16)
        values = block.double().abs() * 2.0 ** (127 - int(scale))
        ratios |= {ratio for ratio in RATIOS if bool((values == ratio).any())}
        amax = int(bits(block).bitwise_and(0x7FFF).amax())
        mantissas.add(amax & 0x7F)
        fields.add(amax >> 7)
        for ratio in RATIOS:
            near = (values != ratio) & ((values - ratio).abs() <= ratio * 2.0**-7)
            off_by[ratio] += int(near.sum())
    assert ratios == set(RATIOS)
    assert all(off_by[ratio] for ratio in RATIOS)
    assert len(mantissas) > 80
    assert {1, 2, 3, 129, 253, 254} <= fields
    assert len(fields) > 120


def test_sharp_blocks_are_finite():
    assert stacked(drawn(sharp_blocks(), 500)).isfinite().all()


def test_a_shrunk_sharp_block_is_small_and_reads_well():
    def has_code_one(block):
        return bool((encode(block.values[None], quantize(block.values[None]).scales) == 1).any())

    least = find(sharp_blocks(), has_code_one)
    assert int((least.values != 0).sum()) <= 2
    assert repr(Block((0x4080, 0, 0x3F00))) == "<block 0: 0x4080, 2: 0x3f00>"
    assert repr(SPECIAL["Inf"]) == "<block: Inf>"


def test_special_blocks_are_what_they_are_called():
    assert {block.name for block in drawn(special_blocks(), 600)} == set(SPECIAL)
    by_name = {name: block.values for name, block in SPECIAL.items()}
    assert (by_name["zeros"] == 0).all()
    assert (bits(by_name["all -0"]) == 0x8000).all()
    assert int((by_name["one-hot 1"] != 0).sum()) == 1
    assert by_name["least subnormal"][0].item() == 2.0**-133
    assert by_name["Inf"].isinf().any()
    assert not by_name["Inf"].isnan().any()
    for name, block in by_name.items():
        assert block.isnan().any().item() == ("NaN" in name), name
    assert by_name["1.75 * 2^127"].abs().max().item() == 1.75 * 2.0**127


def test_any_blocks_hold_any_bits():
    found = stacked(drawn(any_blocks(), 300))
    assert found.isnan().any()
    assert len(bits(found).unique()) > 200


def test_blocks_mix_all_three():
    found = stacked(drawn(blocks(), 300))
    assert found.isnan().any(1).any()
    assert found.isfinite().all(1).any()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_activations_get_the_scale_bytes_they_were_made_for(dialect, kernel_of, right):
    from dataclasses import replace

    from mxassay.properties.kernel import put_under_test

    kernel = kernel_of(right)
    put_under_test(replace(kernel, kernel=replace(kernel.kernel, dialect=dialect)))
    wanted = torch.arange(1, 253).reshape(12, 21).to(torch.uint8)
    a = activations_of(wanted, torch.Generator().manual_seed(0))
    assert torch.equal(quantize(a, DIALECTS[dialect]).scales, wanted)


def test_certified_operands_are_certified_and_their_scales_differ_between_neighbours():
    for operands in drawn(certified_operands(), 60):
        assert operands.expectation.certified.all()
        k = operands.shape[2]
        if safe_spread(k) > 1 and k >= 128:
            assert (operands.scales[1:] != operands.scales[:-1]).any(1).all()
            assert (operands.scales[:, 1:] != operands.scales[:, :-1]).float().mean() > 0.5


def test_ramped_operands_are_certified_and_reach_every_scale_byte():
    weights, activations = torch.zeros(256, dtype=torch.bool), torch.zeros(256, dtype=torch.bool)
    for operands in drawn(ramped_operands(), 300):
        assert operands.expectation.certified.all()
        assert operands.expectation.exact.isfinite().all()
        weights[operands.scales.flatten().long()] = True
        activations[operands.quantized.scales.flatten().long()] = True
    assert weights[:255].all()
    assert activations[1:253].all()


@pytest.mark.parametrize("spread", range(2, 12))
def test_a_ramp_differs_across_every_step_of_the_shuffle(spread):
    table = ramp(64, 16, spread, 120)
    assert int(table.min()) >= 120
    assert int(table.max()) <= 120 + spread
    for step in (1, 2, 16, 32):
        assert (table[step:] != table[:-step]).all(), step
    for step in (1, 2, 4, 8):
        assert (table[:, step:] != table[:, :-step]).all(), step


def test_a_sweep_stays_inside_and_comes_round():
    assert sweep(300, 0, 254, 250).unique().numel() == 255
    assert int(sweep(5, 10, 12, 11).max()) == 12


@pytest.mark.parametrize("k", [64, 512, 1088, 7168])
def test_the_safe_spread_is_safe_and_not_one_bit_too_small(k):
    spread = safe_spread(k)
    largest = torch.full((1, k // 2), 0x77, dtype=torch.uint8)
    scales = torch.full((1, k // 32), 127, dtype=torch.uint8)
    high = scales + spread
    high[0, 0] -= spread
    assert certificate(largest, high, largest, scales).all()
    small = largest.clone()
    small[0, 0] = 0x11  # an odd multiple of 0.5 under the least scale sets the unit
    high[0, 1:] += 2
    assert not certificate(small, high, small, scales).all()


def test_wide_operands_mostly_lack_the_certificate():
    found = [operands for operands in drawn(wide_operands(), 60) if operands.shape[2] > 64]
    without = sum(bool((~operands.expectation.certified).float().mean() > 0.5) for operands in found)
    assert without > len(found) / 2


def test_block_matrices_are_made_of_the_blocks_drawn():
    for operands in drawn(block_matrices(special_blocks()), 30):
        known = {tuple(bits(block.values).tolist()) for block in SPECIAL.values()}
        assert {tuple(row) for row in bits(operands.a).reshape(-1, 32).tolist()} <= known


def test_layouts_reach_ragged_and_whole_shapes():
    found = drawn(memory_layouts(), 300)
    assert {bound.layout.name for bound in found} == {"PACKING", "WEIGHT_PRESHUFFLE", "SCALE_SHUFFLE"}
    assert any(bound.padded_shape != bound.shape for bound in found)
    assert any(bound.padded_shape == bound.shape for bound in found if bound.layout.name == "SCALE_SHUFFLE")


def test_usable_blocks_are_all_blocks_on_a_card_and_the_narrower_ones_elsewhere(kernel_of, right):
    def special(found):
        return any(not block.values.isfinite().all() for block in found)

    kernel_of(right, device="emulated")
    assert special(drawn(usable_blocks(), 200))
    kernel_of(right, device="cuda")
    found = drawn(usable_blocks(), 200)
    assert not special(found)
    for block in found:
        scale = int(quantize(block.values[None]).scales)
        assert block.values.abs().max() == 0 or 1 <= scale <= 250
    largest = max(block.values.abs().max().item() for block in found)
    assert largest > 2.0**100


def test_a_block_fits_bfloat16_between_the_ends():
    assert fits_bfloat16(Block((0, 0x8000)))
    assert fits_bfloat16(Block((8 << 7,)))
    assert not fits_bfloat16(Block(((8 << 7) - 1,)))
    assert fits_bfloat16(Block((0x8000 | (250 << 7) - 1,)))
    assert not fits_bfloat16(Block((250 << 7,)))


def test_random_codes_hold_every_code():
    packed = random_codes(64, 128, torch.Generator().manual_seed(0))
    assert packed.shape == (64, 64)
    assert torch.cat((packed & 15, packed >> 4)).unique().tolist() == list(range(16))


def test_every_strategy_has_a_test_here():
    files = Path(__file__).parent.glob("test_strategies*.py")
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    assert [name for name in strategies.__all__ if text.count(name) < 2] == []


def test_every_amax_is_every_amax():
    found = bits(every_amax()).bitwise_and(0x7FFF).amax(1)
    assert torch.equal(found.sort().values, torch.arange(0x7F80, dtype=torch.int32))
    assert (every_amax() < 0).any()


@pytest.mark.parametrize("dialect", ["even", "rceil", "floor-torchao", "even-aiter"])
def test_every_ratio_covers_a_scale(dialect):
    rule = DIALECTS[dialect]
    seen = 0
    for byte in range(255):
        found = every_ratio(byte, rule)
        if not len(found):
            continue
        assert (quantize(found, rule).scales == byte).all()
        magnitudes = bits(found) & 0x7FFF
        lowest, highest = max((byte - 3) * 128, 0), int(magnitudes.max())
        for sign in (0, 0x8000):
            elements = bits(found)[(bits(found) & 0x8000) == sign] & 0x7FFF
            assert set(range(lowest, highest)) <= set(elements.tolist())
        below = torch.tensor([max(lowest - 1, 0)], dtype=torch.int16).view(torch.bfloat16)
        assert below.double().item() * 2.0 ** (127 - byte) <= 0.25
        seen += 1
    assert seen >= 253


def test_a_matrix_is_its_blocks_and_zeros():
    found = matrix_of(torch.ones(5, 32), 2)
    assert found.shape == (3, 64)
    assert found.sum() == 5 * 32
    assert (found[2, 32:] == 0).all()


def test_ramped_words_say_what_was_made():
    assert "sweep scale bytes from 60" in repr(ramped((2, 16, 64), 0, start=60))


@pytest.mark.parametrize("field", [129, 3, 250])
def test_turning_blocks_tell_every_two_rules_apart(field):
    rows = torch.stack([stacked(row) for row in turning_blocks(field)])
    for one, other in combinations((EVEN, FLOOR, CEIL, RCEIL), 2):
        first, second = (quantize(rows, rule) for rule in (one, other))
        scaled = first.scales != second.scales
        assert scaled.any()
        differ = (dequantize(*first) != dequantize(*second)).any(-1)
        assert torch.equal(differ, scaled.squeeze(-1))


def test_turning_blocks_hold_every_ratio_exactly_and_one_unit_beside():
    for exact, above, below in turning_blocks():
        *bits, amax = exact.bits
        ratios = exact.values.abs().double() / 2.0 ** (int(quantize(exact.values.unsqueeze(0)).scales) - 127)
        assert {ratio for ratio in RATIOS if ratio <= ratios.max()} <= set(ratios.tolist())
        assert [b & 0x7FFF for b in above.bits] == [min((b & 0x7FFF) + 1, amax) for b in bits] + [amax]
        assert all(b & 0x7FFF in (e & 0x7FFF, (e & 0x7FFF) - 1) for b, e in zip(below.bits, exact.bits, strict=True))
        assert below.bits != exact.bits
