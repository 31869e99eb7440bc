"""Scale rules against exact arithmetic and torchao; each edge by name."""

import warnings
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.errors import UnsupportedError
from mxassay.reference import (
    CEIL,
    CEIL_AITER_MX,
    CEIL_TORCHAO,
    DIALECTS,
    E2M1,
    E8M0,
    EVEN,
    EVEN_AITER,
    EVEN_AITER_MX,
    EVEN_TORCHAO,
    FLOOR,
    FLOOR_AITER_MX,
    FLOOR_TORCHAO,
    RCEIL,
    RCEIL_AITER_MX,
    RCEIL_TORCHAO,
    decode,
    dialect_named,
    quantize,
    unpack,
)

INFINITY = 0x7F800000
QUIET_NAN = 0x7FC00000
LARGEST = 0x7F7FFFFF

# The unclamped exponent by the definition of each rule: the least s with amax <= limit * 2^s, or the greatest with >=.
RULES = {
    "even": ("greatest", Fraction(7, 2)),
    "floor": ("greatest", Fraction(4)),
    "ceil": ("least", Fraction(4)),
    "rceil": ("least", Fraction(6)),
}


def byte_of(dialect, bits):
    return dialect.scale_bytes(torch.tensor([bits], dtype=torch.int32)).item()


def exponent_by_definition(rule: str, amax: Fraction) -> int:
    kind, limit = RULES[rule]
    exponent = -160
    if kind == "greatest":
        while limit * Fraction(2) ** (exponent + 1) <= amax:
            exponent += 1
    else:
        while limit * Fraction(2) ** exponent < amax:
            exponent += 1
    return max(exponent, -127)


@given(rule=st.sampled_from(sorted(RULES)), bits=st.integers(1, LARGEST))
@example(rule="rceil", bits=0x7F400001)  # one ulp above 1.5 * 2^127
@example(rule="rceil", bits=0x00C00000)  # 6 * 2^-128 and one ulp above
@example(rule="rceil", bits=0x00C00001)
@example(rule="even", bits=0x00DFFFFF)
@example(rule="even", bits=0x3FDFFFFF)  # just below 1.75
@example(rule="even", bits=0x3FE00000)
@example(rule="ceil", bits=0x3F800001)
@example(rule="floor", bits=0x3FFFFFFF)
def test_scale_rules_by_their_definition(rule, bits):
    amax = Fraction(torch.tensor([bits], dtype=torch.int32).view(torch.float32).item())
    assert byte_of(DIALECTS[rule], bits) == exponent_by_definition(rule, amax) + 127


@pytest.mark.parametrize("name", DIALECTS)
def test_a_block_of_zeros_has_scale_byte_zero(name):
    q = quantize(torch.zeros(32), DIALECTS[name])
    assert (q.scales.tolist(), q.packed.unique().tolist()) == ([0], [0])


TOP = {
    EVEN: (253, 253, 253),
    EVEN_AITER: (254, 254, 254),
    EVEN_AITER_MX: (255, 255, 255),
    EVEN_TORCHAO: (253, 253, 255),
    FLOOR: (252, 253, 255),
    FLOOR_AITER_MX: (252, 255, 255),
    FLOOR_TORCHAO: (252, 253, 255),
    CEIL: (253, 253, 255),
    CEIL_AITER_MX: (253, 255, 255),
    CEIL_TORCHAO: (253, 253, 255),
    RCEIL: (253, 254, 255),
    RCEIL_AITER_MX: (253, 255, 255),
    RCEIL_TORCHAO: (253, 254, 255),
}


def test_every_dialect_has_its_top_edges_listed():
    assert {dialect.name for dialect in TOP} == set(DIALECTS)


@pytest.mark.parametrize("dialect", TOP, ids=lambda d: d.name)
def test_top_of_the_range(dialect):
    overflow, infinity, nan = TOP[dialect]
    for bits in (0x7F600000, 0x7F600001, LARGEST):  # 1.75 * 2^127 and above
        assert byte_of(dialect, bits) == overflow
    assert byte_of(dialect, 0x7F000000) == 252  # 2^127: all rules agree
    assert byte_of(dialect, INFINITY) == infinity
    for bits in (INFINITY + 1, QUIET_NAN, 0x7FFFFFFF):
        assert byte_of(dialect, bits) == nan


def test_even_just_below_its_overflow():
    for dialect in (EVEN, EVEN_AITER, EVEN_AITER_MX, EVEN_TORCHAO):
        assert byte_of(dialect, 0x7F5FFFFF) == 252


def test_ceil_of_aiter_never_gives_byte_zero_to_more_than_two_units():
    assert [byte_of(CEIL_AITER_MX, bits) for bits in (0, 1, 2, 3, 0x01000000, 0x01000001)] == [0, 0, 0, 1, 1, 1]
    assert [byte_of(CEIL, bits) for bits in (3, 0x01000000, 0x01000001)] == [0, 0, 1]


def test_rceil_of_aiter_never_gives_byte_zero_to_more_than_three_units():
    assert [byte_of(RCEIL_AITER_MX, bits) for bits in (0, 1, 3, 4, 0x01400000, 0x01400001)] == [0, 0, 0, 1, 1, 1]
    assert [byte_of(RCEIL, bits) for bits in (4, 0x01400000, 0x01400001)] == [0, 0, 1]


def block(*values):
    return torch.tensor([*values] + [0.0] * (32 - len(values)))


def first_codes(q, count=2):
    return unpack(q.packed)[:count].tolist()


TINY = 2.0**-126


def test_byte_zero_means_two_to_the_minus_127():
    q = quantize(block(TINY, TINY / 4, -TINY / 8), EVEN)
    assert (q.scales.tolist(), first_codes(q, 3)) == ([0], [4, 1, 8])


def test_torchao_divides_elements_of_byte_zero_by_two_to_the_minus_126():
    q = quantize(block(TINY, TINY / 2), EVEN_TORCHAO)
    assert (q.scales.tolist(), first_codes(q)) == ([0], [2, 1])


def test_torchao_rceil_divides_elements_of_byte_zero_by_one():
    q = quantize(block(TINY, TINY / 2), RCEIL_TORCHAO)
    assert (q.scales.tolist(), first_codes(q)) == ([0], [0, 0])


def test_infinity_under_even_is_six_at_byte_253():
    q = quantize(block(float("inf"), -float("inf"), 2.0**127), EVEN)
    assert (q.scales.tolist(), first_codes(q, 3)) == ([253], [7, 15, 4])


def test_nan_under_even_is_six_of_its_sign_at_byte_253():
    nan = torch.tensor([0x7FC0, 0x7FC0 - 0x8000, 0x3F80], dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    q = quantize(torch.cat([nan, torch.zeros(29, dtype=torch.bfloat16)]), EVEN)
    assert (q.scales.tolist(), first_codes(q, 3)) == ([253], [7, 15, 0])


def test_one_nan_beside_finite_values_is_not_lost():
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for position in (0, 7, 31):
            x = torch.ones(32, dtype=dtype)
            x[position] = float("nan")
            assert quantize(x, EVEN_TORCHAO).scales.tolist() == [255]


@pytest.fixture(scope="module")
def torchao():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mx = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor")

    def call(x, mode):
        scales, packed = mx.to_mx(x, torch.float4_e2m1fn_x2, 32, scaling_mode=getattr(mx.ScaleCalculationMode, mode))
        return packed.view(torch.uint8), scales.view(torch.uint8)

    return call


def every_bfloat16_as_amax():
    """Each finite bfloat16 once as the largest of a block, among 31 smaller ones of all kinds."""
    amax = torch.arange(0x7F80, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    generator = torch.Generator().manual_seed(0)
    ratios = torch.rand(len(amax), 32, generator=generator) ** 3 * (torch.randint(0, 2, (len(amax), 32)) * 2 - 1)
    x = (amax.float().unsqueeze(1) * ratios).to(torch.bfloat16)
    x[:, 11] = amax
    return x


PAIRS = {
    "EVEN": (EVEN, EVEN_TORCHAO),
    "FLOOR": (FLOOR, FLOOR_TORCHAO),
    "CEIL": (CEIL, CEIL_TORCHAO),
    "RCEIL": (RCEIL, RCEIL_TORCHAO),
}


@pytest.mark.parametrize("mode", PAIRS)
def test_torchao_agrees_on_every_bfloat16(torchao, mode):
    x = every_bfloat16_as_amax()
    packed, scales = torchao(x, mode)
    ours = quantize(x, PAIRS[mode][1])
    assert torch.equal(ours.scales, scales)
    assert torch.equal(ours.packed, packed)


@pytest.mark.parametrize("mode", PAIRS)
def test_torchao_agrees_with_the_plain_dialect_but_for_codes_under_byte_zero(torchao, mode):
    x = every_bfloat16_as_amax()
    packed, scales = torchao(x, mode)
    ours = quantize(x, PAIRS[mode][0])
    assert torch.equal(ours.scales, scales)
    differs = (ours.packed != packed).any(1)
    assert torch.equal(differs & (scales.squeeze(1) != 0), torch.zeros_like(differs))
    assert differs.any()


@pytest.mark.parametrize("mode", PAIRS)
@pytest.mark.parametrize("special", [float("inf"), -float("inf"), float("nan")])
def test_torchao_agrees_on_special_blocks(torchao, mode, special):
    x = torch.linspace(-3, 3, 32).unsqueeze(0)
    x[0, 3] = special
    packed, scales = torchao(x, mode)
    ours = quantize(x, PAIRS[mode][1])
    assert torch.equal(ours.scales, scales)
    if scales.item() != 255:  # under a NaN scale codes carry no value
        assert torch.equal(ours.packed, packed)


@pytest.mark.parametrize("mode", ["EVEN", "FLOOR", "CEIL"])
def test_torchao_agrees_on_float32(torchao, mode):
    """Not RCEIL: torchao takes log2 in float32, which is one low for an amax just above 6 * 2^s with |s| large."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4096, 32, generator=generator) * torch.exp2(
        torch.randint(-120, 120, (4096, 1), generator=generator)
    )
    packed, scales = torchao(x, mode)
    ours = quantize(x, PAIRS[mode][1])
    assert torch.equal(ours.scales, scales)
    assert torch.equal(ours.packed, packed)


def test_rceil_is_exact_one_unit_above_six():
    bits = torch.tensor([6.0 * 2.0**100]).view(torch.int32)
    assert RCEIL.scale_bytes(torch.cat([bits, bits + 1])).tolist() == [227, 228]


@pytest.mark.parametrize("dialect", [EVEN, CEIL, RCEIL], ids=lambda d: d.name)
def test_finite_values_never_reach_seven(dialect):
    x = every_bfloat16_as_amax()
    q = quantize(x, dialect)
    ratios = x.double().abs() / torch.exp2(q.scales.double() - 127)
    assert ratios.max() < 7


def test_floor_saturates():
    q = quantize(block(7.5, -7.99), FLOOR)
    assert (q.scales.tolist(), first_codes(q)) == ([127], [7, 15])


def test_formats_and_dialects_field_by_field():
    """What was read over once, and what a reader sees change in a commit."""
    declared = Path(__file__).with_name("declared.txt").read_text(encoding="utf-8").splitlines()
    assert [repr(each) for each in (E2M1, E8M0, *DIALECTS.values())] == declared


def test_dialects_are_found_by_name():
    assert dialect_named("rceil") is RCEIL
    with pytest.raises(UnsupportedError) as caught:
        dialect_named("evne")
    assert str(caught.value) == f"dialect must be one of {', '.join(DIALECTS)}, not 'evne'"
    assert [d.name for d in DIALECTS.values()] == list(DIALECTS)
    assert decode(torch.tensor([7], dtype=torch.uint8)).item() == 6
