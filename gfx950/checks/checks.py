"""The checks of a run, woven together into one observer."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.batch import Batch
from mxassay.gfx950.checks.alignment import AlignmentCheck
from mxassay.gfx950.checks.catalogue import chosen
from mxassay.gfx950.checks.counts import CountsCheck, KernelCounts
from mxassay.gfx950.checks.finding import Finding
from mxassay.gfx950.checks.lds_races import LdsRacesCheck
from mxassay.gfx950.checks.run import Check, Run
from mxassay.gfx950.checks.tracked import Tracked
from mxassay.gfx950.checks.traffic import BankConflictsCheck, CoalescingCheck, PlaceCount
from mxassay.gfx950.checks.uninit import UninitCheck
from mxassay.gfx950.checks.views import ViewsCheck
from mxassay.gfx950.checks.waitcnt import WaitcntCheck
from mxassay.gfx950.faults import EndlessLoop, MemoryFault
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.observe import Access, Launch
from mxassay.gfx950.wave import Cohort

__all__ = ["Checks"]

_Told = tuple[Callable[[Cohort], None], ...]


class Checks:
    """An observer for `Options(observer=...)` that runs the checks of `spec` (see `CHECKS`) over every launch.

    `findings` grow over launches, one for each check, kernel and pc; `counts` has one entry a launch, `places` the
    bank conflicts and lines by pc. `strict` raises `StrictError` at the first finding. What the memory model and the
    machine stop for (`bounds`, `endless`) raises as ever and is among the findings too.

    As a context manager it follows what torch allocates inside the block, so that `uninit-memory` knows which buffers
    nobody has filled yet (`undefined(tensor)` says so of one buffer by hand).

    >>> with Checks("races,waitcnt") as checks, emulated(Options(observer=checks)):  # doctest: +SKIP
    ...     kernel[grid](x, y)
    >>> print(checks.text())  # doctest: +SKIP
    """

    def __init__(self, spec: str = "default", *, strict: bool = False) -> None:
        self.names = chosen(spec)
        self.strict = strict
        self.counts: list[KernelCounts] = []
        self.places: list[PlaceCount] = []
        self._runs: list[Run] = []
        self._tracked = Tracked()
        self._stack = ExitStack()
        self._checks = self._made()
        self._before: dict[int, _Told] = {}
        self._access: dict[int, tuple[Callable[[Cohort, Access], None], ...]] = {}
        self._after: dict[int, _Told] = {}
        self._batches: list[Batch] = []
        self._cohort: Cohort | None = None

    def _made(self) -> list[Check]:
        uninit = self.names & {"uninit-registers", "uninit-lds", "uninit-memory"}
        makers: dict[str, Callable[[], Check]] = {
            "views": ViewsCheck,
            "waitcnt": WaitcntCheck,
            "alignment": AlignmentCheck,
            "bank-conflicts": lambda: BankConflictsCheck(self.places),
            "coalescing": lambda: CoalescingCheck(self.places),
            "counts": lambda: CountsCheck(self.counts),
        }
        checks = [make() for name, make in makers.items() if name in self.names]
        races = self.names & {"lds-races", "lds-latency"}
        checks += [LdsRacesCheck(races)] if races else []
        return [*checks, UninitCheck(uninit, self._tracked)] if uninit else checks

    # For people

    @property
    def findings(self) -> list[Finding]:
        """In the order of the launches, then of their first time."""
        merged: dict[tuple[str, str, int], Finding] = {}
        for run in self._runs:
            for finding in run.found.values():
                key = (finding.check, finding.kernel, finding.pc)
                if key in merged:
                    finding = merged[key].again(finding.repeats)
                merged[key] = finding
        return list(merged.values())

    def text(self) -> str:
        """Every finding in words; a sentence that says so when there is none."""
        found = self.findings
        if not found:
            return f"no findings ({', '.join(sorted(self.names))})"
        return "\n".join(finding.text() for finding in found)

    def forget(self) -> None:
        """Start anew. The card keeps the steps it has built for an observer, so one that is used again costs less than
        another one."""
        self._runs.clear()
        self.counts.clear()
        self.places.clear()
        self._tracked.forget()

    def undefined(self, tensor: Any) -> None:
        """From now on nothing of this CPU tensor's storage counts as written."""
        self._tracked.undefined(tensor)

    def written(self, tensor: Any) -> None:
        """The elements of this tensor count as written (by numpy or C code, which torch can't see)."""
        self._tracked.written(tensor)

    def unwritten(self, tensor: Any) -> int:
        """How many elements of this tensor hold a byte that neither a kernel nor torch has written, as far as known."""
        return self._tracked.unwritten(tensor)

    def __enter__(self) -> "Checks":
        if "uninit-memory" in self.names:
            self._stack.enter_context(self._tracked.watching())
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    # For the machine

    def begin(self, launch: Launch) -> None:
        self._run = Run(launch, self.strict)
        self._runs.append(self._run)
        self._before.clear()
        self._access.clear()
        self._after.clear()
        self._batches.clear()
        for check in self._checks:
            check.begin(self._run)

    def end(self, error: Exception | None) -> None:
        for check in self._checks:
            check.end(error)
        self._batches.clear()
        cohort, self._cohort = self._cohort, None
        if isinstance(error, MemoryFault) and error.instruction is not None:
            message = str(error.args[0]).split(" (wave ")[0]
            self._run.strict = False
            self._run.report(
                "bounds", error.instruction, f"{message} ({error.nearest})", wave=error.wave, lane=error.lane,
                address=error.address, buffer=self._buffer(error),
            )  # fmt: skip
        elif isinstance(error, EndlessLoop) and error.instruction is not None:
            self._run.strict = False
            wave = None if cohort is None else int(cohort.wave[0])
            self._run.report("endless", error.instruction, str(error.args[0]).split(" at pc ")[0], wave=wave)

    def _buffer(self, error: MemoryFault) -> str | None:
        encoding = "" if error.instruction is None else error.instruction.encoding
        return {"DS": "LDS", "SCRATCH": "scratch"}.get(encoding) or self._run.buffer_at(error.address)

    def before(self, cohort: Cohort, instruction: Instruction) -> None:
        told = self._before.get(instruction.pc)
        if told is None:
            told = self._prepare(instruction)
        batches = self._batches
        if not batches or batches[-1] is not cohort.batch:
            self._meet(cohort.batch)
        self._cohort = cohort
        for tell in told:
            tell(cohort)

    def access(self, cohort: Cohort, instruction: Instruction, access: Access) -> None:
        for tell in self._access[instruction.pc]:
            tell(cohort, access)

    def after(self, cohort: Cohort, instruction: Instruction) -> None:
        for tell in self._after[instruction.pc]:
            tell(cohort)

    def barrier(self, groups: NDArray[np.int64]) -> None:
        for batch in self._batches:
            here = groups - batch.first_group
            here = here[(here >= 0) & (here < batch.groups)]
            if here.size:
                for check in self._checks:
                    check.barrier(batch, here)

    def _meet(self, batch: Batch) -> None:
        """Remember the batches that run, the latest one last."""
        self._batches = [other for other in self._batches if other is not batch and other.live.any()] + [batch]

    def _prepare(self, inst: Instruction) -> _Told:
        hooks = [hook for check in self._checks if (hook := check.watch(inst)) is not None]
        self._access[inst.pc] = tuple(hook.access for hook in hooks if hook.access is not None)
        self._after[inst.pc] = tuple(hook.after for hook in hooks if hook.after is not None)
        told = self._before[inst.pc] = tuple(hook.before for hook in hooks if hook.before is not None)
        return told
