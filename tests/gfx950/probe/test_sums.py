"""The hypotheses about adding, on sums worked out by hand."""

import numpy as np
import pytest

from mxassay.gfx950.probe.sums import SUMS, aligned, blockwise, exact, groups, products_first, tree

BIG = 2.0**24


def once(rule, products, c):
    return float(rule(np.array([products]), np.array([c], np.float32))[0])


@pytest.mark.parametrize(
    ("rule", "products", "c", "sum_"),
    [
        (exact, [BIG, 1, -BIG, 0], 0, 1),
        (exact, [0.5, 2.0**-20, 0, 0], BIG / 2, BIG / 2 + 1),
        (exact, [0.5, 0, 0, 0], BIG / 2, BIG / 2),  # a tie goes to even
        (exact, [0.5, 0, 0, 0], BIG / 2 + 1, BIG / 2 + 2),
        (products_first, [BIG, 1, 0, 0], -BIG, 0),
        (products_first, [BIG, 3, 0, 0], -BIG, 4),  # 2^24 + 3 is a tie between 2 and 4
    ],
)
def test_whole_sums(rule, products, c, sum_):
    assert once(rule, products, c) == sum_


def test_groups_round_after_each():
    assert once(lambda p, c: groups(p, c, size=1), [1, 1, 1, 1], BIG) == BIG
    assert once(lambda p, c: groups(p, c, size=2), [1, 1, 1, 1], BIG) == BIG + 4
    assert once(lambda p, c: groups(p, c, size=1), [BIG, 1, -BIG, 1], 0) == 1
    assert once(lambda p, c: groups(p, c, size=1, descending=True), [BIG, 1, -BIG, 1], 0) == 2
    assert once(lambda p, c: groups(p, c, size=1, descending=True), [-BIG, 1, BIG, 1], 0) == 0
    assert once(lambda p, c: groups(p, c, size=2), [BIG, 1, -BIG, 1], 0) == 1


def test_trees():
    # (2^24 + 1) + (-2^24 + 1): the first is a tie to 2^24, the second is -(2^24 - 1), which float32 holds.
    assert once(lambda p, c: tree(p, c, c_last=True), [BIG, 1, -BIG, 1], 0) == 1
    assert once(lambda p, c: tree(p, c, c_last=True), [1, 0, 0, 0], BIG) == BIG
    assert once(lambda p, c: tree(p, c, c_last=False), [1, 1, 1, 1], BIG) == BIG + 2


@pytest.mark.parametrize(
    ("bits", "down", "products", "c", "sum_"),
    [
        (24, False, [BIG, 1.5, -0.25, 0], 0, BIG),  # 1.5 -> 1 and -0.25 -> 0: 2^24 + 1, a tie to even
        (24, True, [BIG, 1.5, -0.25, 0], 0, BIG),  # -0.25 -> -1: 2^24
        (24, False, [BIG, -0.25, 0, 0], -BIG, 0),
        (24, True, [BIG, -0.25, 0, 0], -BIG, -1),
        (26, True, [BIG, -0.25, 0, 0], -BIG, -0.25),
        (23, False, [BIG, 1, 0, 0], -BIG, 0),
        (24, False, [BIG, 1, 0, 0], -BIG, 1),
    ],
)
def test_cut_terms(bits, down, products, c, sum_):
    assert once(lambda p, c: aligned(p, c, bits=bits, down=down), products, c) == sum_


def test_cut_terms_then_c():
    assert once(lambda p, c: aligned(p, c, bits=24, with_c=False), [1, 2.0**-25, 0, 0], BIG) == BIG
    assert once(lambda p, c: aligned(p, c, bits=24, with_c=False), [3, 0, 0, 0], BIG) == BIG + 4


def test_blocks_start_from_the_last_ones_sum():
    rule = blockwise(lambda p, c: aligned(p, c, bits=24), 2)
    assert once(rule, [BIG, 0, 1, 1], 0) == BIG + 2
    assert once(rule, [BIG, 0.5, 0.5, 0], -BIG) == 0.5  # the first 0.5 is cut beside 2^24, the second stands alone


def test_ordinary_sums_are_the_same_for_all():
    rng = np.random.default_rng(1)
    products = rng.integers(-36, 37, (200, 128)) / 4
    c = rng.integers(-100, 100, 200).astype(np.float32)
    expected = (products.sum(axis=1) + c).astype(np.float32)
    for name, rule in SUMS.items():
        if "23" not in name:
            assert (rule(products, c) == expected).all(), name
