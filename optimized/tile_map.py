# mypy: allow-untyped-decorators
"""Which output tile a workgroup computes: spreading over the dies, then grouped order.

Each map exists as a `@triton.jit` function for the kernels and as a Python twin with the same name and `_py`, for
plans, tests and drawings. Both maps are bijections for every size.
"""

import triton
import triton.language as tl

XCDS: tl.constexpr = tl.constexpr(8)  # AMD Instinct MI355X data sheet: 8 accelerator complex dies


@triton.jit
def xcd_remap(pid: tl.tensor, total: tl.tensor) -> tl.tensor:
    """Renumber workgroups so that each die gets one consecutive run of the `total` numbers.

    `pid` is taken to run on die pid % 8: workgroups go to the dies in turn on MI300X (ROCm, MI300X workload
    optimization), which is inferred for MI355X. Only speed depends on it. The first total % 8 dies get one more.
    """
    die = pid % XCDS
    short = total // XCDS
    return die * short + tl.minimum(die, total % XCDS) + pid // XCDS


def xcd_remap_py(pid: int, total: int) -> int:
    """Twin of `xcd_remap`.

    >>> sorted(xcd_remap_py(pid, 13) for pid in range(13)) == list(range(13))
    True
    """
    dies: int = XCDS.value
    die = pid % dies
    return die * (total // dies) + min(die, total % dies) + pid // dies


@triton.jit
def grouped_order(
    tile: tl.tensor, tiles_m: tl.tensor, tiles_n: tl.tensor, GROUP_M: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """(tile_m, tile_n) of a tile number: column by column inside bands of GROUP_M rows of tiles.

    Consecutive tiles of a band share weight tiles, so that weights are read from the cache of the die.
    """
    band = tile // (GROUP_M * tiles_n)
    first = band * GROUP_M
    rows = tl.minimum(tiles_m - first, GROUP_M)
    within = tile - band * (GROUP_M * tiles_n)
    return first + within % rows, within // rows


def grouped_order_py(tile: int, tiles_m: int, tiles_n: int, group_m: int) -> tuple[int, int]:
    """Twin of `grouped_order`.

    >>> [grouped_order_py(tile, 3, 2, 2) for tile in range(6)]
    [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
    """
    band, within = divmod(tile, group_m * tiles_n)
    rows = min(tiles_m - band * group_m, group_m)
    return band * group_m + within % rows, within // rows
