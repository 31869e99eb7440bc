"""Which prebuilt a4w4 kernel aiter takes for a shape: its tuning tables first, then a score of the tiles.

Source: aiter, aiter/ops/gemm_op_a4w4.py (tables, padded M) and csrc/py_itfs_cu (score, padding).
"""

import csv
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mxassay.errors import UnsupportedError

COMPUTE_UNITS = 256  # AMD Instinct MI355X data sheet
GFX = "gfx950"
FOLDER = f"hsa/{GFX}/f4gemm"
TABLE = "f4gemm_bf16_per1x32Fp4.csv"
TUNED = "a4w4_blockscale_tuned_gemm"


@dataclass(frozen=True)
class Prebuilt:
    """One row of the checkout's list of kernels."""

    name: str
    path: Path
    tile: tuple[int, int]
    splits_k: bool
    preshuffled: bool


@dataclass(frozen=True)
class Choice:
    """A kernel, how often it splits K, and why it was taken: `table` or `score`."""

    kernel: Prebuilt
    log2_k_split: int
    reason: str


def padded_m(m: int, n: int, k: int, level: int) -> int:
    """M as aiter rounds it up to find a tuned neighbour; level 0 is fine, 1 is coarse."""
    if level == 0:
        step = next(step for limit, step in ((256, 16), (1024, 32), (4096, 64), (m, 128)) if m <= limit)
        return -(-m // step) * step
    if level == 1:
        return 8192 if m > 8192 and n > 4096 else 1 << max(m - 1, 0).bit_length()
    return m


class PrebuiltKernels:
    """The a4w4 kernels of one aiter checkout and its tuning tables.

    Args:
        checkout: its root folder.

    Raises:
        UnsupportedError: the checkout has no code objects for gfx950.
    """

    def __init__(self, checkout: Path) -> None:
        self.checkout = checkout
        table = checkout / FOLDER / TABLE
        if not table.is_file():
            raise UnsupportedError(f"an aiter checkout must hold {FOLDER}/{TABLE}, not lack it; fetch it whole")
        with table.open(newline="") as lines:
            rows = list(csv.DictReader(lines))
        self.kernels = {
            row["knl_name"]: Prebuilt(
                name=row["knl_name"],
                path=checkout / FOLDER / row["co_name"],
                tile=(int(row["tile_M"]), int(row["tile_N"])),
                splits_k=row["splitK"] == "1",
                preshuffled=row["bpreshuffle"] == "1",
            )
            for row in rows
        }

    @functools.cached_property
    def tuned(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        """Rows of the tuning tables for this card, by (gfx, compute units, M, N, K), as aiter's own table has them.

        The main table wins over those of single models. Programs may add rows (see `tuned_row`).
        """
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for file in self._tuning_tables():
            with file.open(newline="") as lines:
                for row in csv.DictReader(lines):
                    if row.get("gfx", GFX) == GFX and int(row["cu_num"]) == COMPUTE_UNITS:
                        row["splitK"] = int(float(row["splitK"] or 0))
                        found.setdefault((GFX, COMPUTE_UNITS, int(row["M"]), int(row["N"]), int(row["K"])), row)
        return found

    def _tuning_tables(self) -> Iterator[Path]:
        configs = self.checkout / "aiter" / "configs"
        if (main := configs / f"{TUNED}.csv").is_file():
            yield main
        yield from sorted((configs / "model_configs").glob(f"*{TUNED}*.csv"))

    def tuned_row(self, m: int, n: int, k: int) -> dict[str, Any] | None:
        """The tuning row for a shape: M itself, then M rounded up finely, then coarsely.

        Rows that a program added under the older key, without gfx, count too.
        """
        for level in (None, 0, 1):
            shape = (m if level is None else padded_m(m, n, k, level), n, k)
            for key in ((GFX, COMPUTE_UNITS, *shape), (COMPUTE_UNITS, *shape)):
                if key in self.tuned:
                    return self.tuned[key]
        return None

    def by_name(self, name: str) -> Prebuilt:
        """The kernel called `name`.

        Raises:
            UnsupportedError: the checkout's list lacks it.
        """
        if name not in self.kernels:
            raise UnsupportedError(
                f"a prebuilt kernel must be listed in {FOLDER}/{TABLE} of the checkout, not be {name or 'nameless'}"
            )
        return self.kernels[name]

    def choose(self, m: int, n: int, k: int, *, preshuffled: bool = True, log2_k_split: int = 0) -> Choice:
        """The kernel that aiter takes when none is named: the tuned one if it is prebuilt, else the best tile."""
        row = self.tuned_row(m, n, k)
        if row and preshuffled and row["kernelName"] in self.kernels:
            return Choice(self.kernels[row["kernelName"]], row["splitK"], "table")
        return self.best_tile(m, n, k, preshuffled=preshuffled, log2_k_split=log2_k_split)

    def best_tile(self, m: int, n: int, k: int, *, preshuffled: bool, log2_k_split: int) -> Choice:
        """The tile with the fewest rounds over the card; of equals the later one if it leaves fewer units idle in its
        last round, or moves less per multiplication.

        aiter walks a hash map here, whose order nothing fixes; this walks the checkout's list (declared policy).
        """
        best: tuple[int, int, int] | None = None
        chosen: Prebuilt | None = None
        for kernel in self.kernels.values():
            tile_m, tile_n = kernel.tile
            if kernel.preshuffled != preshuffled or (log2_k_split and not kernel.splits_k):
                continue
            if kernel.tile == (128, 512) and n % tile_n:  # this one needs whole tiles along N
                continue
            groups = -(-m // tile_m) * -(-n // tile_n) * (1 << log2_k_split)
            rounds = -(-groups // COMPUTE_UNITS)
            idle, reuse = rounds * COMPUTE_UNITS - groups, tile_m * tile_n // (tile_m + tile_n)
            if best is None or rounds < best[0] or (rounds == best[0] and (idle < best[1] or reuse > best[2])):
                best, chosen = (rounds, idle, reuse), kernel
        if chosen is None:
            raise UnsupportedError(
                f"a prebuilt kernel must exist for preshuffled={preshuffled}, 2**{log2_k_split} splits, not none"
            )
        return Choice(chosen, log2_k_split, "score")
