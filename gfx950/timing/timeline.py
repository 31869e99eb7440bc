"""Each wave's clock, if it had its SIMD and the memory to itself: issue, waits, barriers, the matrix unit.

A wave issues in order, once in four cycles. A load's data are there a latency after its issue, in order within their
counter; `s_waitcnt` moves the clock to the operations that it waits for; a barrier moves a workgroup's clocks to the
last one. Dependences between vector instructions cost nothing: four cycles hide them, and where an MFMA's result needs
longer the compiler put `s_nop` (which counts). A kernel whose descriptor asks for preloaded arguments is entered behind
the code that loads them for older firmware. What waves do to each other is the model's business, not ours.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.batch import Batch
from mxassay.gfx950.checks.counters import NO_LGKM, NO_VM, waits_of
from mxassay.gfx950.checks.run import Check, Hooks, Run
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.timing.assumptions import Card
from mxassay.gfx950.timing.rates import matrix_cycles, vector_cycles
from mxassay.gfx950.wave import Cohort

__all__ = ["TimelineCheck"]

Cycles = NDArray[np.int64]
_DEPTH = 64  # VMCNT counts to 63, LGKMCNT to 15
_MEMORY = ("MUBUF", "GLOBAL", "FLAT", "SCRATCH")


class TimelineCheck(Check):
    """After a launch: `end` (cycles of each wave), `vector`, `matrix`, `scalar` and `issued` (cycles that each wave
    kept these units busy), `trips` (waits of each wave that memory really held up), `local_trips` (those for LDS)."""

    def __init__(self, card: Card) -> None:
        self.card = card

    def begin(self, run: Run) -> None:
        self.run = run
        code = run.launch.code
        self.entered = code.entry
        if code.descriptor.kernarg_preload_length:
            self.entered += int(self.card["preload"])
        waves = run.waves
        self.clock, self.end_time, self.matrix_free = (np.zeros(waves, np.int64) for _ in range(3))
        self.vector, self.matrix, self.scalar, self.issued = (np.zeros(waves, np.int64) for _ in range(4))
        self.trips, self.local_trips, self.waited = (np.zeros(waves, np.int64) for _ in range(3))
        # When the latest operations of a counter are done: a ring by the number of the operation.
        self.done = {name: np.zeros((waves, _DEPTH), np.int64) for name in ("vm", "lds")}
        self.count = {name: np.zeros(waves, np.int64) for name in ("vm", "lds")}
        self.scalar_done = np.zeros(waves, np.int64)

    def watch(self, inst: Instruction) -> Hooks | None:
        return Hooks(before=self._step(inst)) if inst.pc >= self.entered else None

    def _step(self, inst: Instruction) -> Callable[[Cohort], None]:
        slot = int(self.card["issue"])
        op, encoding = inst.op, inst.encoding
        if op == "s_waitcnt":
            vm, lgkm = waits_of(inst)
            return lambda cohort: self._wait(cohort.wave, vm, lgkm, slot)
        if op == "s_nop":
            cycles = slot * (inst["simm16"] + 1)
            return lambda cohort: self._advance(cohort.wave, cycles)
        if op.startswith(("v_mfma", "v_smfmac")):
            busy, after = matrix_cycles(inst, self.card), int(self.card["after_matrix"])
            return lambda cohort: self._multiply(cohort.wave, busy, after)
        if encoding.startswith("VOP"):
            cycles = vector_cycles(inst, self.card)
            return lambda cohort: self._vector(cohort.wave, cycles)
        if encoding in _MEMORY:
            return lambda cohort: self._load(cohort.wave, "vm", int(self.card["memory_latency"]), slot)
        if encoding == "DS":
            return lambda cohort: self._load(cohort.wave, "lds", int(self.card["lds_latency"]), slot)
        if encoding == "SMEM":
            return lambda cohort: self._load_scalar(cohort.wave, slot)
        if encoding.startswith("SOP") and op not in ("s_barrier", "s_endpgm"):
            return lambda cohort: self._scalar(cohort.wave, slot)
        return lambda cohort: self._advance(cohort.wave, slot)

    def _advance(self, wave: Any, cycles: int) -> None:
        self.clock[wave] += cycles
        self.issued[wave] += cycles

    def _vector(self, wave: Any, cycles: int) -> None:
        self._advance(wave, cycles)
        self.vector[wave] += cycles

    def _scalar(self, wave: Any, cycles: int) -> None:
        self._advance(wave, cycles)
        self.scalar[wave] += cycles

    def _multiply(self, wave: Any, busy: int, after: int) -> None:
        start = np.maximum(self.clock[wave], self.matrix_free[wave])
        self.matrix_free[wave] = start + busy
        self.clock[wave] = start + after
        self.issued[wave] += after
        self.matrix[wave] += busy

    def _load(self, wave: Any, counter: str, latency: int, slot: int) -> None:
        self._advance(wave, slot)
        done, count = self.done[counter], self.count[counter]
        number = count[wave]
        # In order: nothing is done before what was issued earlier.
        done[wave, number % _DEPTH] = np.maximum(done[wave, (number - 1) % _DEPTH], self.clock[wave] + latency)
        count[wave] = number + 1

    def _load_scalar(self, wave: Any, slot: int) -> None:
        self._advance(wave, slot)
        self.scalar_done[wave] = np.maximum(self.scalar_done[wave], self.clock[wave] + int(self.card["scalar_latency"]))

    def _done(self, wave: Any, counter: str, outstanding: int) -> Cycles:
        """When all but the latest `outstanding` operations are done; 0 where so many were never issued."""
        number = self.count[counter][wave] - 1 - outstanding
        found: Cycles = np.where(number >= 0, self.done[counter][wave, number % _DEPTH], 0)
        return found

    def _wait(self, wave: Any, vm: int, lgkm: int, slot: int) -> None:
        self._advance(wave, slot)
        before = self.clock[wave]
        far = np.zeros_like(before)
        near = np.zeros_like(before)
        if vm < NO_VM:
            far = self._done(wave, "vm", vm)
        if lgkm < NO_LGKM:
            near = self._done(wave, "lds", lgkm)
            if lgkm == 0:
                far = np.maximum(far, self.scalar_done[wave])
        self.trips[wave] += (far > before) & (far >= near)
        self.local_trips[wave] += (near > before) & (near > far)
        self.clock[wave] = np.maximum(before, np.maximum(far, near))
        self.waited[wave] += self.clock[wave] - before

    def barrier(self, batch: Batch, groups: NDArray[np.int64]) -> None:
        size = batch.waves_per_group
        waves = batch.first_wave + groups[:, None] * size + np.arange(size)
        latest = self.clock[waves].max(axis=1, keepdims=True) + int(self.card["barrier"])
        self.waited[waves] += latest - self.clock[waves]
        self.clock[waves] = latest

    def end(self, error: Exception | None) -> None:
        last = self.done["vm"][np.arange(self.run.waves), (self.count["vm"] - 1) % _DEPTH]
        self.end_time = np.maximum(self.clock, np.where(self.count["vm"] > 0, last, 0))
