"""`uninit-registers`, `uninit-lds`, `uninit-memory`: values that were never written and come to matter.

Compilers copy, spill and select undefined values all the time, so reading one is no fault. Undefined bits travel with
the values, through registers, LDS and scratch, and are reported where they matter: stored to memory, used in an
address, deciding a branch or EXEC, choosing a lane. What was read from LDS or memory is reported at that read.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mxassay.gfx950.checks.effects import AGPRS, SCC, SGPRS, Effects, effects_of, register_name
from mxassay.gfx950.checks.propagation import Propagation
from mxassay.gfx950.checks.run import Check, Hooks, Run, first_lane, rows_of
from mxassay.gfx950.checks.shadow import (
    ALL,
    FIRST_PLACE,
    PrivateShadow,
    Shadow,
    Word,
    gather,
    scalar_dirt,
    scatter,
)
from mxassay.gfx950.checks.tracked import Tracked
from mxassay.gfx950.instruction import VCC, Instruction
from mxassay.gfx950.memory import Segment
from mxassay.gfx950.observe import Access
from mxassay.gfx950.wave import LANES, Cohort

__all__ = ["UninitCheck"]

_LANE = np.arange(LANES)
_DATA = ("data", "data1", "vdata")


@dataclass(frozen=True, slots=True)
class _Place:
    """A read of what nobody wrote."""

    check: str
    inst: Instruction
    wave: int
    lane: int
    address: int
    buffer: str


class UninitCheck(Check):
    """`names`: which of the three are reported; the others' values count as defined. `tracked`: the host's buffers."""

    def __init__(self, names: frozenset[str], tracked: Tracked) -> None:
        self.names, self.tracked = names, tracked

    def begin(self, run: Run) -> None:
        self.run = run
        self.places: list[_Place] = []
        self.place_of: dict[tuple[str, int], int] = {}
        self.loaded: list[tuple[list[Any] | None, Any, Any, int]] = []
        self.filled: tuple[list[Any], Any] | None = None
        self.segments: list[tuple[Segment, Segment]] = []
        if "uninit-memory" in self.names:
            self.segments = [
                (segment, shadow) for segment in run.launch.memory if (shadow := self.tracked.shadow_of(segment))
            ]
        self.propagation = Propagation(self.shadow, self.sink)

    # State

    def shadow(self, cohort: Cohort) -> Shadow:
        found = cohort.batch.notes.get(self)
        if found is None:
            found = cohort.batch.notes[self] = self._start(cohort)
        return found

    def _start(self, cohort: Cohort) -> Shadow:
        if "uninit-registers" not in self.names:
            return Shadow(cohort.batch, set())
        descriptor = self.run.launch.code.descriptor
        defined = {SGPRS + 102, SGPRS + 103, SGPRS + 104, SGPRS + 105}
        for entry in (*descriptor.user_sgprs, *descriptor.system_sgprs):
            defined.update(range(SGPRS + entry.first, SGPRS + entry.first + entry.count))
        dirty = set(range(cohort.v.shape[0])) | {AGPRS + index for index in range(cohort.a.shape[0])}
        shadow = Shadow(cohort.batch, dirty | scalar_dirt(defined))
        slots = np.arange(shadow.slots) % cohort.batch.waves_per_group
        # v0 holds the work-item's ids (LLVM AMDGPUUsage, "Initial Kernel Execution State").
        missing = slots[:, None] * LANES + _LANE >= self.run.items
        shadow.start(0, np.where(missing, ALL, np.uint32(0)))
        return shadow

    def _private(self, shadow: Shadow, cohort: Cohort, space: str) -> PrivateShadow:
        found = shadow.memory.get(space)
        if found is None:
            like, check = (
                (cohort.batch.lds, "uninit-lds") if space == "lds" else (cohort.batch.scratch, "uninit-memory")
            )
            found = shadow.memory[space] = PrivateShadow(like, check in self.names)
        return found

    # Instructions

    def watch(self, inst: Instruction) -> Hooks | None:
        effects = effects_of(inst)
        if effects.counter:
            data = [operand for operand in inst.src if operand.role in _DATA]
            registers = [
                number for operand in data for number in _registers(operand.file, operand.index, operand.count)
            ]
            addresses = [number for number in effects.reads if number not in registers]
            if "permute" in inst.op or "swizzle" in inst.op:
                return Hooks(before=partial(self.propagation.across, inst, effects))
            return Hooks(
                before=partial(self._address, inst, addresses),
                access=partial(self._access, inst, data),
                after=partial(self._arrive, inst, effects) if effects.writes else None,
            )
        if inst.op.startswith("s_cbranch_scc"):
            return Hooks(before=partial(self._branch_scc, inst))
        if inst.op.startswith("s_cbranch_vcc"):
            return Hooks(before=partial(self._branch_vcc, inst))
        return self.propagation.watch(inst, effects)

    def _address(self, inst: Instruction, numbers: list[int], cohort: Cohort) -> None:
        self.loaded.clear()
        self.filled = None
        shadow = self.shadow(cohort)
        if shadow.dirty.isdisjoint(numbers):
            return
        rows = rows_of(cohort)
        for number in numbers:
            if shadow.settle(number):
                continue
            bits, origins = shadow.read(number, rows)
            if number < SGPRS:
                self.sink(inst, cohort, np.where(cohort.mask, bits, 0), origins, "makes an address")
            else:
                self.sink(inst, cohort, bits, origins, "makes an address")

    def _branch_scc(self, inst: Instruction, cohort: Cohort) -> None:
        shadow = self.shadow(cohort)
        if SCC in shadow.dirty and not shadow.settle(SCC):
            bits, origins = shadow.read(SCC, rows_of(cohort))
            self.sink(inst, cohort, bits, origins, "decides a branch")

    def _branch_vcc(self, inst: Instruction, cohort: Cohort) -> None:
        shadow = self.shadow(cohort)
        if shadow.dirty.isdisjoint((SGPRS + VCC, SGPRS + VCC + 1)):
            return
        rows = rows_of(cohort)
        total: Any = np.uint32(0)
        origin: Any = np.uint32(0)
        known: Any = np.uint32(0)
        for word in (0, 1):
            bits, origins = shadow.read(SGPRS + VCC + word, rows)
            known = known | cohort.s[VCC + word] & ~bits
            total, origin = total | bits, np.where(bits, origins, origin)
        # One lane known to be on decides it, whatever the others are.
        self.sink(inst, cohort, np.where(known, 0, total), origin, "decides a branch")

    # Memory

    def _access(self, inst: Instruction, data: list[Any], cohort: Cohort, access: Access) -> None:
        if access.space in ("lds", "scratch"):
            self._private_access(inst, data, cohort, access)
        else:
            self._global_access(inst, data, cohort, access)

    def _offset(self, cohort: Cohort, access: Access) -> Any:
        if access.space == "lds":
            return access.address + cohort.lds_base
        return access.address + (cohort.slot[:, None] * LANES + _LANE) * cohort.batch.scratch_stride

    def _data(self, inst: Instruction, data: list[Any], cohort: Cohort, access: Access) -> list[Word] | None:
        """The undefined bits of what a store stores, None when there are none."""
        shadow, rows = self.shadow(cohort), rows_of(cohort)
        operand = data[min(len(self.loaded), len(data) - 1)] if "write2" in inst.op else data[0]
        width = max(1, access.size // 4)
        numbers = _registers(operand.file, operand.index, operand.count if access.kind == "atomic" else width)
        if shadow.dirty.isdisjoint(numbers):
            return None
        words = []
        for number in numbers:
            bits, origins = shadow.read(number, rows) if not shadow.settle(number) else (np.uint32(0), np.uint32(0))
            if access.size < 4:
                bits = bits >> np.uint32(16 if "d16_hi" in inst.op else 0) & np.uint32((1 << 8 * access.size) - 1)
            words.append((np.where(access.mask, bits, np.uint32(0)), origins))
        return words if any(bits.any() for bits, _ in words) else None

    def _private_access(self, inst: Instruction, data: list[Any], cohort: Cohort, access: Access) -> None:
        shadow = self.shadow(cohort)
        if access.space == "lds" and "uninit-lds" not in self.names and not shadow.dirty:
            return
        private, offset = self._private(shadow, cohort, access.space), self._offset(cohort, access)
        if access.kind == "store":
            if not data:
                words, filled = self.filled or (None, None)
                private.store(offset, access.size, words, filled, access.mask)
                self.filled = None
                return
            found = self._data(inst, data, cohort, access)
            self.loaded.append((None, None, None, 0))
            if found is None:
                private.store(offset, access.size, None, None, access.mask)
            else:
                bits, origins = [word[0] for word in found], [word[1] for word in found]
                private.store(offset, access.size, bits, origins, access.mask)
            return
        count = max(1, access.size // 4)
        read = [np.where(access.mask, word, np.uint32(0)) for word in private.load(offset, access.size) or ()]
        if "wrxchg" in inst.op:
            private.store(offset, access.size, None, None, access.mask)
        if not any(word.any() for word in read):
            self.loaded.append((None, None, access.mask, count))
            return
        check = "uninit-lds" if access.space == "lds" else "uninit-memory"
        place = self._place(check, inst, cohort, access, read, "LDS" if access.space == "lds" else "scratch")
        origins = [np.where(before := private.origin(offset, n), before, place) for n in range(count)]
        self.loaded.append((read, origins, access.mask, count))

    def _global_access(self, inst: Instruction, data: list[Any], cohort: Cohort, access: Access) -> None:
        if access.kind != "load" and data:
            found = self._data(inst, data, cohort, access)
            for stored, source in found or ():
                self.sink(inst, cohort, stored, source, "is stored")
        bits: list[Any] | None = None
        for segment, shadow in self.segments:
            here = access.mask & (access.address >= segment.base) & (access.address < segment.end)
            if not here.any():
                continue
            offset = np.where(here, access.address - segment.base, 0)
            if access.kind == "store":
                scatter(shadow, offset, access.size, None, here)
                continue
            words = [np.where(here, word, np.uint32(0)) for word in gather(shadow, offset, access.size)]
            if access.kind == "atomic":
                self._atomic(inst, cohort, access, words)
                scatter(shadow, offset, access.size, None, here)
            if any(word.any() for word in words):
                bits = words if bits is None else [a | b for a, b in zip(bits, words, strict=True)]
        if access.kind == "store":
            return
        origins = None
        if bits is not None:
            origins = [self._memory_place(inst, cohort, access, bits)] * len(bits)
        if not inst.dst and access.kind == "load":  # on its way to LDS
            self.filled = None if bits is None else (bits, origins)
            return
        self.loaded.append((bits, origins, access.mask, max(1, access.size // 4)))

    def _atomic(self, inst: Instruction, cohort: Cohort, access: Access, words: list[Any]) -> None:
        """An atomic stores what it read, changed; an exchange does not."""
        if "swap" not in inst.op and any(word.any() for word in words):
            place = self._memory_place(inst, cohort, access, words)
            self.sink(inst, cohort, np.logical_or.reduce([word != 0 for word in words]), place, "is stored")

    def _memory_place(self, inst: Instruction, cohort: Cohort, access: Access, bits: list[Any]) -> np.uint32:
        row, lane = first_lane(np.logical_or.reduce([word != 0 for word in bits]))
        buffer = self.run.buffer_at(int(access.address[row, lane])) or "memory"
        return self._place("uninit-memory", inst, cohort, access, bits, buffer)

    def _place(
        self, check: str, inst: Instruction, cohort: Cohort, access: Access, bits: list[Any], buffer: str
    ) -> np.uint32:
        found = self.place_of.get((check, inst.pc))
        if found is None:
            row, lane = first_lane(np.logical_or.reduce([word != 0 for word in bits]))
            word = next(n for n, word in enumerate(bits) if word[row, lane])
            byte = int(word_bits & -word_bits).bit_length() // 8 if (word_bits := int(bits[word][row, lane])) else 0
            address = int(access.address[row, lane]) + 4 * word + byte
            self.places.append(_Place(check, inst, int(cohort.wave[row]), lane, address, buffer))
            found = self.place_of[check, inst.pc] = FIRST_PLACE + len(self.places) - 1
        return np.uint32(found)

    def _arrive(self, inst: Instruction, effects: Effects, cohort: Cohort) -> None:
        """The destination gets what was loaded; lanes that no access served get zeros."""
        shadow = self.shadow(cohort)
        clean = all(bits is None for bits, *_ in self.loaded)
        if clean and shadow.dirty.isdisjoint(effects.writes):
            return
        mask = None if cohort.full else cohort.mask
        zero: tuple[Any, Any] = (np.uint32(0), np.uint32(0))
        words: list[tuple[Any, Any]] = []
        for parts, sources, _, count in self.loaded:
            for word in range(count):
                words.append(zero if parts is None else (parts[word], sources[word]))
        for n, number in enumerate(effects.writes):
            bits, origins = words[n] if n < len(words) else zero
            if number >= SGPRS:
                bits, origins = (part[:, 0] if np.ndim(part) == 2 else part for part in (bits, origins))
            bits, origins = self._narrowed(inst, number, bits, origins, shadow, cohort)
            if np.any(bits):
                shadow.write(number, cohort, bits, origins, mask)
            else:
                shadow.define(number, cohort, mask)

    def _narrowed(
        self, inst: Instruction, number: int, bits: Any, origins: Any, shadow: Shadow, cohort: Cohort
    ) -> tuple[Any, Any]:
        op = inst.op
        if "_tr_" in op and np.any(bits):
            wave = bits.any(axis=1, keepdims=True)
            return np.where(wave, ALL, np.uint32(0)), np.broadcast_to(origins, bits.shape).max(axis=1, keepdims=True)
        if "sbyte" in op or "sshort" in op or "_i8" in op or "_i16" in op:
            bits = np.where(bits, ALL, np.uint32(0))
        if "d16" in op:
            old, old_origins = shadow.read(number, rows_of(cohort))
            high = "d16_hi" in op
            keep = np.uint32(0xFFFF if high else 0xFFFF0000)
            kept, new = old & keep, bits & np.uint32(0xFFFF)
            new = new << np.uint32(16) if high else new
            return kept | new, np.where(new != 0, origins, old_origins)
        return bits, origins

    # Reports

    def sink(self, inst: Instruction, cohort: Cohort, bits: Any, origins: Any, use: str) -> None:
        """Undefined bits come to matter: say so, by origin."""
        hits = np.asarray(bits) != 0
        if not hits.any():
            return
        shape = (cohort.count, LANES) if hits.ndim == 2 else (cohort.count,)
        hits = np.broadcast_to(hits, shape)
        origins = np.broadcast_to(np.asarray(origins), shape)
        for origin in np.unique(origins[hits]).tolist():
            mine = hits & (origins == origin)
            if mine.ndim == 2:
                row, lane = first_lane(mine)
                waves = int(mine.any(axis=1).sum())
            else:
                row, lane, waves = int(mine.argmax()), None, int(mine.sum())
            if origin >= FIRST_PLACE:
                place = self.places[origin - FIRST_PLACE]
                what = "memory" if place.check == "uninit-memory" else "LDS"
                self.run.report(
                    place.check, place.inst,
                    f"{what} must be written before it is read and its value {use} (`{inst.text}` at pc {inst.pc:#x}), "
                    "not read as nobody left it",
                    wave=place.wave, lane=place.lane, address=place.address, buffer=place.buffer, repeats=waves,
                )  # fmt: skip
            elif origin:
                self.run.report(
                    "uninit-registers", inst,
                    f"{register_name(origin - 1)} must be written before its value {use}, not read as it was found",
                    wave=int(cohort.wave[row]), lane=lane, repeats=waves,
                )  # fmt: skip


def _registers(file: str, index: int, count: int) -> list[int]:
    base = {"v": 0, "a": AGPRS, "s": SGPRS}[file]
    return list(range(base + index, base + index + count))
