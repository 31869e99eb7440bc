"""`lds-races`: two waves of a workgroup touch the same bytes of LDS with no barrier between, and one of them writes.

An epoch is what lies between two barriers. An access that its wave has not waited for when it comes to the barrier is
not ordered by it and counts for the next epoch too: a load straight to LDS, a write, or a read that may still be under
way. Atomics are left out. A store that puts the bytes that are there already changes nothing and is no race: compilers
let several waves store the same value.

`lds-latency` is one case of it, told apart: a read that was not waited for before the barrier, and after it a load from
memory straight into those bytes by another wave. Nothing orders them, but memory takes longer than LDS needs for what
it was asked before; some of aiter's f4gemm kernels count on that (S_WAITCNT LGKMCNT(5) before their barrier).
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.access import from_registers
from mxassay.gfx950.batch import Batch
from mxassay.gfx950.checks.counters import Counters, waits_of
from mxassay.gfx950.checks.effects import effects_of
from mxassay.gfx950.checks.run import Check, Hooks, Run, first_lane, rows_of
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.observe import Access
from mxassay.gfx950.wave import Cohort

__all__ = ["LdsRacesCheck"]

# A mark: epoch | wave in its workgroup + 1 (31: several waves) | number of the instruction.
_INST_BITS, _WAVE_BITS = 24, 5
_SEVERAL = (1 << _WAVE_BITS) - 1
_PRUNE = 128


@dataclass(slots=True)
class _Open:
    """An access that its wave may not have waited for yet."""

    kind: str
    counter: str
    place: NDArray[np.int64]
    slot: NDArray[np.int64]
    cells: NDArray[np.int64]
    mask: NDArray[np.bool_]
    number: int


class _Marks:
    """The cells of one batch's LDS: who wrote and who read each one last."""

    def __init__(self, batch: Batch, cell: int) -> None:
        cells = -(-batch.groups * batch.lds_stride // cell) + 16
        self.wrote, self.read = np.zeros(cells, np.int64), np.zeros(cells, np.int64)
        self.late = np.zeros(cells, np.int64)  # reads that were under way at the barrier
        self.epoch = np.ones(batch.groups, np.int64)
        self.counters = Counters(batch.groups * batch.waves_per_group)
        self.open: list[_Open] = []

    def prune(self) -> None:
        ended = self.counters.ended
        self.open = [entry for entry in self.open if (entry.place > ended[entry.counter][entry.slot]).any()]


class LdsRacesCheck(Check):
    """`names`: which of the two are reported."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def begin(self, run: Run) -> None:
        self.run = run
        self.instructions: list[Instruction] = []
        # Cells as small as the smallest store tell all overlaps apart: a read meets no more of a cell than its bytes.
        self.cell = min((_item(inst) for inst in run.instructions() if inst.op.startswith("ds_write")), default=4)

    def watch(self, inst: Instruction) -> Hooks | None:
        if self.run.waves_per_group == 1:
            return None
        if inst.op == "s_waitcnt":
            return Hooks(before=partial(self._wait, *waits_of(inst)))
        counter = effects_of(inst).counter
        if counter not in ("vm", "lds", "flat"):
            return None
        self.instructions.append(inst)
        number = len(self.instructions) - 1
        return Hooks(access=partial(self._access, inst, number), after=partial(self._issue, counter))

    def _marks(self, batch: Batch) -> _Marks:
        found = batch.notes.get(self)
        if found is None:
            found = batch.notes[self] = _Marks(batch, self.cell)
        return found

    def _wait(self, vm: int, lgkm: int, cohort: Cohort) -> None:
        self._marks(cohort.batch).counters.wait(rows_of(cohort), vm, lgkm)

    def _issue(self, counter: str, cohort: Cohort) -> None:
        self._marks(cohort.batch).counters.issue(rows_of(cohort), counter)

    def barrier(self, batch: Batch, groups: NDArray[np.int64]) -> None:
        if self.run.waves_per_group == 1:
            return
        marks = self._marks(batch)
        marks.epoch[groups] += 1
        marks.prune()
        through = np.zeros(batch.groups, np.bool_)
        through[groups] = True
        for entry in marks.open:
            group = entry.slot // batch.waves_per_group
            rows = through[group] & (entry.place > marks.counters.ended[entry.counter][entry.slot])
            if rows.any():
                keys = self._keys(marks, entry.slot[rows], group[rows], entry.number, batch)
                mask = entry.mask[rows]
                cells = entry.cells[rows][mask]
                keys = np.broadcast_to(keys[:, None], mask.shape)[mask][:, None]
                if entry.kind == "store":
                    marks.wrote[cells] = keys
                else:
                    _note_readers(marks.late, cells, keys)

    def _keys(
        self, marks: _Marks, slot: NDArray[np.int64], group: NDArray[np.int64], number: int, batch: Batch
    ) -> NDArray[np.int64]:
        wave = slot % batch.waves_per_group + 1
        keys: NDArray[np.int64] = (marks.epoch[group] << _WAVE_BITS | wave) << _INST_BITS | number
        return keys

    def _access(self, inst: Instruction, number: int, cohort: Cohort, access: Access) -> None:
        if access.space != "lds" or access.kind == "atomic":
            return
        batch = cohort.batch
        marks, rows = self._marks(batch), rows_of(cohort)
        first = (access.address + cohort.lds_base) // self.cell
        spans = max(1, access.size // self.cell)
        cells = first[..., None] + np.arange(spans)
        keys = self._keys(marks, cohort.slot, cohort.group, number, batch)[:, None, None]
        on = access.mask[..., None]
        written = marks.wrote[cells]
        clash = _differ(written, keys) & on
        if access.kind == "load":
            if clash.any():
                self._report("lds-races", inst, cohort, access, clash, written, "read", "written")
            lanes = access.mask
            _note_readers(marks.read, cells[lanes], np.broadcast_to(keys[..., 0], lanes.shape)[lanes][:, None])
        else:
            self._write(inst, cohort, access, marks, cells, keys, written, clash, on)
        counter = "vm" if inst.encoding != "DS" else "lds"
        place = marks.counters.issued[counter][rows] + 1
        marks.open.append(_Open(access.kind, counter, place, cohort.slot, cells, access.mask, number))
        if len(marks.open) > _PRUNE:
            marks.prune()

    def _write(
        self, inst: Instruction, cohort: Cohort, access: Access, marks: _Marks,
        cells: Any, keys: Any, written: Any, clash: Any, on: Any,
    ) -> None:  # fmt: skip
        reads, late = marks.read[cells], marks.late[cells]
        raced, under_way = _differ(reads, keys) & on, _differ(late, keys) & on
        if inst.encoding == "DS":
            raced, reads = raced | under_way, np.where(under_way, late, reads)
        elif under_way.any():
            self._report("lds-latency", inst, cohort, access, under_way, late, "written", "read")
        lanes = access.mask
        mine = np.broadcast_to(keys, cells.shape)
        flat, own = cells[lanes], mine[lanes]
        marks.wrote[flat] = own
        together = np.zeros(cells.shape, np.bool_)
        together[lanes] = _differ(marks.wrote[flat], own)
        if not (clash.any() or raced.any() or together.any()):
            return
        data = _data(inst, cohort, access, self.cell)
        if data is not None:
            there = _content(cohort, access, self.cell)
            changes = (data != there).any(axis=-1)
            clash &= changes
            raced &= changes
            if together.any():
                winner = np.zeros(marks.wrote.size, np.int64)
                winner[flat] = np.arange(cells.size).reshape(cells.shape)[lanes]
                kept = data.reshape(cells.size, -1)[winner[cells]]
                together &= (kept != data).any(axis=-1)
        if raced.any():
            self._report("lds-races", inst, cohort, access, raced, reads, "written", "read")
        elif clash.any():
            self._report("lds-races", inst, cohort, access, clash, written, "written", "written")
        elif together.any():
            self._report("lds-races", inst, cohort, access, together, marks.wrote[cells], "written", "written")

    def _report(
        self, check: str, inst: Instruction, cohort: Cohort, access: Access, hits: Any, marks: Any, how: str, other: str
    ) -> None:
        if check not in self.names:
            return
        row, lane = first_lane(hits.any(axis=-1))
        span = int(hits[row, lane].argmax())
        mark = int(marks[row, lane, span])
        wave = (mark >> _INST_BITS & _SEVERAL) - 1
        first = self.instructions[mark & (1 << _INST_BITS) - 1]
        who = "several waves" if wave == _SEVERAL - 1 else f"wave {wave} of the workgroup"
        self.run.report(
            check,
            inst,
            f"LDS that one wave has {other} must be {how} by another after a barrier that the access was waited for "
            f"at, not in the same epoch as `{first.text}` at pc {first.pc:#x} of {who}",
            wave=int(cohort.wave[row]),
            lane=lane,
            address=int(access.address[row, lane]) + span * self.cell,
            buffer="LDS",
            repeats=int(hits.any(axis=(1, 2)).sum()),
        )


def _data(inst: Instruction, cohort: Cohort, access: Access, cell: int) -> Any:
    """What an LDS store puts there, (waves, 64, cells, bytes of a cell); None where the data come from memory."""
    if inst.encoding != "DS":
        return None
    operand = inst.operand("data")
    if "write2" in inst.op:
        # Two-address forms tell their accesses one after the other: the second is the one at OFFSET1.
        offset = inst["offset1"] * access.size * (64 if "st64" in inst.op else 1)
        if ((access.address == cohort.v[inst.src[0].index].astype(np.int64) + offset) | ~access.mask).all():
            operand = inst.operand("data1")
    assert operand is not None
    words = from_registers(cohort, operand.file, operand.index, max(1, access.size // 4))
    raw = np.stack(words, axis=-1).view(np.uint8)
    start = 2 if "d16_hi" in inst.op else 0
    return raw[..., start : start + access.size].reshape(*access.mask.shape, -1, cell)


def _content(cohort: Cohort, access: Access, cell: int) -> Any:
    places = (access.address + cohort.lds_base)[..., None] + np.arange(access.size)
    return cohort.batch.lds.data[places].reshape(*access.mask.shape, -1, cell)


def _differ(marks: Any, keys: Any) -> Any:
    """Where a mark is of the same epoch and another wave."""
    apart = (marks ^ keys) >> _INST_BITS
    return (apart > 0) & (apart < 1 << _WAVE_BITS)


def _note_readers(read: NDArray[np.int64], cells: Any, keys: Any) -> None:
    """Mark cells as read; one that another wave read in this epoch, or reads now, gets the mark of several."""
    before = read[cells]
    several = keys | _SEVERAL << _INST_BITS
    same = before >> (_INST_BITS + _WAVE_BITS) == keys >> (_INST_BITS + _WAVE_BITS)
    others = same & (before >> _INST_BITS != keys >> _INST_BITS)
    read[cells] = np.where(others, several, keys)
    after = read[cells]
    met = (after >> _INST_BITS != keys >> _INST_BITS) & ~others
    if met.any():
        read[cells[met]] = np.broadcast_to(several, cells.shape)[met]


def _item(inst: Instruction) -> int:
    """The bytes of the smallest piece that an LDS instruction touches."""
    width = inst.op.split("_")
    if any(part in ("b8", "u8", "i8") for part in width):
        return 1
    return 2 if any(part in ("b16", "u16", "i16") for part in width) else 4
