"""Tile maps: bijections for every grid to 4,096 tiles, Triton code and Python twin alike."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.properties.checks import assert_same_bits, violation
from mxassay.properties.claims import claim, quick
from mxassay.properties.kernel import KernelUnderTest

_MOST = 4096
# Counts in front of and behind multiples of the 8 dies, primes, and 333: 16 tiles of 333 were never launched once.
_TOTALS = sorted({*range(1, 130), *(8 * i + j for i in range(16, 512, 37) for j in range(8)), 333, 4093, 4095, 4096})
_GROUPS = (1, 2, 3, 4, 8, 16, 64, 65536)


def assert_rows_are_bijections(found: torch.Tensor, counts: list[int], words: list[str]) -> None:
    """Row i of `found` holds each of range(counts[i]) once in its first counts[i] places."""
    inside = torch.arange(found.shape[1]) < torch.tensor(counts).unsqueeze(1)
    filled = torch.where(inside, found, 1 << 30).sort(dim=1).values
    expected = torch.where(inside, torch.arange(found.shape[1], dtype=torch.int32), 1 << 30)
    wrong = (filled != expected).any(1).nonzero()
    if len(wrong):
        row = int(wrong[0])
        missing = sorted(set(range(counts[row])) - set(found[row, : counts[row]].tolist()))
        raise violation(f"each of {counts[row]} tiles must come once, but {missing[:8]} never come", case=words[row])


@claim("xcd-remap")
def test_every_count_is_spread_over_the_dies(mx_kernel: KernelUnderTest) -> None:
    from mxassay.optimized.tile_map import xcd_remap_py
    from mxassay.properties.tile_map_kernels import remapped

    totals = _TOTALS if quick() or mx_kernel.slow else list(range(1, _MOST + 1))
    totals = totals[:: 16 if mx_kernel.slow else 1]
    for start in range(0, len(totals), 256):
        part = totals[start : start + 256]
        found = remapped(part, mx_kernel.tensors_on)
        assert_rows_are_bijections(found, part, [f"total {total}" for total in part])
        twin = torch.full_like(found, -1)
        for row, total in enumerate(part):
            twin[row, :total] = torch.tensor([xcd_remap_py(pid, total) for pid in range(total)], dtype=torch.int32)
        assert_same_bits(found, twin, ("row", "pid"), case=f"totals {part[0]} to {part[-1]}: Triton code, not its twin")


def every_grid() -> list[tuple[int, int]]:
    """All (tiles_m, tiles_n) of at most 4,096 tiles; in the quick profile those around small sizes and the limits."""
    if not quick():
        return [(m, n) for m in range(1, _MOST + 1) for n in range(1, _MOST // m + 1)]
    sizes = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 333)
    return [(m, n) for m in sizes for n in (*sizes, _MOST // m) if m * n <= _MOST]


@claim("grouped-order")
@pytest.mark.parametrize("group_m", _GROUPS)
def test_every_grid_is_covered(mx_kernel: KernelUnderTest, group_m: int) -> None:
    from mxassay.properties.tile_map_kernels import ordered

    grids = every_grid()[:: 64 if mx_kernel.slow else 1]
    for start in range(0, len(grids), 512):
        part = grids[start : start + 512]
        found = ordered(part, group_m, mx_kernel.tensors_on)
        words = [f"{m} x {n} tiles, bands of {group_m}" for m, n in part]
        assert_rows_are_bijections(found, [m * n for m, n in part], words)


@claim("grouped-order", examples=2)
@given(tiles_m=st.integers(1, 64), tiles_n=st.integers(1, 64), group_m=st.sampled_from(_GROUPS))
@example(tiles_m=9, tiles_n=5, group_m=8)  # a last band of one row
def test_the_twin_gives_the_same_order(mx_kernel: KernelUnderTest, tiles_m: int, tiles_n: int, group_m: int) -> None:
    from mxassay.optimized.tile_map import grouped_order_py
    from mxassay.properties.tile_map_kernels import ordered

    found = ordered([(tiles_m, tiles_n)], group_m, mx_kernel.tensors_on)[0, : tiles_m * tiles_n]
    twin = [grouped_order_py(tile, tiles_m, tiles_n, group_m) for tile in range(tiles_m * tiles_n)]
    expected = torch.tensor([m * tiles_n + n for m, n in twin], dtype=torch.int32)
    assert_same_bits(found, expected, ("tile",), case=f"{tiles_m} x {tiles_n} tiles, bands of {group_m}")
