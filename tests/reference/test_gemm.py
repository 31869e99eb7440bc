"""matmul and partials against rational arithmetic, over the whole range of scales."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mxassay.errors import ContractError
from mxassay.reference import dequantize, gemm, matmul, partials, quantize, superaccumulator
from mxassay.reference.operands import check_operands
from mxassay.reference.superaccumulator import exact_sums


def u8(rows):
    return torch.tensor(rows, dtype=torch.uint8)


def operand(values, scales):
    """One row: the first code of each block has value values[g], the others are zero."""
    codes = {0.0: 0, 0.5: 1, 1.0: 2, 1.5: 3, 2.0: 4, 3.0: 5, 4.0: 6, 6.0: 7}
    packed = []
    for value in values:
        packed += [codes[abs(value)] | (8 if value < 0 else 0)] + [0] * 15
    return u8([packed]), u8([scales])


def bits_of(out):
    return (out.view(torch.int16).int() & 0xFFFF).tolist()


@given(data=st.data())
def test_matmul_is_the_exact_sum_rounded_once(data, operands, terms_of, bfloat16_of):
    a, a_scales, b, b_scales = data.draw(operands(), label="a, a_scales, b, b_scales")
    out = matmul(a, a_scales, b, b_scales)
    for i in range(len(a)):
        for j in range(len(b)):
            if 255 in a_scales[i].tolist() + b_scales[j].tolist():
                assert out[i, j].isnan()
            else:
                exact = sum(terms_of(a, a_scales, b, b_scales, i, j))
                assert bits_of(out[i, j].unsqueeze(0)) == [bfloat16_of(exact)]


@given(data=st.data())
def test_the_superaccumulator_alone_is_exact(data, operands, terms_of, bfloat16_of):
    """Also on inputs where matmul would not need it; float64 is exact or rounded to odd, so float32 is right too."""
    case = data.draw(operands(), label="a, a_scales, b, b_scales")
    a, a_scales, b, b_scales = case[0], case[1].clamp(max=254), case[2], case[3].clamp(max=254)
    found = exact_sums(*check_operands(a, a_scales, b, b_scales))
    for i in range(len(a)):
        for j in range(len(b)):
            exact = sum(terms_of(a, a_scales, b, b_scales, i, j))
            value = Fraction(found[i, j].item())
            assert value == exact or (abs(value - exact) < abs(exact) / 2**29 and odd_significand(value, 31))
            assert (value > 0) - (value < 0) == (exact > 0) - (exact < 0)


def odd_significand(value: Fraction, least_bits: int) -> bool:
    """Whether the bits from the first to the last set one are at least `least_bits`: the last one is the sticky bit."""
    size = abs(value.numerator)
    return (size // (size & -size)).bit_length() >= least_bits


def test_cancellation_over_the_whole_range():
    """2^256 + 2^-256 - 2^256: float64 alone would lose the middle term."""
    a, a_scales = operand([4.0, 0.5, -4.0], [254, 0, 254])
    b, b_scales = operand([4.0, 0.5, 4.0], [254, 0, 254])
    left, right = check_operands(a, a_scales, b, b_scales)
    assert exact_sums(left, right).item() == 2.0**-256
    assert bits_of(matmul(a, a_scales, b, b_scales)) == [[0]]
    assert bits_of(matmul(a, a_scales, *operand([4.0, -0.5, 4.0], [254, 0, 254]))) == [[0x8000]]


def test_a_tiny_term_breaks_a_tie():
    """1 + 2^-8 lies between two bfloat16 numbers; 2^-60 decides, which float64 would drop."""
    a, a_scales = operand([1.0, 1.0, 1.0], [127, 119, 67])
    for sign, expected in ((1.0, 0x3F81), (-1.0, 0x3F80)):
        b, b_scales = operand([1.0, 1.0, sign], [127, 127, 127])
        assert bits_of(matmul(a, a_scales, b, b_scales)) == [[expected]]
    b, b_scales = operand([1.0, 1.0, 0.0], [127, 127, 127])
    assert bits_of(matmul(a, a_scales, b, b_scales)) == [[0x3F80]]


@pytest.mark.parametrize("shift", range(32))
def test_a_tiny_term_breaks_a_tie_wherever_it_lies_in_its_limb(shift):
    """The same 32 times, a power of two apart: from none to nine bits of the leading limbs are dropped."""
    b, b_scales = operand([1.0, 1.0, 1.0], [127, 127, 127])
    for tiny in (67, 40):
        a, a_scales = operand([1.0, 1.0, 1.0], [127 + shift, 119 + shift, tiny + shift])
        assert bits_of(matmul(a, a_scales, b, b_scales)) == [[0x3F81 + (shift << 7)]]


def test_float64_is_left_at_two_to_the_53_units():
    """1 + 2^-8 + 2^-53, a tie of bfloat16 and one unit more, which float64 would round to even and drop."""
    a, a_scales = operand([1.0, 1.0, 0.5], [127, 119, 76])
    b, b_scales = operand([1.0, 1.0, 0.5], [127, 127, 127])
    assert bits_of(matmul(a, a_scales, b, b_scales)) == [[0x3F81]]


def test_ordinary_data_needs_no_superaccumulator(monkeypatch):
    """It is slow, and right for everything: nothing but its absence tells that it is not used."""
    monkeypatch.setattr(gemm, "exact_sums", None)
    generator = torch.Generator().manual_seed(8)
    left, right = (quantize(torch.randn(rows, 2048, generator=generator)) for rows in (16, 24))
    assert matmul(*left, *right).isfinite().all()


def test_sums_of_31_bits_are_exact_in_the_superaccumulator():
    """2^-224 + 2^-254: one bit of the first limb, and the last one that is taken from the second."""
    left, right = check_operands(*operand([0.5, 0.5], [32, 2]), *operand([0.5, 0.5], [0, 0]))
    assert exact_sums(left, right).item() == 2.0**-224 + 2.0**-254
    left, right = check_operands(*operand([0.5, 0.5, 0.5], [32, 2, 0]), *operand([0.5, 0.5, 0.5], [0, 0, 0]))
    assert exact_sums(left, right).item() == 2.0**-224 + 2.0**-254  # and 2^-256, of which an odd last bit tells
    left, right = check_operands(*operand([0.5, 0.5], [32, 3]), *operand([0.5, 0.5], [0, 0]))
    assert exact_sums(left, right).item() == 2.0**-224 + 2.0**-253  # an even last bit: nothing was dropped
    left, right = check_operands(*operand([0.5, 0.5, 0.5], [32, 3, 0]), *operand([0.5, 0.5, 0.5], [0, 0, 0]))
    assert exact_sums(left, right).item() == 2.0**-224 + 2.0**-253 + 2.0**-254
    left, right = check_operands(*operand([0.5, 0.5], [63, 42]), *operand([0.5, 0.5], [0, 0]))
    assert exact_sums(left, right).item() == 2.0**-193 + 2.0**-214  # all bits are kept: none to drop, none sticky


@pytest.mark.parametrize("terms", [1, 7, 12, 64])
def test_chunks_of_the_superaccumulator_do_not_show(monkeypatch, terms):
    generator = torch.Generator().manual_seed(terms)
    packed, scales = (torch.randint(0, 255, (11, width), dtype=torch.uint8, generator=generator) for width in (48, 3))
    left, right = check_operands(packed[:5], scales[:5], packed[5:], scales[5:])
    whole = exact_sums(left, right)
    monkeypatch.setattr(superaccumulator, "_CHUNK_TERMS", terms)
    sizes, true = [], superaccumulator._accumulate

    def accumulate(rows, columns):
        sizes.append(rows.blocks * rows.rows * columns.rows)
        return true(rows, columns)

    monkeypatch.setattr(superaccumulator, "_accumulate", accumulate)
    assert torch.equal(exact_sums(left, right), whole)
    assert max(sizes) == {1: 3, 7: 6, 12: 12, 64: 60}[terms]  # one output at the least
    assert sum(sizes) == 5 * 6 * 3


@pytest.mark.parametrize("elements", [(1, 1), (1, 100), (200, 1000), (1 << 17, 1 << 20)])
def test_every_output_lies_in_one_tile(monkeypatch, elements):
    monkeypatch.setattr(gemm, "_TILE_ELEMENTS", elements)
    monkeypatch.setattr(gemm, "_TILE_ROWS", 4)
    generator = torch.Generator().manual_seed(0)
    left, right = (quantize(torch.randn(rows, 64, generator=generator)) for rows in (11, 13))
    counted = torch.zeros(11, 13, dtype=torch.int64)
    for tile in gemm.tiles(*check_operands(*left, *right)):
        counted[tile.rows, tile.columns] += 1
        assert tile.total.shape == (tile.left.rows, tile.right.rows)
        assert tile.left.rows <= 4
        assert tile.right.rows * 64 <= max(elements[1], 64)
    assert (counted == 1).all()


def test_the_cast_through_float32_would_round_twice():
    a, a_scales = operand([1.0, 1.0, 1.0], [127, 119, 87])
    b, b_scales = operand([1.0, 1.0, 1.0], [127, 127, 127])
    exact = dequantize(a, a_scales, torch.float64) @ dequantize(b, b_scales, torch.float64).T
    assert bits_of(exact.float().bfloat16()) == [[0x3F80]]
    assert bits_of(matmul(a, a_scales, b, b_scales)) == [[0x3F81]]


def test_extremes():
    a, a_scales = operand([6.0], [254])
    assert bits_of(matmul(a, a_scales, a, a_scales)) == [[0x7F80]]
    assert bits_of(matmul(a, a_scales, *operand([-6.0], [254]))) == [[0xFF80]]
    least, least_scales = operand([0.5], [0])
    assert bits_of(matmul(least, least_scales, least, least_scales)) == [[0]]
    assert bits_of(matmul(least, least_scales, *operand([0.5], [122]))) == [[0]]  # 2^-134, a tie: to even
    assert bits_of(matmul(least, least_scales, *operand([1.5], [121]))) == [[1]]  # 1.5 * 2^-134
    assert bits_of(matmul(least, least_scales, *operand([1.5], [122]))) == [[2]]  # 1.5 * 2^-133, a tie: to even


def test_a_sum_of_zero_is_positive():
    a, a_scales = operand([1.0, 1.0], [127, 127])
    for values in ([1.0, -1.0], [0.0, 0.0], [-0.0, -0.0]):
        assert bits_of(matmul(a, a_scales, *operand(values, [127, 127]))) == [[0]]


def test_scale_255_makes_its_row_and_column_nan_even_with_zero_codes():
    a, b = torch.zeros(3, 32, dtype=torch.uint8), torch.zeros(4, 32, dtype=torch.uint8)
    a_scales, b_scales = torch.full((3, 2), 127, dtype=torch.uint8), torch.full((4, 2), 127, dtype=torch.uint8)
    a_scales[1, 1] = 255
    b_scales[2, 0] = 255
    expected = torch.zeros(3, 4, dtype=torch.bool)
    expected[1], expected[:, 2] = True, True
    assert torch.equal(matmul(a, a_scales, b, b_scales).isnan(), expected)


@pytest.mark.parametrize("shape", [(1, 1, 32), (300, 700, 64), (3, 5000, 96), (513, 2, 1024)])
def test_tiles_do_not_show(shape):
    """Against one plain float64 product, on data for which that is exact."""
    m, n, k = shape
    generator = torch.Generator().manual_seed(m)
    a, b = (torch.randn(rows, k, generator=generator) for rows in (m, n))
    left, right = quantize(a), quantize(b)
    exact = dequantize(*left, torch.float64) @ dequantize(*right, torch.float64).T
    assert torch.equal(matmul(*left, *right), exact.float().bfloat16())


def test_wide_outputs_inside_a_wide_tile(terms_of, bfloat16_of):
    """Only row 7 and column 11 need the superaccumulator; all others must keep the fast sums."""
    generator = torch.Generator().manual_seed(5)
    left, right = (quantize(torch.randn(rows, 64, generator=generator)) for rows in (16, 24))
    plain = matmul(*left, *right)
    left.scales[7], right.scales[11] = u8([200, 60]), u8([60, 200])
    mixed = matmul(*left, *right)
    keep = torch.ones(16, 24, dtype=torch.bool)
    keep[7], keep[:, 11] = False, False
    assert torch.equal(mixed[keep], plain[keep])
    for i, j in ((7, 0), (7, 11), (0, 11), (3, 4)):
        exact = sum(terms_of(*left, *right, i, j))
        assert bits_of(mixed[i, j].unsqueeze(0)) == [bfloat16_of(exact)]


def test_empty_sides():
    a, a_scales = torch.zeros(0, 32, dtype=torch.uint8), torch.zeros(0, 2, dtype=torch.uint8)
    b, b_scales = torch.zeros(3, 32, dtype=torch.uint8), torch.zeros(3, 2, dtype=torch.uint8)
    assert matmul(a, a_scales, b, b_scales).shape == (0, 3)
    assert matmul(b, b_scales, a, a_scales).shape == (3, 0)
    assert partials(a, a_scales, b, b_scales, 2).shape == (2, 0, 3)


def test_strided_operands_are_read_by_value():
    big = torch.randint(0, 256, (6, 64), dtype=torch.uint8)
    scales = torch.randint(120, 130, (6, 8), dtype=torch.uint8)
    a, a_scales = big[::2, :32], scales[::2, ::4]
    expected = matmul(a.contiguous(), a_scales.contiguous(), a.contiguous(), a_scales.contiguous())
    assert torch.equal(matmul(a, a_scales, a, a_scales), expected)


@given(data=st.data(), splits=st.integers(1, 6))
def test_partials_are_the_exact_sums_of_their_spans(data, splits, operands, terms_of):
    a, a_scales, b, b_scales = data.draw(operands(scale_ranges=((100, 150), (0, 60))), label="operands")
    found = partials(a, a_scales, b, b_scales, splits)
    blocks = a_scales.shape[1]
    width = -(-blocks // splits) * 32
    assert found.shape == (splits, len(a), len(b))
    for i in range(len(a)):
        for j in range(len(b)):
            terms = terms_of(a, a_scales, b, b_scales, i, j)
            for s in range(splits):
                exact = sum(terms[s * width : (s + 1) * width], Fraction(0))
                assert Fraction(found[s, i, j].item()) == nearest_float32(exact)


def nearest_float32(value: Fraction) -> Fraction:
    if value == 0:
        return value
    exponent = max(abs(value.numerator).bit_length() - value.denominator.bit_length() - 26, -149)
    while abs(value) / Fraction(2) ** exponent >= 1 << 24:
        exponent += 1
    return Fraction(round(value / Fraction(2) ** exponent)) * Fraction(2) ** exponent


def test_spans_in_elements():
    a = torch.full((1, 80), 0x22, dtype=torch.uint8)
    ones = torch.full((1, 5), 127, dtype=torch.uint8)
    assert partials(a, ones, a, ones, span=64).flatten().tolist() == [64, 64, 32]
    assert partials(a, ones, a, ones, 4).flatten().tolist() == [64, 64, 32, 0]
    assert partials(a, ones, a, ones, span=1024).flatten().tolist() == [160]


def test_a_nan_scale_stays_in_its_span():
    a = torch.full((1, 32), 0x22, dtype=torch.uint8)
    scales = u8([[127, 255]])
    first, second = partials(a, scales, a, u8([[127, 127]]), 2).flatten()
    assert first == 32
    assert second.isnan()


GOOD = (
    torch.zeros(2, 32, dtype=torch.uint8),
    torch.zeros(2, 2, dtype=torch.uint8),
    torch.zeros(3, 32, dtype=torch.uint8),
    torch.zeros(3, 2, dtype=torch.uint8),
)
WHOLE = "a's K must be a positive multiple of 32"


@pytest.mark.parametrize(
    ("position", "tensor", "message"),
    [
        (
            0,
            torch.zeros(2, 2, 16, dtype=torch.uint8),
            "a must have two dimensions (rows, K/2), not shape (2, 2, 16); flatten leading ones",
        ),
        (0, torch.zeros(2, 32), "a must be uint8, not float32; pass raw bytes"),
        (
            0,
            torch.zeros(2, 24, dtype=torch.uint8),
            f"{WHOLE}, not 48; pad K with zero codes",
        ),
        (
            0,
            torch.zeros(2, 0, dtype=torch.uint8),
            f"{WHOLE}, not 0; pad K with zero codes",
        ),
        (1, torch.zeros(2, 3, dtype=torch.uint8), "a_scales must have shape (2, 2), not (2, 3)"),
        (2, torch.zeros(3, 32), "b must be uint8, not float32; pass raw bytes"),
        (3, torch.zeros(256, 8, dtype=torch.uint8), "b_scales must have shape (3, 2), not (256, 8)"),
        (3, torch.zeros(3, 2), "b_scales must be uint8, not float32; pass raw bytes"),
        (
            2,
            torch.zeros(3, 32, dtype=torch.uint8, device="meta"),
            "all four tensors must be on one device, not on cpu, meta; move them",
        ),
    ],
)
def test_contracts(position, tensor, message):
    arguments = list(GOOD)
    arguments[position] = tensor
    with pytest.raises(ContractError) as caught:
        matmul(*arguments)
    assert str(caught.value) == message


def test_contract_of_k():
    a, a_scales = torch.zeros(2, 16, dtype=torch.uint8), torch.zeros(2, 1, dtype=torch.uint8)
    with pytest.raises(ContractError, match=r"^a and b must have the same K, not 32 and 64; both are packed along K$"):
        matmul(a, a_scales, *GOOD[2:])


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({}, "exactly one of splits and span must be given, not splits = None and span = None"),
        ({"splits": 2, "span": 32}, "exactly one of splits and span must be given, not splits = 2 and span = 32"),
        ({"splits": 0}, "splits must be at least 1, not 0"),
        ({"span": 48}, "span must be a positive multiple of 32 elements, not 48"),
        ({"span": 0}, "span must be a positive multiple of 32 elements, not 0"),
    ],
)
def test_contracts_of_partials(keywords, message):
    with pytest.raises(ContractError, match=f"^{message}$"):
        partials(*GOOD, **keywords)
