"""Runs batches of workgroups to their end: picks a cohort, runs blocks, splits, merges, and opens barriers.

The cohort with the fewest spent quanta goes first, the lowest pc among equals. Lowest pc first lets waves that parted
meet again; counting quanta keeps a spinning cohort from starving the one it waits for. A batch that spends its
patience gets company: the next batch starts beside it, so that workgroups that wait for others make progress.
"""

from collections.abc import Callable, Iterator
from functools import cache
from operator import length_hint

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.accumulate import Differences
from mxassay.gfx950.batch import Batch
from mxassay.gfx950.faults import EndlessLoop, KernelFault
from mxassay.gfx950.floating import ignore_float_errors
from mxassay.gfx950.program import Block, Threaded
from mxassay.gfx950.registry import BARRIER, EXIT
from mxassay.gfx950.wave import Cohort

__all__ = ["QUANTUM", "Counts", "Machine"]

# Declared policies, in steps. A quantum is what a cohort runs before others get their turn; patience is how long
# batches run without company (the longest batch of the corpus takes some 6,000 steps, so only kernels that wait for
# other workgroups get it).
QUANTUM = 2_000
PATIENCE = 40_000
_NOWHERE = 1 << 64


@cache
def _keep_heap() -> None:
    """Make glibc keep freed memory: temporaries of a few megabytes else go back to the system and fault in again at
    each step.

    Freeing one large block raises its thresholds for the process (mallopt(3), "M_MMAP_THRESHOLD", dynamic
    adjustment); steps with 64 waves ran five times faster. Other allocators don't mind.
    """
    block = np.empty(31 << 20, np.uint8)
    del block


class Counts:
    """What ran: `steps` (instructions of cohorts), `wave_instructions`, and `lane_instructions` = waves x 64.

    `waves_at`: by a block's pc and length in instructions, how many waves ran it. `matrix_results`: how many results
    depend on the order of adding, where `Options.compare_accumulation` asked.
    """

    __slots__ = ("matrix_results", "steps", "wave_instructions", "waves_at")

    def __init__(self) -> None:
        self.steps = self.wave_instructions = 0
        self.waves_at: dict[tuple[int, int], int] = {}
        self.matrix_results: Differences | None = None

    @property
    def lane_instructions(self) -> int:
        return self.wave_instructions * 64


class Machine:
    """One kernel launch. `start(batch)` makes the cohort of a batch's waves, ready at the entry."""

    def __init__(self, code: Threaded, start: Callable[[Batch], Cohort], budget: int) -> None:
        self.code, self.start, self.budget = code, start, budget
        self.counts = Counts()

    def run(self, batches: Iterator[Batch]) -> None:
        """Run every batch. Raises `KernelFault` and its kin, `UnsupportedInstruction`."""
        running: list[_Running] = []
        found = self.code.context.differences
        self.counts.matrix_results = found and found.restart()
        _keep_heap()
        with ignore_float_errors():
            joined = 0
            while True:
                if not running or self.counts.steps - joined >= PATIENCE:
                    joined = self.counts.steps
                    batch = next(batches, None)
                    if batch is not None:
                        running.append(_Running(self, batch))
                if not running:
                    return
                entry = min(running, key=lambda entry: entry.spent)
                if entry.advance():
                    running.remove(entry)


class _Running:
    """One batch on its way."""

    def __init__(self, machine: Machine, batch: Batch) -> None:
        self.machine, self.batch = machine, batch
        self.ready = [machine.start(batch)]
        self.waiting: list[Cohort] = []
        self.spent = 0

    def advance(self) -> bool:
        """Run one cohort until it ends, waits, parts or has spent a quantum. True when the batch is done."""
        cohort = min(self.ready, key=lambda entry: (entry.steps // QUANTUM, entry.pc))
        self.ready.remove(cohort)
        for part in self._run(cohort):
            self._make_ready(part)
        if not self.ready and self.waiting:
            self._open_barriers()
            if not self.ready:
                waiting = self.waiting[0]
                raise KernelFault(
                    f"every wave of a workgroup must reach the barrier before {waiting.pc:#x} of "
                    f"{self.machine.code.context.kernel}, but wave {int(waiting.wave[0])} waits for ever"
                )
        return not self.ready

    def _make_ready(self, cohort: Cohort) -> None:
        """Queue a cohort, joined with one that waits for its turn at the same pc."""
        for other in self.ready:
            if other.pc == cohort.pc:
                self.ready.remove(other)
                cohort = Cohort.merge([other, cohort])
                break
        self.ready.append(cohort)

    def _run(self, cohort: Cohort) -> list[Cohort]:
        machine, counts = self.machine, self.machine.counts
        block_at, pc = machine.code.block, cohort.pc
        # What a cohort spent before it parted, waited or met others counts: else a loop that does so always
        # starves all.
        spent, left = divmod(cohort.steps, QUANTUM)
        left = QUANTUM - left
        waves_at = counts.waves_at
        parked = {other.pc for other in self.ready}
        # Whoever passes a cohort of equal claims waits for it: they may meet.
        lowest = min((other.pc for other in self.ready if other.steps // QUANTUM <= spent), default=_NOWHERE)
        while True:
            block = block_at(pc)
            steps = iter(block.steps)
            try:
                for step in steps:
                    step(cohort)
                outcome = block.end(cohort)
            except (KernelFault, ArithmeticError, LookupError, ValueError, TypeError) as error:
                _explain(error, block, length_hint(steps), machine)
                raise
            counts.steps += block.length
            counts.wave_instructions += block.length * cohort.count
            key = pc, block.length
            waves_at[key] = waves_at.get(key, 0) + cohort.count
            self.spent += block.length
            left -= block.length
            cohort.steps += block.length
            if outcome.__class__ is not int:
                parts = self._part(cohort, outcome)  # type: ignore[arg-type]
                if len(parts) > 1:
                    return parts
                outcome = parts[0].pc
            if outcome == EXIT:
                np.subtract.at(self.batch.live, cohort.group, 1)
                self._open_barriers()
                return []
            if outcome == BARRIER:
                assert block.last is not None
                outcome = block.last.next_pc
                if not self._passes(cohort):
                    cohort.pc = outcome
                    self.waiting.append(cohort)
                    self._open_barriers()
                    return []
            pc = outcome
            if left <= 0 or pc >= lowest or pc in parked:
                cohort.pc = pc
                if left <= 0:
                    self._check_budget(block)
                return [cohort]

    def _part(self, cohort: Cohort, pcs: NDArray[np.int64]) -> list[Cohort]:
        targets = np.unique(pcs)
        if len(targets) == 1:
            cohort.pc = int(targets[0])
            return [cohort]
        parts = []
        for target in targets:
            part = cohort.take(np.flatnonzero(pcs == target))
            part.pc = int(target)
            parts.append(part)
        return parts

    def _passes(self, cohort: Cohort) -> bool:
        """Whether all live waves of the cohort's workgroups stand at this barrier, together."""
        arrived = np.bincount(cohort.group, minlength=self.batch.groups)
        if not ((arrived == 0) | (arrived == self.batch.live)).all():
            return False
        self._tell(np.flatnonzero(arrived))
        return True

    def _open_barriers(self) -> None:
        """Let through the workgroups whose live waves all wait."""
        if not self.waiting:
            return
        arrived = np.zeros(self.batch.groups, np.int64)
        for cohort in self.waiting:
            np.add.at(arrived, cohort.group, 1)
        open_groups = (arrived > 0) & (arrived == self.batch.live)
        if not open_groups.any():
            return
        self._tell(np.flatnonzero(open_groups))
        waiting, self.waiting = self.waiting, []
        for cohort in waiting:
            through = open_groups[cohort.group]
            if through.all():
                self._make_ready(cohort)
            elif through.any():
                self._make_ready(cohort.take(through))
                self.waiting.append(cohort.take(~through))
            else:
                self.waiting.append(cohort)

    def _tell(self, groups: NDArray[np.int64]) -> None:
        if self.batch.observer is not None:
            self.batch.observer.barrier(groups + self.batch.first_group)

    def _check_budget(self, block: Block) -> None:
        if self.machine.counts.steps > self.machine.budget:
            first = block.instructions[0] if block.instructions else block.last
            raise EndlessLoop(
                f"a launch must end within {self.machine.budget:,} steps, but still runs",
                first,
                self.machine.code.context.kernel,
            )


def _explain(error: Exception, block: Block, unstarted: int, machine: Machine) -> None:
    """Say where an error of ours came from; kernel faults know already."""
    if isinstance(error, KernelFault):
        return
    index = len(block.steps) - unstarted - 1
    inst = block.instructions[index] if unstarted or index < len(block.instructions) else block.last
    error.add_note(f"while executing pc {inst.pc if inst else block.pc:#x} of {machine.code.context.kernel}: `{inst}`")
