"""`counts`: what a launch executed and moved, in all and by its busiest wave."""

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from mxassay.gfx950.checks.run import Check, Hooks, Run
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.observe import Access
from mxassay.gfx950.wave import Cohort

__all__ = ["CLASSES", "CountsCheck", "KernelCounts", "class_of"]

CLASSES = ("valu", "mfma", "salu", "smem", "vmem", "lds", "branch", "barrier", "wait", "other")
_VMEM = ("MUBUF", "GLOBAL", "FLAT", "SCRATCH")


def class_of(inst: Instruction) -> str:
    """
    >>> class_of(Instruction(0, 4, "s_waitcnt", "SOPP", (), ()))
    'wait'
    """
    op, encoding = inst.op, inst.encoding
    if op.startswith(("v_mfma", "v_smfmac")):
        return "mfma"
    if encoding.startswith("VOP"):
        return "valu"
    if encoding in _VMEM:
        return "vmem"
    if encoding in ("DS", "SMEM"):
        return "lds" if encoding == "DS" else "smem"
    if op == "s_barrier":
        return "barrier"
    if op.startswith(("s_branch", "s_cbranch", "s_setpc", "s_swappc", "s_call")):
        return "branch"
    if op in ("s_waitcnt", "s_nop", "s_sleep"):
        return "wait"
    return "salu" if encoding.startswith("SOP") and encoding != "SOPP" else "other"


@dataclass
class KernelCounts:
    """One launch. `instructions`: by class, over all waves (a wave counts once for its 64 lanes); `busiest_wave`: the
    most that one wave executed of each class. Bytes are those of the lanes that took part, repeated addresses
    included; `loaded`, `stored` and `atomic` by argument, the others in all."""

    kernel: str
    waves: int
    instructions: dict[str, int] = field(default_factory=dict)
    busiest_wave: dict[str, int] = field(default_factory=dict)
    per_wave: Any = None
    loaded: Counter[str] = field(default_factory=Counter)
    stored: Counter[str] = field(default_factory=Counter)
    atomic: Counter[str] = field(default_factory=Counter)
    lds_read: int = 0
    lds_written: int = 0
    scratch_read: int = 0
    scratch_written: int = 0

    @property
    def mfma(self) -> int:
        return self.instructions.get("mfma", 0)

    def text(self) -> str:
        lines = [f"{self.kernel}: {sum(self.instructions.values()):,} instructions in {self.waves:,} waves"]
        lines.append("  " + ", ".join(f"{name} {count:,}" for name, count in self.instructions.items() if count))
        for what, table in (("loaded", self.loaded), ("stored", self.stored), ("atomic", self.atomic)):
            lines += [f"  {what} {count:,} bytes: {name}" for name, count in table.items()]
        lines.append(f"  LDS read {self.lds_read:,} bytes, written {self.lds_written:,}")
        if self.scratch_read or self.scratch_written:
            lines.append(f"  scratch read {self.scratch_read:,} bytes, written {self.scratch_written:,}")
        return "\n".join(lines)


class CountsCheck(Check):
    """Appends one `KernelCounts` a launch to `counts`."""

    def __init__(self, counts: list[KernelCounts]) -> None:
        self.counts = counts

    def begin(self, run: Run) -> None:
        self.run = run
        self.current = KernelCounts(run.kernel, run.waves)
        self.table = np.zeros((len(CLASSES), run.waves), np.int64)

    def watch(self, inst: Instruction) -> Hooks | None:
        row = self.table[CLASSES.index(class_of(inst))]

        def before(cohort: Cohort) -> None:
            row[cohort.wave] += 1

        return Hooks(before=before, access=partial(self._access, inst))

    def _access(self, inst: Instruction, cohort: Cohort, access: Access) -> None:
        size = access.size
        if access.space == "lds":
            total = int(access.mask.sum()) * size
            if access.kind != "store":
                self.current.lds_read += total
            if access.kind != "load":
                self.current.lds_written += total
        elif access.space == "scratch":
            total = int(access.mask.sum()) * size
            if access.kind == "load":
                self.current.scratch_read += total
            else:
                self.current.scratch_written += total
        else:
            table = {"load": self.current.loaded, "store": self.current.stored}.get(access.kind, self.current.atomic)
            self._by_buffer(table, access)

    def _by_buffer(self, table: Counter[str], access: Access) -> None:
        addresses = access.address[access.mask]
        if not addresses.size:
            return
        low, high = int(addresses.min()), int(addresses.max())
        for extent in self.run.extents:
            if extent.first <= low and high < extent.end:
                table[extent.name] += addresses.size * access.size
                return
        for extent in self.run.extents:
            inside = (addresses >= extent.first) & (addresses < extent.end)
            if inside.any():
                table[extent.name] += int(inside.sum()) * access.size
                addresses = addresses[~inside]

    def end(self, error: Exception | None) -> None:
        self.current.instructions = dict(zip(CLASSES, self.table.sum(axis=1).tolist(), strict=True))
        self.current.busiest_wave = dict(zip(CLASSES, self.table.max(axis=1, initial=0).tolist(), strict=True))
        self.current.per_wave = self.table
        self.counts.append(self.current)
