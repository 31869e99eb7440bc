# mypy: allow-untyped-decorators
"""Triton kernels that write down what the tile maps of our kernel give, for whole grids at once."""

import torch
import triton
import triton.language as tl

from mxassay.optimized.tile_map import grouped_order, xcd_remap

MOST = 4096  # tiles of one grid


@triton.jit
def _remapped(totals_ptr: tl.tensor, out_ptr: tl.tensor, MOST: tl.constexpr) -> None:
    total = tl.load(totals_ptr + tl.program_id(0))
    pid = tl.minimum(tl.arange(0, MOST), total - 1)
    place = tl.program_id(0) * MOST + tl.arange(0, MOST)
    tl.store(out_ptr + place, xcd_remap(pid, total), mask=tl.arange(0, MOST) < total)


@triton.jit
def _ordered(grids_ptr: tl.tensor, out_ptr: tl.tensor, GROUP_M: tl.constexpr, MOST: tl.constexpr) -> None:
    tiles_m = tl.load(grids_ptr + tl.program_id(0) * 2)
    tiles_n = tl.load(grids_ptr + tl.program_id(0) * 2 + 1)
    number = tl.minimum(tl.arange(0, MOST), tiles_m * tiles_n - 1)
    tile_m, tile_n = grouped_order(number, tiles_m, tiles_n, GROUP_M)
    place = tl.program_id(0) * MOST + tl.arange(0, MOST)
    tl.store(out_ptr + place, tile_m * tiles_n + tile_n, mask=tl.arange(0, MOST) < tiles_m * tiles_n)


def remapped(totals: list[int], device: str) -> torch.Tensor:
    """int32 (len(totals), MOST): row i holds `xcd_remap(pid, totals[i])` for every pid, and -1 behind the total."""
    out = torch.full((len(totals), MOST), -1, dtype=torch.int32, device=device)
    _remapped[(len(totals),)](torch.tensor(totals, dtype=torch.int32, device=device), out, MOST=MOST)
    return out.cpu()


def ordered(grids: list[tuple[int, int]], group_m: int, device: str) -> torch.Tensor:
    """int32 (len(grids), MOST): row i holds tile_m * tiles_n + tile_n for every tile number of grid i, -1 behind."""
    out = torch.full((len(grids), MOST), -1, dtype=torch.int32, device=device)
    _ordered[(len(grids),)](torch.tensor(grids, dtype=torch.int32, device=device), out, GROUP_M=group_m, MOST=MOST)
    return out.cpu()
