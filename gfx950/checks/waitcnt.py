"""`waitcnt`: a load's result is touched before the S_WAITCNT that covers it.

The emulator's memory is in order, so such a kernel computes the right bits here and wrong ones on a card. A register
may neither be read nor written while a load into it may be under way, lane by lane; loads of one counter that end in
order may follow each other into one register. A wave that fills LDS straight from memory must wait before it touches
those bytes (what other waves do with them is the business of `lds-races`).

Not seen: an LDS read of its own still under way when the wave's load overwrites the same bytes of LDS.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.batch import Batch
from mxassay.gfx950.checks.counters import Counters, waits_of
from mxassay.gfx950.checks.effects import REGISTERS, SGPRS, Effects, effects_of, register_name
from mxassay.gfx950.checks.run import Check, Hooks, Run, rows_of
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.observe import Access
from mxassay.gfx950.wave import Cohort

__all__ = ["WaitcntCheck"]

_FIELD = {"vm": "vmcnt", "lds": "lgkmcnt", "smem": "lgkmcnt(0)"}
_NEVER = np.uint64(0)
_EVERY = np.uint64(0xFFFFFFFFFFFFFFFF)
_DWORD = 4


class _Pending:
    """What may be under way in one batch: by counter, the place in its queue of each register's latest load."""

    def __init__(self, batch: Batch, fills_lds: bool) -> None:
        slots = batch.groups * batch.waves_per_group
        self.counters = Counters(slots)
        self.place = {name: np.zeros((REGISTERS, slots), np.int64) for name in self.counters.issued}
        self.lanes = np.zeros((SGPRS, slots), np.uint64)
        self.maybe: dict[str, set[int]] = {name: set() for name in self.counters.issued}
        self.loads: dict[tuple[str, int], Instruction] = {}
        size = batch.groups * batch.lds_stride // _DWORD if fills_lds else 0
        self.fill_place = np.zeros(size, np.int64)
        self.fill_slot = np.full(size, -1, np.int64)
        self.fills: list[Instruction] = []

    def prune(self) -> None:
        for name, registers in self.maybe.items():
            if registers:
                listed = np.fromiter(registers, np.int64, len(registers))
                late = (self.place[name][listed] > self.counters.ended[name]).any(axis=1)
                self.maybe[name] = set(listed[late].tolist())


class WaitcntCheck(Check):
    def begin(self, run: Run) -> None:
        self.run = run
        self.fills_lds = any(operand.role == "m0" for inst in run.instructions() for operand in inst.src)

    def watch(self, inst: Instruction) -> Hooks | None:
        if inst.op == "s_waitcnt":
            return Hooks(before=partial(self._wait, *waits_of(inst)))
        if inst.op == "s_endpgm":
            return Hooks(before=partial(self._wait, 0, 0))
        effects = effects_of(inst)
        touched = frozenset((*effects.reads, *effects.writes))
        tests = []
        for counter in _FIELD:
            in_order = counter == effects.counter != "smem"
            numbers = frozenset(effects.reads) if in_order else touched
            if numbers:
                tests.append((counter, numbers))
        fills = any(operand.role == "m0" for operand in inst.src) and effects.counter == "vm"
        to_lds = effects.counter in ("lds", "vm") and self.fills_lds
        return Hooks(
            before=partial(self._look, inst, effects, tests) if tests else None,
            access=partial(self._fill if fills else self._touch, inst) if to_lds else None,
            after=partial(self._issue, inst, effects) if effects.counter else None,
        )

    def _pending(self, batch: Batch) -> _Pending:
        found = batch.notes.get(self)
        if found is None:
            found = batch.notes[self] = _Pending(batch, self.fills_lds)
        return found

    def _wait(self, vm: int, lgkm: int, cohort: Cohort) -> None:
        pending = self._pending(cohort.batch)
        pending.counters.wait(rows_of(cohort), vm, lgkm)
        pending.prune()

    def _look(
        self, inst: Instruction, effects: Effects, tests: list[tuple[str, frozenset[int]]], cohort: Cohort
    ) -> None:
        pending = self._pending(cohort.batch)
        for counter, numbers in tests:
            if not numbers.isdisjoint(pending.maybe[counter]):
                for number in sorted(numbers & pending.maybe[counter]):
                    self._judge(inst, effects, counter, number, cohort, pending)

    def _judge(
        self, inst: Instruction, effects: Effects, counter: str, number: int, cohort: Cohort, pending: _Pending
    ) -> None:
        rows = rows_of(cohort)
        late = pending.place[counter][number][rows] > pending.counters.ended[counter][rows]
        lanes = None
        if number < SGPRS:
            lanes = pending.lanes[number][rows] & (_EVERY if effects.every_lane else cohort.exec)
            late &= lanes != _NEVER
        if not late.any():
            return
        row = int(late.argmax())
        name, load = register_name(number), pending.loads[counter, number]
        how = "read" if number in effects.reads else "written"
        self.run.report(
            "waitcnt",
            inst,
            f"{name} must be {how} after an s_waitcnt {_FIELD[counter]} that covers `{load.text}` at pc {load.pc:#x}, "
            "not while that load may be under way",
            wave=int(cohort.wave[row]),
            lane=None if lanes is None else (int(lanes[row]) & -int(lanes[row])).bit_length() - 1,
            repeats=int(late.sum()),
        )
        place = pending.place[counter][number]
        place[cohort.slot[late]] = 0

    def _issue(self, inst: Instruction, effects: Effects, cohort: Cohort) -> None:
        pending, rows = self._pending(cohort.batch), rows_of(cohort)
        pending.counters.issue(rows, effects.counter)
        for counter in ("vm", "lds") if effects.counter == "flat" else (effects.counter,):
            issued, ended = pending.counters.issued[counter][rows], pending.counters.ended[counter][rows]
            for number in effects.writes:
                place = pending.place[counter][number]
                if number < SGPRS:
                    others = np.where(place[rows] > ended, pending.lanes[number][rows], _NEVER)
                    pending.lanes[number][rows] = others | (_EVERY if effects.every_lane else cohort.exec)
                place[rows] = issued
                pending.loads[counter, number] = inst
            pending.maybe[counter].update(effects.writes)

    def _dwords(self, cohort: Cohort, access: Access) -> NDArray[np.int64]:
        """(waves, 64, dwords) places in the batch's LDS."""
        first = (access.address + cohort.lds_base) // _DWORD
        return first[..., None] + np.arange(max(1, access.size // _DWORD))

    def _fill(self, inst: Instruction, cohort: Cohort, access: Access) -> None:
        if access.space != "lds":
            return
        pending, rows = self._pending(cohort.batch), rows_of(cohort)
        if inst not in pending.fills:
            pending.fills.append(inst)
        places = self._dwords(cohort, access)[access.mask]
        issued: Any = np.broadcast_to((pending.counters.issued["vm"][rows] + 1)[:, None], access.mask.shape)
        slots = np.broadcast_to(cohort.slot[:, None], access.mask.shape)
        pending.fill_place[places] = issued[access.mask][:, None]
        pending.fill_slot[places] = slots[access.mask][:, None]

    def _touch(self, inst: Instruction, cohort: Cohort, access: Access) -> None:
        if access.space != "lds":
            return
        pending, rows = self._pending(cohort.batch), rows_of(cohort)
        ended = pending.counters.ended["vm"][rows]
        if (pending.counters.issued["vm"][rows] == ended).all():
            return
        places = self._dwords(cohort, access)
        late = (pending.fill_place[places] > ended[:, None, None]) & access.mask[..., None]
        late &= pending.fill_slot[places] == cohort.slot[:, None, None]
        if late.any():
            row, lane, word = (int(axis[0]) for axis in np.nonzero(late))
            loads = " or ".join(f"pc {load.pc:#x}" for load in pending.fills)
            self.run.report(
                "waitcnt",
                inst,
                f"LDS filled from memory must be touched after an s_waitcnt vmcnt that covers its load at {loads}, "
                "not while that load may be under way",
                wave=int(cohort.wave[row]),
                lane=lane,
                address=int(access.address[row, lane]) + _DWORD * word,
                buffer="LDS",
                repeats=int(late.any(axis=(1, 2)).sum()),
            )
            pending.fill_slot[places[late]] = -1
