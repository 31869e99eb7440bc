"""How memory instructions reach memory: find the buffer, check every lane, tell observers, move whole registers.

Nothing here knows an encoding: callers bring addresses. Masks are None when every lane takes part.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.faults import MemoryFault
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.memory import Segment
from mxassay.gfx950.observe import Access
from mxassay.gfx950.registry import Context
from mxassay.gfx950.wave import Cohort, Lanes, Mask

__all__ = ["Port", "Spot", "fetch", "from_registers", "store", "to_registers"]

Addresses = NDArray[np.int64]  # waves x 64, or waves x 1
Spot = tuple[Segment, Addresses, Mask | None, bool]  # segment, offsets, lanes, aligned


class Port:
    """One memory instruction's way into global memory. The buffer it met last is nearly always the next one too; the
    address space remembers it, since steps outlive launches."""

    def __init__(self, inst: Instruction, context: Context, kind: str, size: int, space: str = "global") -> None:
        self.inst, self.context, self.kind, self.size, self.space = inst, context, kind, size, space

    def spots(self, wv: Cohort, address: Addresses, mask: Mask | None) -> Iterator[Spot]:
        """The accesses by segment, checked. Offsets of lanes that don't take part are 0.

        Raises:
            MemoryFault: a lane that takes part lies outside every segment, or stores to a read-only one.
        """
        if mask is not None and not mask.any():
            return
        hints = wv.batch.memory.hints
        segment = hints.get(id(self))
        if segment is not None:
            spot = self._whole(segment, address, mask)
            if spot is not None:
                self.tell(wv, address, mask)
                yield spot
                return
        first = int(address.flat[0] if mask is None else address[mask][0])
        segment = wv.batch.memory.find(first)
        if segment is not None:
            spot = self._whole(segment, address, mask)
            if spot is not None:
                self._check_writable(segment, wv, address, mask)
                hints[id(self)] = segment
                self.tell(wv, address, mask)
                yield spot
                return
        spots = list(self._scattered(wv, address, mask))
        self.tell(wv, address, mask)
        yield from spots

    def tell(self, wv: Cohort, address: Addresses, mask: Mask | None) -> None:
        observer = wv.batch.observer
        if observer is not None:
            lanes = np.ones(address.shape, np.bool_) if mask is None else mask
            observer.access(wv, self.inst, Access(self.space, self.kind, address, self.size, lanes))

    def _whole(self, segment: Segment, address: Addresses, mask: Mask | None) -> Spot | None:
        """The one spot when every lane lies in this segment."""
        offset = address - segment.base
        if mask is not None:
            offset *= mask
        # All offsets' bits together: negative if one is, and no smaller than the largest. One pass instead of three.
        bits = int(np.bitwise_or.reduce(offset, axis=None))
        limit = segment.size - self.size
        if bits < 0 or (bits > limit and int(offset.max()) > limit) or limit < 0:
            return None
        return segment, offset, mask, not (segment.skew or bits & (_item(self.size) - 1))

    def _scattered(self, wv: Cohort, address: Addresses, mask: Mask | None) -> Iterator[Spot]:
        left = np.ones(address.shape, np.bool_) if mask is None else mask.copy()
        for segment in wv.batch.memory:
            here = left & (address >= segment.base) & (address <= segment.end - self.size)
            if here.any():
                self._check_writable(segment, wv, address, here)
                spot = self._whole(segment, np.where(here, address, segment.base), here)
                assert spot is not None
                left &= ~here
                yield spot
        if left.any():
            self.fault(wv, address, left, f"a {self.kind} must stay inside a buffer")

    def _check_writable(self, segment: Segment, wv: Cohort, address: Addresses, mask: Mask | None) -> None:
        if self.kind != "load" and not segment.writable:
            lanes = np.ones(address.shape, np.bool_) if mask is None else mask
            self.fault(wv, address, lanes, f"a {self.kind} must go to a writable buffer")

    def fault(self, wv: Cohort, address: Addresses, lanes: Mask, message: str) -> None:
        wave, lane = (int(axis[0]) for axis in np.nonzero(lanes))
        where = int(address[wave, lane])
        raise MemoryFault(
            f"{message}, not at {where:#x} for {self.size} bytes", self.inst, self.context.kernel,
            address=where, size=self.size, wave=int(wv.wave[wave]), lane=lane, nearest=wv.batch.memory.nearest(where),
        )  # fmt: skip


def _item(size: int) -> int:
    """The item an access of that size is made of: 12 bytes are three dwords."""
    return 4 if size == 12 else size


def fetch(spot: Spot, size: int) -> list[NDArray[Any]]:
    """Load: the access's dwords (or its one narrow item), one array a register. Lanes outside the mask hold
    anything."""
    segment, offset, _, aligned = spot
    if size == 12:
        return [segment.gather(offset + 4 * word, 4, aligned) for word in range(3)]
    items = segment.gather(offset, size, aligned)
    if size <= 4:
        return [items]
    words = items[..., None].view(np.uint32)
    return [words[..., word] for word in range(size // 4)]


def store(spot: Spot, size: int, words: list[Lanes]) -> None:
    """Store one array a register. Of several lanes at one place the last wins, in grid order."""
    segment, offset, mask, aligned = spot
    if size == 12:
        for word, value in enumerate(words):
            _put(segment, offset + 4 * word, mask, 4, aligned, value)
        return
    if size <= 4:
        value = words[0] if size == 4 else words[0].astype(np.uint8 if size == 1 else np.uint16)
    else:
        pack = np.empty((*offset.shape, len(words)), np.uint32)
        for word, register in enumerate(words):
            pack[..., word] = register
        value = pack.view(np.uint64 if size == 8 else np.complex128)[..., 0]
    _put(segment, offset, mask, size, aligned, value)


def _put(segment: Segment, offset: Addresses, mask: Mask | None, size: int, aligned: bool, value: Lanes) -> None:
    if mask is not None:
        offset, value = offset[mask], value[mask]
    segment.scatter(offset, size, aligned, value)


def to_registers(wv: Cohort, file: str, index: int, words: list[NDArray[Any]], mask: Mask | None) -> None:
    """Write loaded dwords into VGPRs or AGPRs from `index` on, in the lanes of `mask`."""
    registers = wv.v if file == "v" else wv.a
    for word, value in enumerate(words):
        if mask is None:
            registers[index + word] = value
        else:
            np.copyto(registers[index + word], value, where=mask)


def from_registers(wv: Cohort, file: str, index: int, count: int) -> list[Lanes]:
    registers = wv.v if file == "v" else wv.a
    return [registers[index + word] for word in range(count)]
