"""Undefined bits of registers: which bits of which lane were never given a value, and where each came from.

A set bit is undefined. Registers without any are not stored at all, and one nobody has touched is stored when it is
looked at. An origin is a number: register n + 1 for what a register held before the kernel began, from FIRST_PLACE on
an entry of the check's own list (a read of memory or LDS).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.batch import Batch
from mxassay.gfx950.checks.effects import REGISTERS, SCC, SGPRS
from mxassay.gfx950.checks.run import rows_of
from mxassay.gfx950.memory import Segment
from mxassay.gfx950.wave import LANES, Cohort, Mask

__all__ = ["ALL", "FIRST_PLACE", "Bits", "Shadow", "Word"]

ALL = np.uint32(0xFFFFFFFF)
FIRST_PLACE = 1024
assert FIRST_PLACE > REGISTERS
Bits = NDArray[np.uint32]  # (waves, 64), (waves, 1) for scalars seen by lanes, (waves,) for scalars
Word = tuple[Any, Any]  # bits and origins of one register of a cohort
_NOTHING = np.uint32(0)


class Shadow:
    """The registers of one batch. `dirty` holds the numbers of those that may have undefined bits."""

    def __init__(self, batch: Batch, dirty: set[int]) -> None:
        self.slots = batch.groups * batch.waves_per_group
        self.dirty = dirty
        self._bits: dict[int, Bits] = {}
        self._origins: dict[int, Bits] = {}
        self.memory: dict[str, PrivateShadow] = {}

    def _shape(self, number: int) -> tuple[int, ...]:
        return (self.slots,) if number >= SGPRS else (self.slots, LANES)

    def _stored(self, number: int) -> Bits:
        """The bits of a dirty register."""
        found = self._bits.get(number)
        if found is None:
            found = self._bits[number] = np.full(self._shape(number), ALL)
            self._origins[number] = np.full(self._shape(number), np.uint32(number + 1))
        return found

    def start(self, number: int, bits: Bits) -> None:
        """Say what of a register is undefined before the first instruction."""
        self._bits[number] = bits
        self._origins[number] = np.full(self._shape(number), np.uint32(number + 1))

    def read(self, number: int, rows: Any) -> Word:
        """Bits and origins of the cohort's rows, views where the rows are neighbours; scalars as (waves,)."""
        if number not in self.dirty:
            return _NOTHING, _NOTHING
        bits = self._stored(number)
        return bits[rows], self._origins[number][rows]

    def settle(self, number: int) -> bool:
        """Forget a register that has no undefined bit left. True when it has none."""
        if number in self.dirty and not self._stored(number).any():
            self.dirty.discard(number)
            del self._bits[number], self._origins[number]
        return number not in self.dirty

    def define(self, number: int, cohort: Cohort, mask: Mask | None) -> None:
        """The register gets a value in the lanes of `mask` (None: all lanes; scalars always)."""
        if number not in self.dirty:
            return
        if cohort.count == self.slots and (mask is None or number >= SGPRS):
            self.dirty.discard(number)
            self._bits.pop(number, None)
            self._origins.pop(number, None)
            return
        self._put(number, rows_of(cohort), _NOTHING, None, mask)

    def write(self, number: int, cohort: Cohort, bits: Any, origins: Any, mask: Mask | None) -> None:
        """The register becomes undefined in those bits, in the lanes of `mask`."""
        if number not in self.dirty:
            if not np.any(bits):
                return
            self.dirty.add(number)
            self._bits[number] = np.zeros(self._shape(number), np.uint32)
            self._origins[number] = np.zeros(self._shape(number), np.uint32)
        self._put(number, rows_of(cohort), bits, origins, mask)

    def _put(self, number: int, rows: Any, bits: Any, origins: Any, mask: Mask | None) -> None:
        stored = self._stored(number)
        for array, value in ((stored, bits), (self._origins[number], origins)):
            if value is None:
                continue
            if mask is None or number >= SGPRS:
                array[rows] = value
            else:
                part = array[rows]
                np.copyto(part, value, where=mask)
                if not isinstance(rows, slice):
                    array[rows] = part


class PrivateShadow:
    """Undefined bits of a batch's LDS or scratch, byte by byte, and the origins of those that were stored undefined."""

    def __init__(self, like: Segment, undefined: bool) -> None:
        words = np.full(like.size // 4 + 16, ALL if undefined else _NOTHING)
        start = -words.ctypes.data % 64 // 4
        self.bits = Segment(like.name, 0, words[start : start + like.size // 4].view(np.uint8))
        self.origins: NDArray[np.uint32] | None = None

    def load(self, offset: NDArray[np.int64], size: int) -> list[Bits] | None:
        """The bits of each dword (or of the narrow item), None when all are defined."""
        found = gather(self.bits, offset, size)
        return found if any(word.any() for word in found) else None

    def origin(self, offset: NDArray[np.int64], word: int) -> Any:
        return _NOTHING if self.origins is None else self.origins[(offset >> 2) + word]

    def store(self, offset: NDArray[np.int64], size: int, words: list[Any] | None, origins: Any, mask: Mask) -> None:
        """`words`: what is undefined of the data; None: nothing."""
        scatter(self.bits, offset, size, words, mask)
        if words is not None and self.origins is None:
            self.origins = np.zeros(self.bits.size // 4 + 1, np.uint32)
        if self.origins is not None:
            for word in range(max(1, size // 4)):
                value = _NOTHING if words is None else np.broadcast_to(origins[word], mask.shape)[mask]
                self.origins[((offset >> 2) + word)[mask]] = value


def gather(segment: Segment, offset: NDArray[np.int64], size: int) -> list[Bits]:
    if size <= 2:
        return [segment.gather(offset, size, not (offset & size - 1).any()).astype(np.uint32)]
    aligned = not (offset & 3).any()
    if size in (8, 16) and not (offset & size - 1).any():
        items = segment.gather(offset, size, True)[..., None].view(np.uint32)
        return [items[..., word] for word in range(size // 4)]
    return [segment.gather(offset + 4 * word, 4, aligned) for word in range(size // 4)]


def scatter(segment: Segment, offset: NDArray[np.int64], size: int, words: list[Any] | None, mask: Mask) -> None:
    item = min(size, 4)
    dtype = {1: np.uint8, 2: np.uint16, 4: np.uint32}[item]
    whole = bool(mask.all())
    if words is None and size in (8, 16) and not (offset & size - 1).any():
        places = offset if whole else offset[mask]
        zeros = np.zeros(places.shape, np.uint64 if size == 8 else np.complex128)
        segment.scatter(places, size, True, zeros)
        return
    aligned = not (offset & item - 1).any()
    for word in range(max(1, size // 4)):
        value = np.zeros(mask.shape, dtype) if words is None else np.broadcast_to(words[word], mask.shape).astype(dtype)
        places = offset + 4 * word
        segment.scatter(places if whole else places[mask], item, aligned, value if whole else value[mask])


def scalar_dirt(defined: set[int]) -> set[int]:
    """The scalar registers that hold nothing yet: all but those that the hardware sets up."""
    return {SGPRS + index for index in range(108)} - defined | {SGPRS + 124, SCC}
