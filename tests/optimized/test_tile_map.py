"""Every tile is computed exactly once, in the order that the maps promise."""

import pytest
import torch
import triton
import triton.language as tl

from mxassay.optimized.tile_map import grouped_order, grouped_order_py, xcd_remap, xcd_remap_py

SIZE = 4096


@triton.jit
def remap_kernel(out_ptr, total, SIZE: tl.constexpr):
    pid = tl.arange(0, SIZE)
    tl.store(out_ptr + pid, xcd_remap(pid, total), mask=pid < total)


@triton.jit
def order_kernel(out_ptr, tiles_m, tiles_n, GROUP_M: tl.constexpr, SIZE: tl.constexpr):
    tile = tl.minimum(tl.arange(0, SIZE), tiles_m * tiles_n - 1)
    tile_m, tile_n = grouped_order(tile, tiles_m, tiles_n, GROUP_M)
    tl.store(out_ptr + 2 * tile, tile_m)
    tl.store(out_ptr + 2 * tile + 1, tile_n)


@pytest.mark.parametrize("first", range(1, SIZE + 1, 512))
def test_the_remap_is_a_bijection_up_to_4096_workgroups(first):
    for total in range(first, min(first + 512, SIZE + 1)):
        found = bytearray(total)
        for pid in range(total):
            found[xcd_remap_py(pid, total)] = 1
        assert all(found), total


@pytest.mark.parametrize("total", [1, 7, 8, 9, 63, 64, 65, 333, 4095])
def test_a_die_gets_one_run_of_numbers(total):
    for die in range(min(8, total)):
        numbers = [xcd_remap_py(pid, total) for pid in range(die, total, 8)]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_the_order_is_a_bijection_for_every_grid_up_to_4096_tiles():
    for tiles_m in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 64, 100, 587):
        for tiles_n in range(1, 4096 // tiles_m + 1, 1 if tiles_m > 64 else 7):
            for group_m in (1, 3, 8):
                tiles = {
                    grouped_order_py(tile, tiles_m, tiles_n, min(group_m, tiles_m)) for tile in range(tiles_m * tiles_n)
                }
                assert len(tiles) == tiles_m * tiles_n
                assert max(tiles)[0] == tiles_m - 1
                assert max(tile_n for _, tile_n in tiles) == tiles_n - 1


def test_a_band_is_walked_column_by_column():
    order = [grouped_order_py(tile, 5, 3, 2) for tile in range(15)]
    assert order[:6] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    assert order[12:] == [(4, 0), (4, 1), (4, 2)]


@pytest.mark.parametrize("total", [1, 7, 8, 9, 333, 1024, 4095, 4096])
def test_the_kernel_remaps_as_its_twin_does(total, device):
    out = torch.full((SIZE,), -1, dtype=torch.int32, device=device)
    remap_kernel[(1,)](out, total, SIZE=SIZE)
    assert out[:total].tolist() == [xcd_remap_py(pid, total) for pid in range(total)]


@pytest.mark.parametrize(
    ("tiles_m", "tiles_n", "group_m"), [(1, 9, 1), (5, 3, 2), (7, 33, 4), (64, 64, 8), (587, 6, 8)]
)
def test_the_kernel_orders_as_its_twin_does(tiles_m, tiles_n, group_m, device):
    out = torch.full((2 * SIZE,), -1, dtype=torch.int32, device=device)
    order_kernel[(1,)](out, tiles_m, tiles_n, GROUP_M=group_m, SIZE=SIZE)
    tiles = tiles_m * tiles_n
    expected = [grouped_order_py(tile, tiles_m, tiles_n, group_m) for tile in range(tiles)]
    assert [tuple(pair) for pair in out[: 2 * tiles].view(tiles, 2).tolist()] == expected
