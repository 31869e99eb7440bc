"""Every k lies in exactly one split, and no split is empty."""

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.errors import ContractError
from mxassay.optimized import SplitK, reconcile


def check(k, tile_k, splits):
    split = reconcile(k, tile_k, splits)
    ranges = [(i * split.span, min((i + 1) * split.span, k)) for i in range(split.count)]
    assert all(first < last for first, last in ranges)
    assert ranges[0][0] == 0
    assert ranges[-1][1] == k
    assert all(one[1] == other[0] for one, other in itertools.pairwise(ranges))
    assert split.span % split.tile_k == 0
    assert split.span % 64 == 0
    assert 1 <= split.count <= splits
    assert split.tile_k <= tile_k
    assert split.tile_k == tile_k or split.tile_k >= min(k, tile_k)


def test_every_small_case():
    for k in range(64, 2113, 64):
        for tile_k in (64, 128, 256, 512, 1024):
            for splits in range(1, 40):
                check(k, tile_k, splits)


@given(
    k=st.integers(1, 1 << 20).map(lambda tiles: 64 * tiles),
    tile_k=st.sampled_from([64, 128, 256, 512, 1024]),
    splits=st.integers(1, 1 << 16),
)
@example(k=7168, tile_k=512, splits=7)
@example(k=64, tile_k=1024, splits=65536)
def test_any_case(k, tile_k, splits):
    check(k, tile_k, splits)


@pytest.mark.parametrize(
    ("k", "tile_k", "splits", "expected"),
    [
        (7168, 512, 7, SplitK(1024, 512, 7)),
        (7168, 512, 8, SplitK(1024, 512, 7)),
        (7168, 512, 14, SplitK(512, 512, 14)),
        (576, 256, 8, SplitK(256, 256, 3)),
        (512, 512, 4, SplitK(512, 512, 1)),
        (64, 512, 4, SplitK(128, 128, 1)),
        (64, 64, 4, SplitK(64, 64, 1)),
        (192, 512, 1, SplitK(256, 256, 1)),
    ],
)
def test_known_cases(k, tile_k, splits, expected):
    assert reconcile(k, tile_k, splits) == expected


@pytest.mark.parametrize("name", ["k", "tile_k", "splits"])
def test_sizes_below_one_are_refused(name):
    arguments = {"k": 512, "tile_k": 256, "splits": 2, name: 0}
    with pytest.raises(ContractError, match=re.escape(f"{name} must be at least 1, not 0")):
        reconcile(**arguments)
