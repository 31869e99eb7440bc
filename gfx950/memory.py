"""Emulated memory: buffers at made-up addresses, with guard bands between them. Nothing outside a buffer is reachable.

A segment wraps host memory without copying it. An access is a gather or scatter of items of 1, 2, 4, 8 or 16 bytes at
the offsets of all lanes at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.errors import ContractError

__all__ = ["FIRST_ADDRESS", "AddressSpace", "Segment", "View"]

# Declared policy: global memory begins where no small integer, 32-bit offset or host pointer points by accident.
FIRST_ADDRESS = 0x5000_0000_0000
GUARD_BYTES = 1 << 32
_SLOT = 1 << 16
_ITEM: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
_SHIFT = {1: 0, 2: 1, 4: 2, 8: 3, 16: 4}
# Alignments above the host pointer's own are not to be had; allocators align to 64 bytes at most.
_KEPT_ALIGNMENT = 64

Offsets = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class View:
    """A buffer argument: `shape` elements of `itemsize` bytes, the first at `address`, `strides` bytes apart. Its
    segment may be larger."""

    name: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int


class Segment:
    """`size` bytes of emulated memory at `base`, backed by a uint8 host array (1-D, contiguous).

    `gather` and `scatter` take byte offsets that are known to lie inside; items of 16 bytes come as complex128, which
    is only a carrier of 16 bytes. `aligned` promises that base + offset is a multiple of the item size.
    """

    def __init__(self, name: str, base: int, data: NDArray[np.uint8], writable: bool = True) -> None:
        self.name, self.base, self.size = name, base, data.size
        self.data, self.writable = data, writable
        self.skew = -base % 16
        self._views = {1: data}
        body = data[self.skew :]
        for size in (2, 4, 8, 16):
            self._views[size] = body[: body.size & -size].view(_ITEM[size])

    @property
    def end(self) -> int:
        return self.base + self.size

    def gather(self, offset: Offsets, size: int, aligned: bool) -> NDArray[Any]:
        if size == 1:
            return self.data.take(offset)
        if aligned:
            index = (offset - self.skew if self.skew else offset) >> _SHIFT[size]
            if not self.skew or not (index < 0).any():
                items: NDArray[Any] = self._views[size].take(index)
                return items
        parts = np.empty((*offset.shape, size), np.uint8)
        for byte in range(size):
            parts[..., byte] = self.data.take(offset + byte)
        joined: NDArray[Any] = parts.view(_ITEM[size])[..., 0]
        return joined

    def scatter(self, offset: Offsets, size: int, aligned: bool, values: NDArray[Any]) -> None:
        """Store `values` (same shape as `offset`, item dtype). Of several lanes at one place the last wins."""
        if size == 1:
            self.data[offset] = values
            return
        if aligned:
            index = (offset - self.skew if self.skew else offset) >> _SHIFT[size]
            if not self.skew or not (index < 0).any():
                self._views[size][index] = values
                return
        parts = np.ascontiguousarray(values)[..., None].view(np.uint8)
        # Lane by lane in address order would differ where unaligned items overlap: keep "the last lane wins".
        self.data[(offset[..., None] + np.arange(size)).ravel()] = parts.ravel()


class AddressSpace:
    """The buffers a kernel can reach, by address.

    >>> space = AddressSpace()
    >>> segment = space.add("x", np.arange(8, dtype=np.uint8))
    >>> segment.base >= FIRST_ADDRESS, space.find(segment.base + 7) is segment, space.find(segment.base + 8)
    (True, True, None)
    """

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._next = FIRST_ADDRESS
        self.views: list[View] = []  # what the arguments of a launch are, for observers
        self.hints: dict[int, Segment] = {}  # by the identity of the instruction's port

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def add(self, name: str, data: NDArray[np.uint8], *, writable: bool = True) -> Segment:
        """Map `data` (uint8, 1-D, contiguous; not copied) at the next free address, keeping the host pointer's
        alignment.

        Raises:
            ContractError: `data` is not 1-D contiguous uint8.
        """
        if data.dtype != np.uint8 or data.ndim != 1 or not data.flags.c_contiguous:
            raise ContractError(f"the memory of {name} must be 1-D contiguous uint8, not {data.dtype} {data.shape}")
        base = self._next + data.ctypes.data % _KEPT_ALIGNMENT
        self._next = -(-(base + data.size) // _SLOT) * _SLOT + GUARD_BYTES
        return self._insert(Segment(name, base, data, writable))

    def add_at(self, name: str, base: int, data: NDArray[np.uint8], *, writable: bool = False) -> Segment:
        """Map a private copy of `data` at a chosen address (code objects are linked for theirs)."""
        aligned = np.empty(data.size + 64, np.uint8)
        start = (base - aligned.ctypes.data) % _KEPT_ALIGNMENT
        aligned[start : start + data.size] = data
        return self._insert(Segment(name, base, aligned[start : start + data.size], writable))

    def _insert(self, segment: Segment) -> Segment:
        self._segments.append(segment)
        self._segments.sort(key=lambda entry: entry.base)
        return segment

    def find(self, address: int) -> Segment | None:
        """The segment that holds the byte at `address`."""
        return next((segment for segment in self._segments if segment.base <= address < segment.end), None)

    def nearest(self, address: int) -> str:
        """Where an address lies with respect to the closest buffer, in words."""
        if not self._segments:
            return "no buffer is mapped"

        def distance(segment: Segment) -> int:
            return max(segment.base - address, address - segment.end + 1, 0)

        segment = min(self._segments, key=distance)
        if address < segment.base:
            return f"{segment.base - address} bytes before {segment.name} of {segment.size} bytes at {segment.base:#x}"
        if address >= segment.end:
            past = address - segment.end
            return f"{past} bytes past the end of {segment.name} of {segment.size} bytes at {segment.base:#x}"
        return f"inside {segment.name} at byte {address - segment.base} of {segment.size}"
