"""`bank-conflicts` and `coalescing`: what accesses cost, as counts by pc. Costs are models, not measurements.

LDS is taken as 64 banks of a dword: a wave's lanes come in groups that could fill all banks at once (64 lanes of a
dword, 32 of two, 16 of four), a group takes as many cycles as its busiest bank has different dwords. Global memory is
taken as lines of 128 bytes: an instruction touches so many lines a wave, and would need those that its different bytes
fill. Sources: ROCm composable_kernel documentation, "LDS bank conflicts" (32 or 64 banks of 4 bytes by architecture,
phases by width); 64 banks for gfx950 and the groups' lanes are inferred. Line size: ROCm Compute Profiler, "L2 cache".
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mxassay.gfx950.checks.run import Check, Hooks, Run
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.observe import Access
from mxassay.gfx950.wave import LANES, Cohort

__all__ = ["BankConflictsCheck", "CoalescingCheck", "PlaceCount"]

BANKS, DWORD, LINE = 64, 4, 128


@dataclass(slots=True)
class PlaceCount:
    """One instruction's cost over a launch: `accesses` of waves cost `cost` and would cost `ideal` at best (LDS
    cycles, or lines of 128 bytes)."""

    check: str
    kernel: str
    pc: int
    instruction: str
    source: tuple[str, int] | None
    accesses: int = 0
    cost: int = 0
    ideal: int = 0

    @property
    def extra(self) -> int:
        return self.cost - self.ideal


class _Counting(Check):
    name = ""
    encodings: tuple[str, ...] = ()

    def __init__(self, counts: list[PlaceCount]) -> None:
        self.counts = counts

    def begin(self, run: Run) -> None:
        self.run = run

    def watch(self, inst: Instruction) -> Hooks | None:
        if not inst.encoding.startswith(self.encodings):
            return None
        source = self.run.launch.code_object.line_of(inst.pc)
        count = PlaceCount(self.name, self.run.kernel, inst.pc, inst.text, source)
        self.counts.append(count)
        return Hooks(access=partial(self._access, count))

    def _access(self, count: PlaceCount, cohort: Cohort, access: Access) -> None:
        raise NotImplementedError


class BankConflictsCheck(_Counting):
    name, encodings = "bank-conflicts", ("DS", "MUBUF", "GLOBAL", "FLAT")

    def _access(self, count: PlaceCount, cohort: Cohort, access: Access) -> None:
        if access.space != "lds":
            return
        cycles = lds_cycles(access.address, access.size, access.mask)
        count.accesses += cohort.count
        count.cost += int(cycles.sum())
        count.ideal += int((cycles > 0).sum())


def lds_cycles(address: Any, size: int, mask: Any) -> Any:
    """Cycles of each group of lanes, (waves, groups); 0 where no lane takes part."""
    words = max(1, size // DWORD)
    groups = {1: 1, 2: 2}.get(words, 4)
    dwords = (address // DWORD)[..., None] + np.arange(words)
    # Lanes that are off repeat no dword of others: they get numbers of their own that count for nothing.
    dwords = np.where(mask[..., None], dwords, -1).reshape(len(address), groups, -1)
    ordered = np.sort(dwords, axis=-1)
    fresh = np.ones(ordered.shape, np.bool_)
    fresh[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    fresh &= ordered >= 0
    row = np.arange(ordered.shape[0] * groups).reshape(-1, groups, 1) * BANKS
    counts = np.bincount((row + ordered % BANKS)[fresh], minlength=ordered.shape[0] * groups * BANKS)
    return counts.reshape(-1, groups, BANKS).max(axis=-1)


class CoalescingCheck(_Counting):
    name, encodings = "coalescing", ("MUBUF", "GLOBAL", "FLAT")

    def _access(self, count: PlaceCount, cohort: Cohort, access: Access) -> None:
        if access.space != "global":
            return
        lines, needed = lines_of(access.address, access.size, access.mask)
        count.accesses += cohort.count
        count.cost += int(lines.sum())
        count.ideal += int(needed.sum())


def lines_of(address: Any, size: int, mask: Any) -> tuple[Any, Any]:
    """Lines that each wave touches, and lines that its different bytes would fill."""
    ends = np.where(mask[..., None], np.stack([address // LINE, (address + size - 1) // LINE], axis=-1), -1)
    lines = _different(ends.reshape(len(address), 2 * LANES if address.shape[1] == LANES else -1))
    needed = -(-_different(np.where(mask, address, -1)) * size // LINE)
    return lines, needed


def _different(values: Any) -> Any:
    """How many different values each row has, -1 left out."""
    ordered = np.sort(values, axis=-1)
    fresh = (ordered[:, 1:] != ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    return fresh.sum(axis=1) + (ordered[:, 0] >= 0)
