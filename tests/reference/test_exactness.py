"""The certificate and the bound against adders that round, truncate and align, in orders good and bad."""

import itertools
import random
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mxassay.errors import ContractError
from mxassay.reference import certificate, error_bound, expectation, matmul, quantize

CODES = {0.0: 0, 0.5: 1, 1.0: 2, 1.5: 3, 2.0: 4, 3.0: 5, 4.0: 6, 6.0: 7}


def u8(rows):
    return torch.tensor(rows, dtype=torch.uint8)


def operand(blocks, scales):
    """One row from lists of values, each filled up with zeros to a block."""
    packed = []
    for values in blocks:
        codes = [CODES[abs(v)] | (8 if v < 0 else 0) for v in values] + [0] * (32 - len(values))
        packed += [low | high << 4 for low, high in zip(codes[0::2], codes[1::2], strict=True)]
    return u8([packed]), u8([scales])


def bits(out):
    return (out.view(torch.int16).int() & 0xFFFF).flatten().tolist()


def to_grid(value: Fraction, bits_kept: int, truncate: bool) -> Fraction:
    """`value` on a float32-like grid of `bits_kept` bits, subnormals included."""
    if value == 0:
        return value
    exponent = -149
    if abs(value) >= Fraction(2) ** -149:
        size = abs(value.numerator).bit_length() - value.denominator.bit_length()
        size += abs(value) >= Fraction(2) ** size
        exponent = max(size - bits_kept, -149)
    steps = abs(value) / Fraction(2) ** exponent
    count = int(steps) if truncate else round(steps)
    return Fraction(count) * Fraction(2) ** exponent * (1 if value > 0 else -1)


def add_all(terms, width, truncate):
    """A chain of adders of `width` inputs, one of them the running sum; width 2 is ordinary float32 addition."""
    total = Fraction(0)
    for start in range(0, len(terms), width - 1):
        inputs = [total, *terms[start : start + width - 1]]
        if width > 2 and any(inputs):
            largest = max(abs(x) for x in inputs)
            size = largest.numerator.bit_length() - largest.denominator.bit_length()
            size += largest >= Fraction(2) ** size
            step = Fraction(2) ** max(size - 24, -149)
            inputs = [Fraction(int(x / step)) * step for x in inputs]
        total = to_grid(sum(inputs), 24, truncate)
    return total


def add_as_tree(terms, truncate, rng):
    """Two random neighbours at a time."""
    values = [to_grid(x, 24, truncate) for x in terms]
    while len(values) > 1:
        i = rng.randrange(len(values) - 1)
        values[i : i + 2] = [to_grid(values[i] + values[i + 1], 24, truncate)]
    return values[0]


def summations(terms, seed):
    """Results of many summations of one output, as float32 values."""
    rng = random.Random(seed)
    orders = [sorted(terms), sorted(terms, key=abs), sorted(terms, key=abs, reverse=True)]
    orders += [rng.sample(terms, len(terms)) for _ in range(3)]
    for order in orders:
        for truncate in (False, True):
            for width in (2, 3, 5, 17):
                yield add_all(order, width, truncate)
            yield add_as_tree([x for x in order if x] or [Fraction(0)], truncate, rng)
            halves = [add_all(order[part::3], 2, truncate) for part in range(3)]
            yield add_all(halves, 2, truncate)


# No overflow: that needs Inf in the adders, and has tests of its own.
RANGES = ((100, 160), (124, 130), (0, 20), (120, 136), (40, 64), (126, 127))


@given(data=st.data(), seed=st.integers(0, 1 << 16))
def test_every_summation_is_admissible_and_certified_outputs_have_one_value(
    data, seed, operands, terms_of, bfloat16_of
):
    case = data.draw(operands(scale_ranges=RANGES, max_blocks=2), label="a, a_scales, b, b_scales")
    a, b = case[0], case[2]
    expected = expectation(*case)
    i, j = data.draw(st.integers(0, len(a) - 1), label="i"), data.draw(st.integers(0, len(b) - 1), label="j")
    terms = terms_of(*case, i, j)
    results = set(summations(terms, seed))
    if expected.certified[i, j]:
        assert results == {sum(terms)}
    out = expected.exact.repeat(len(results), 1, 1)
    for index, value in enumerate(results):
        out[index, i, j] = (
            torch.tensor(bfloat16_of(value) - (1 << 16 if value < 0 else 0)).to(torch.int16).view(torch.bfloat16)
        )
        assert not expected.wrong(out[index]).any(), float(value)


def test_an_uncertified_output_has_several_values(bfloat16_of):
    """2^24 + 1 - 2^24: one order gives 0, another 1."""
    a, a_scales = operand([[1.0], [1.0], [1.0]], [151, 127, 151])
    b, b_scales = operand([[1.0], [1.0], [-1.0]], [127, 127, 127])
    big, one = Fraction(2) ** 24, Fraction(1)
    assert {add_all([big, one, -big], 2, False), add_all([big, -big, one], 2, False)} == {Fraction(0), one}
    expected = expectation(a, a_scales, b, b_scales)
    assert not expected.certified.item()
    assert expected.exact.item() == 1
    for value in (0.0, 1.0):
        assert not expected.wrong(torch.tensor([[value]], dtype=torch.bfloat16)).any()
    assert expected.wrong(torch.tensor([[64.0]], dtype=torch.bfloat16)).all()


def limit_case(last: int, shift: int = 0):
    """Products that sum to 2^24 - 16 in units of 2^shift, and `last` units more."""
    blocks = [[1.0] * 31] * 4 + [[1.0] * last]
    return *operand(blocks, [146, 141, 136, 131, 127]), *operand(blocks, [127 + shift] * 5)


def test_the_certificate_is_exactly_two_to_the_24_units():
    assert certificate(*limit_case(16)).item()
    assert not certificate(*limit_case(17)).item()


def test_the_unit_is_the_largest_that_divides_a_block():
    """6 is 3 * 2, so its block has the unit 2; with a unit of 1/2 the same sum would not fit."""
    a, a_scales = operand([[4.0], [6.0]], [148, 127])
    b, b_scales = operand([[4.0], [6.0]], [127, 127])
    assert certificate(a, a_scales, b, b_scales).item()  # 2^25 + 36 in units of 4
    b, b_scales = operand([[4.0], [0.5]], [127, 127])
    assert not certificate(a, a_scales, b, b_scales).item()  # 2^25 + 3 in units of 1


def test_blocks_without_a_nonzero_product_set_no_unit():
    a, a_scales = operand([[6.0], [1.0], [0.0]], [127, 0, 3])
    b, b_scales = operand([[6.0], [0.0], [1.0]], [127, 200, 250])
    assert certificate(a, a_scales, b, b_scales).item()


def test_one_hot_data_is_certified_over_nearly_all_scales():
    for byte in (0, 60, 106, 127, 180, 250):
        a, a_scales = operand([[6.0], [0.0]], [byte, 127])
        b, b_scales = operand([[4.0], [6.0]], [127, 254])
        assert certificate(a, a_scales, b, b_scales).item()


def test_the_certificate_ends_at_float32s_least_subnormal():
    half = [[0.5]]
    assert certificate(*operand(half, [64]), *operand(half, [43])).item()  # 2^-2 * 2^-63 * 2^-84 = 2^-149
    assert not certificate(*operand(half, [64]), *operand(half, [42])).item()


def test_the_certificate_ends_at_float32s_largest_number():
    one = [[1.0]]
    assert certificate(*operand(one, [254]), *operand(one, [127])).item()  # 2^127
    assert not certificate(*operand(one, [254]), *operand(one, [128])).item()
    assert certificate(*limit_case(15, shift=104)).item()  # 2^128 - 2^104, the largest
    assert not certificate(*limit_case(16, shift=104)).item()  # 2^128, though no more than 24 bits
    twice = [[1.0, 1.0]]
    assert not certificate(*operand(twice, [254]), *operand(twice, [127])).item()


def test_nothing_and_zeros_are_certified():
    a, a_scales = operand([[0.0]], [0])
    assert certificate(a, a_scales, a, a_scales).item()
    assert matmul(a, a_scales, a, a_scales).item() == 0


@pytest.mark.parametrize("shape", [(4, 288, 512), (16, 211, 7168), (32, 400, 512), (64, 716, 2048), (25, 307, 1536)])
def test_normal_data_is_certified_at_the_leaderboards_depths(shape):
    m, n, k = shape
    generator = torch.Generator().manual_seed(k)
    left, right = (quantize(torch.randn(rows, k, generator=generator).to(torch.bfloat16)) for rows in (m, n))
    assert certificate(*left, *right).all()


def test_the_bound_of_one_product_is_the_product():
    a, a_scales = operand([[6.0], [0.0]], [140, 0])
    b, b_scales = operand([[1.5], [3.0]], [130, 254])
    bound = error_bound(a, a_scales, b, b_scales)
    assert bits(bound.lower) == bits(bound.upper) == bits(matmul(a, a_scales, b, b_scales))


def test_products_below_float32_may_vanish():
    """2^-134 is a tie of bfloat16; 2^-150 decides it, unless float32 products drop it."""
    a, a_scales = operand([[1.0], [1.0]], [60, 44])
    b, b_scales = operand([[1.0], [1.0]], [60, 60])
    assert add_as_tree([Fraction(2) ** -134, Fraction(2) ** -150], True, random.Random(0)) == Fraction(2) ** -134
    bound = error_bound(a, a_scales, b, b_scales)
    assert (bits(matmul(a, a_scales, b, b_scales)), bits(bound.lower), bits(bound.upper)) == ([1], [0], [1])


def test_overflow_in_some_order_admits_infinity():
    """2^128 - 2^127: 2^127 exactly, +Inf if the first term is alone, never -Inf or NaN."""
    a, a_scales = operand([[2.0], [1.0]], [254, 254])
    b, b_scales = operand([[1.0], [-1.0]], [127, 127])
    bound = error_bound(a, a_scales, b, b_scales)
    assert (bound.lower.item(), bound.upper.item(), bound.may_be_nan.item()) == (2.0**127, float("inf"), False)


def test_overflow_in_both_directions_admits_nan():
    a, a_scales = operand([[2.0], [2.0]], [254, 254])
    b, b_scales = operand([[1.0], [-1.0]], [127, 127])
    bound = error_bound(a, a_scales, b, b_scales)
    assert (bound.lower.item(), bound.upper.item(), bound.may_be_nan.item()) == (-float("inf"), float("inf"), True)
    expected = expectation(a, a_scales, b, b_scales)
    for value in (0.0, float("nan"), float("inf")):
        assert not expected.wrong(torch.tensor([[value]], dtype=torch.bfloat16)).any()


def test_overflow_in_every_order_demands_infinity():
    a, a_scales = operand([[4.0, 4.0]], [254])
    b, b_scales = operand([[1.0, 1.0]], [127])
    bound = error_bound(a, a_scales, b, b_scales)
    assert (bound.lower.item(), bound.upper.item(), bound.may_be_nan.item()) == (float("inf"), float("inf"), False)


def test_a_nan_scale_demands_nan():
    a, a_scales = operand([[0.0], [1.0]], [255, 127])
    b, b_scales = operand([[1.0], [1.0]], [127, 127])
    expected = expectation(a, a_scales, b, b_scales)
    assert (expected.certified.item(), expected.exact.isnan().item()) == (True, True)
    for value, wrong in ((float("nan"), False), (0.0, True), (1.0, True), (float("inf"), True)):
        assert expected.wrong(torch.tensor([[value]], dtype=torch.bfloat16)).item() == wrong


def test_nan_is_wrong_where_a_number_is_expected():
    a, a_scales = operand([[1.0]], [127])
    expected = expectation(a, a_scales, a, a_scales)
    assert expected.wrong(torch.tensor([[float("nan")]], dtype=torch.bfloat16)).item()


@pytest.mark.parametrize("number", [0.0, -0.0, 1.0, float("inf"), float("-inf")])
def test_a_number_is_wrong_where_nan_is_expected(number):
    a, a_scales = operand([[1.0]], [127])
    expected = expectation(a, a_scales, a, torch.full_like(a_scales, 255))
    assert expected.exact.isnan().all()
    assert not expected.wrong(torch.tensor([[float("nan")]], dtype=torch.bfloat16)).item()
    assert expected.wrong(torch.tensor([[number]], dtype=torch.bfloat16)).item()


@pytest.mark.parametrize("number", [0.0, -0.0, 1.0, float("inf"), float("-inf")])
@pytest.mark.parametrize("signs", [*itertools.product((0x7FC0, -0x40), repeat=3)], ids=str)
def test_which_nan_stands_for_nan_is_of_no_account(number, signs):
    """NaN of either sign in each of exact, lower and upper: the bits of -NaN order below all numbers, of NaN above."""
    a, a_scales = operand([[1.0]], [127])
    expected = expectation(a, a_scales, a, torch.full_like(a_scales, 255))
    nans = (torch.tensor([[bits]], dtype=torch.int16).view(torch.bfloat16) for bits in signs)
    expected = expected._replace(**dict(zip(("exact", "lower", "upper"), nans, strict=True)))
    assert not expected.wrong(torch.tensor([[float("nan")]], dtype=torch.bfloat16)).item()
    assert expected.wrong(torch.tensor([[number]], dtype=torch.bfloat16)).item()


def test_one_bit_is_wrong_where_certified():
    generator = torch.Generator().manual_seed(9)
    left, right = (quantize(torch.randn(rows, 128, generator=generator)) for rows in (8, 16))
    expected = expectation(*left, *right)
    assert expected.certified.all()
    assert not expected.wrong(expected.exact).any()
    for step in (1, -1):
        out = (expected.exact.view(torch.int16) + step).view(torch.bfloat16)
        assert expected.wrong(out).all()


def test_negative_zero_passes_for_zero():
    a, a_scales = operand([[0.0]], [127])
    expected = expectation(a, a_scales, a, a_scales)
    assert not expected.wrong(torch.tensor([[-0.0]], dtype=torch.bfloat16)).item()


def test_a_truncating_store_is_wrong_where_certified():
    generator = torch.Generator().manual_seed(2)
    left, right = (quantize(torch.randn(rows, 512, generator=generator)) for rows in (16, 32))
    expected = expectation(*left, *right)
    truncated = (sums_in_float32(left, right).view(torch.int32) & -65536).view(torch.float32).to(torch.bfloat16)
    share = expected.wrong(truncated).float().mean().item()
    assert 0.2 < share < 0.6


def sums_in_float32(left, right):
    from mxassay.reference import dequantize

    return dequantize(*left) @ dequantize(*right).T


@given(data=st.data())
def test_one_pass_gives_what_the_three_calls_give(data, operands):
    case = data.draw(operands(), label="a, a_scales, b, b_scales")
    expected, bound = expectation(*case), error_bound(*case)
    certified = certificate(*case)
    assert torch.equal(expected.certified, certified)
    assert bits(expected.exact) == bits(matmul(*case))
    for name in ("lower", "upper"):
        assert bits(getattr(expected, name)) == bits(torch.where(certified, expected.exact, getattr(bound, name)))
    inside = ~expected.wrong(expected.exact)
    assert inside.all()


def test_contracts():
    a, a_scales = operand([[1.0]], [127])
    expected = expectation(a, a_scales, a, a_scales)
    with pytest.raises(ContractError, match=r"^out must be bfloat16 \(1, 1\), not float32 \(1, 1\)$"):
        expected.wrong(torch.zeros(1, 1))
    with pytest.raises(ContractError, match=r"^out must be bfloat16 \(1, 1\), not bfloat16 \(1, 2\)$"):
        expected.wrong(torch.zeros(1, 2, dtype=torch.bfloat16))
    long = torch.zeros(1, 1 << 20, dtype=torch.uint8)
    scales = torch.zeros(1, 1 << 16, dtype=torch.uint8)
    with pytest.raises(ContractError) as caught:
        error_bound(long, scales, long, scales)
    assert str(caught.value) == "K must be below 2^21 for the error bound, not 2097152; split the product"


def reach(terms):
    """The ends S - E and S + E of the derivation in `error_bound`, in exact arithmetic."""
    count, sizes = sum(term != 0 for term in terms), sum(map(abs, terms))
    growth = (1 + Fraction(2) ** -23) ** (2 * max(count - 1, 0)) - 1
    error = (growth * sizes + 6 * count * Fraction(2) ** -149) * (1 + Fraction(2) ** -10)
    return sum(terms) - error, sum(terms) + error


def test_the_bound_is_that_of_its_derivation_to_the_last_bit(terms_of, bfloat16_of):
    """Sums that nearly cancel: what bfloat16 shows of them is the bound."""
    rng = random.Random(0)
    sides = []
    for sign in (1, -1):
        packed, scales = [], []
        for _ in range(12):
            values = [rng.choice([0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]) for _ in range(rng.randint(1, 32))]
            blocks = [values, [sign * value for value in values], [rng.choice([0.5, 3.0])]]
            row, own = operand(blocks, [127, 127, 127 - rng.randint(0, 30)])
            packed.append(row)
            scales.append(own)
        sides += [torch.cat(packed), torch.cat(scales)]
    bound = error_bound(*sides)
    for i, j in itertools.product(range(12), repeat=2):
        low, high = reach(terms_of(*sides, i, j))
        assert bits(bound.lower[i, j]) == [bfloat16_of(low)], (i, j)
        assert bits(bound.upper[i, j]) == [bfloat16_of(high)], (i, j)


@pytest.mark.parametrize(("count", "steps"), [(5456, 0), (5458, 1)])
def test_the_bound_of_many_vanishing_products(count, steps):
    """6 n 2^-149 (1 + 2^-10) reaches half of bfloat16's least number, 2^-134, between these two counts."""
    blocks = [[0.5] * 32] * (count // 32) + [[0.5] * (count % 32)]
    a, a_scales = operand(blocks, [40] * len(blocks))
    bound = error_bound(a, a_scales, a, a_scales)
    assert (bits(bound.lower), bits(bound.upper)) == ([steps | 0x8000], [steps])
