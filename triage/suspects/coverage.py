"""Which outputs a launch writes: the map from workgroups to tiles, and what it looks like when it is no bijection."""

from collections.abc import Callable

import torch

from mxassay.triage.suspects.scene import Scene

_DIES = 8


def everything(scene: Scene) -> torch.Tensor:
    """Every output."""
    m, n, _ = scene.shape
    return torch.ones(m, n, dtype=torch.bool)


def remap(pid: int, total: int) -> int:
    """Workgroups dealt to the dies in turn, each die with one run of numbers."""
    die = pid % _DIES
    return die * (total // _DIES) + min(die, total % _DIES) + pid // _DIES


def grouped(tile: int, tiles_m: int, tiles_n: int, group_m: int) -> tuple[int, int]:
    """Column by column inside bands of rows of tiles."""
    band, within = divmod(tile, group_m * tiles_n)
    rows = max(min(tiles_m - band * group_m, group_m), 1)
    return band * group_m + within % rows, within // rows


def covered(
    scene: Scene,
    *,
    spread: Callable[[int, int], int] = remap,
    order: Callable[[int, int, int, int], tuple[int, int]] = grouped,
    told: Callable[[int, int, int], int] | None = None,
    launched: Callable[[int, int, int, Scene], int] | None = None,
) -> torch.Tensor:
    """bool (M, N): the outputs for which every split was computed.

    `told` gives the total that the spreading is told of, and `launched` the count of workgroups, both of (tiles along
    M, tiles along N, splits).
    """
    m, n, _ = scene.shape
    geometry, count = scene.geometry, scene.cut.count
    tiles_m, tiles_n = -(-m // geometry.tile_m), -(-n // geometry.tile_n)
    total = told(tiles_m, tiles_n, count) if told else tiles_m * tiles_n * count
    workgroups = launched(tiles_m, tiles_n, count, scene) if launched else tiles_m * tiles_n * count
    group_m = min(geometry.group_m, tiles_m)
    done = torch.zeros(tiles_m, tiles_n, count, dtype=torch.bool)
    for pid in range(min(workgroups, 1 << 14)):
        number = spread(pid, total)
        row, column = order(number // count, tiles_m, tiles_n, group_m)
        if row < tiles_m and column < tiles_n:
            done[row, column, number % count] = True
    whole = done.all(2)
    return whole.repeat_interleave(geometry.tile_m, 0)[:m].repeat_interleave(geometry.tile_n, 1)[:, :n]
