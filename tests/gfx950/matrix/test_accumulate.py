"""The models of adding: exact sums over the whole range of exponents, and cases that tell the models apart."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.errors import ContractError
from mxassay.gfx950.accumulate import (
    MODELS,
    Differences,
    Groups,
    accumulation,
    exact,
    exact_sums,
    sequential,
    truncating,
)

SHORTS = Groups(8, False, (-14, -14))
EIGHTS = Groups(16, True, (-6, -6))


def row(values):
    return np.array(values, np.float64).reshape(1, 1, -1)


def one(model, a, b, c=0.0, groups=SHORTS):
    with np.errstate(all="ignore"):
        return float(model(row(a), row(b), np.full((1, 1, 1), c, np.float32), groups)[0, 0, 0])


numbers = st.builds(
    lambda whole, exponent: float(np.ldexp(whole, exponent)), st.integers(-2047, 2047), st.integers(-120, 90)
)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=9), numbers)
@example([(2.0**60, 2.0**60), (-(2.0**60), 2.0**60), (2.0**-70, 2.0**-60)], 0.0)
@example([(1.0, 1.0)], 2.0**-24)  # a tie
@example([(1.0, 1.0), (2.0**-80, 1.0)], 2.0**-24)  # just above a tie
@example([(1.0, 1.0), (-(2.0**-80), 1.0)], 2.0**-24)  # just below
@example([(2.0**-75, 2.0**-75)], 0.0)  # the tie between zero and the least denormal
@example([(2.0**-75, 2.0**-75), (2.0**-120, 2.0**-120)], 0.0)
def test_exact_rounds_the_exact_sum_once(pairs, c):
    c = float(np.float32(c))
    total = sum((Fraction(x) * Fraction(y) for x, y in pairs), Fraction(c))
    got = one(exact, [x for x, _ in pairs], [y for _, y in pairs], c)
    # The nearest float32 is one whose neighbours are no closer; among two the even one.
    here = np.float32(got)
    if np.isinf(here):
        assert abs(total) >= Fraction(2) ** 128 - Fraction(2) ** 103
        return
    for neighbour in (np.nextafter(here, np.float32(np.inf)), np.nextafter(here, np.float32(-np.inf))):
        if np.isinf(neighbour):
            continue
        nearer = abs(Fraction(float(here)) - total) - abs(Fraction(float(neighbour)) - total)
        assert nearer < 0 or (nearer == 0 and not here.view(np.uint32) & 1)


@given(st.lists(numbers, min_size=1, max_size=12))
@example([2.0**90, 2.0**30, 2.0**-30, -(2.0**-90)])
@example([2.0**90, -(2.0**90), 2.0**-90])
@example([2.0**53, 1.0, 2.0**-60])
def test_exact_sums_leave_the_sign_of_what_is_missing(terms):
    high, low = exact_sums(np.array(terms, np.float64)[:, None])
    total = sum(map(Fraction, terms), Fraction(0))
    rest = total - Fraction(float(high[0]))
    assert (rest > 0) - (rest < 0) == np.sign(low[0])
    if total:
        assert abs(rest) < Fraction(float(np.spacing(abs(high[0]))))


def test_sequential_rounds_after_every_product():
    a, b = [2.0**24, 1.0, 1.0], [1.0, 1.0, 1.0]
    assert one(exact, a, b) == 2.0**24 + 2
    assert one(sequential, a, b) == 2.0**24  # each 1 is half an ulp, and ties go to even
    assert one(sequential, a[::-1], b) == 2.0**24 + 2  # k ascending: the small ones first


def test_truncating_cuts_products_24_bits_below_the_largest_of_their_group():
    # 2^20 + 7 * 2^-5 rounds to 2^20 + 2^-2, but products below 2^(20 - 24) are cut away within a group of 8.
    a, b = [2.0**10, *[2.0**-5] * 7], [2.0**10, *[1.0] * 7]
    assert one(exact, a, b) == 2.0**20 + 0.25
    assert one(truncating, a, b) == 2.0**20
    # In the next group they stand alone, and c is what is cut: down, at 2^(20 - 24); nothing of it is lost.
    assert one(truncating, [2.0**10, *[0.0] * 7, *[2.0**-5] * 8], [2.0**10, *[0.0] * 7, *[1.0] * 8]) == 2.0**20 + 0.25


def test_truncating_takes_even_and_odd_k_apart_for_8_bit_operands():
    # Odd k hold the small products: they survive the cut of their own half, then lose what lies below 24 bits.
    a = [256.0, 2.0**-6] * 8
    b = [256.0, 2.0**-6] * 8
    assert one(exact, a, b) == np.float32(2.0**19 + 8 * 2.0**-12)
    assert one(truncating, a, b, groups=EIGHTS) == 2.0**19
    # 2^3 + 2^-21: the odd half's sum, 2^-9, is kept whole where even products are that small too.
    a = [2.0**-1, 2.0**-6] * 8
    assert one(truncating, a, a, groups=EIGHTS) == 8 * 2.0**-2 + 8 * 2.0**-12


def test_truncating_floors_a_small_negative_accumulator():
    # c = -2^-30 lies below 2^(0 - 24) and is cut down to -2^-24, which the sum 1 - 2^-24 then shows.
    assert one(truncating, [1.0], [1.0], -(2.0**-30)) == float(np.float32(1 - 2.0**-24))
    assert one(exact, [1.0], [1.0], -(2.0**-30)) == 1.0


@pytest.mark.parametrize("model", MODELS)
def test_infinities_and_nans_are_ieee_in_every_model(model):
    assert one(MODELS[model], [np.inf, 1.0], [1.0, 1.0]) == np.inf
    assert np.isnan(one(MODELS[model], [np.inf, np.inf], [1.0, -1.0]))
    assert np.isnan(one(MODELS[model], [np.inf, 1.0], [0.0, 1.0]))


def test_differences_count_results_that_depend_on_the_model():
    found = Differences()
    add = accumulation("exact", found)
    a, b = np.ones((1, 2, 8)), np.ones((1, 3, 8))
    a[0, 1, 0] = 2.0**24
    got = add(a, b, np.zeros((1, 2, 3), np.float32), SHORTS)
    assert got.tolist() == [[[8.0] * 3, [2.0**24 + 8] * 3]]  # 2^24 + 7 is a tie
    assert (found.results, found.differing) == (6, 3)
    assert found.restart() is found
    assert (found.results, found.differing) == (0, 0)


def test_an_unknown_model_is_refused():
    with pytest.raises(
        ContractError, match=r"accumulation must be one of exact, sequential-f32, truncating, not pairwise"
    ):
        accumulation("pairwise", None)
