"""The shapes of loads and stores, shared by global, buffer, scratch and LDS instructions: bytes, extension, half of
register."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SUFFIXES", "Transfer"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """`size` bytes an access. `signed` extends narrow loads by their sign. `d16` says that a narrow load fills one
    half of its register and keeps the other ("lo" or "hi"), or that a store takes the upper half ("hi")."""

    size: int
    signed: bool = False
    d16: str = ""

    @property
    def words(self) -> int:
        return max(1, self.size // 4)

    def widened(self, items: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """A narrow load's item as a dword; whole dwords as they are."""
        if self.size >= 4:
            return items
        (item,) = items
        if self.signed:
            item = item.view(np.int8 if self.size == 1 else np.int16).astype(np.int32).view(np.uint32)
        return [item.astype(np.uint32, copy=False)]

    def merged(self, words: list[NDArray[Any]], old: Callable[[], NDArray[np.uint32]]) -> list[NDArray[Any]]:
        """The register after a D16 load: the loaded half beside the old one."""
        if not self.d16 or self.size > 2:
            return words
        (word,) = words
        word = word & np.uint32(0xFFFF)
        if self.d16 == "hi":
            return [old() & np.uint32(0xFFFF) | word << np.uint32(16)]
        return [old() & np.uint32(0xFFFF0000) | word]

    def taken(self, words: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """What a store takes from its register."""
        return [words[0] >> np.uint32(16)] if self.d16 == "hi" else words


# AMD CDNA4 ISA, "FLAT, GLOBAL and SCRATCH", "MUBUF": the same names after load_ and store_ in all of them.
SUFFIXES: dict[str, dict[str, Transfer]] = {
    "load": {
        "ubyte": Transfer(1), "sbyte": Transfer(1, True), "ushort": Transfer(2), "sshort": Transfer(2, True),
        "dword": Transfer(4), "dwordx2": Transfer(8), "dwordx3": Transfer(12), "dwordx4": Transfer(16),
        "ubyte_d16": Transfer(1, d16="lo"), "ubyte_d16_hi": Transfer(1, d16="hi"), "sbyte_d16": Transfer(1, True, "lo"),
        "sbyte_d16_hi": Transfer(1, True, "hi"), "short_d16": Transfer(2, d16="lo"),
        "short_d16_hi": Transfer(2, d16="hi"),
    },
    "store": {
        "byte": Transfer(1), "byte_d16_hi": Transfer(1, d16="hi"), "short": Transfer(2),
        "short_d16_hi": Transfer(2, d16="hi"), "dword": Transfer(4), "dwordx2": Transfer(8), "dwordx3": Transfer(12),
        "dwordx4": Transfer(16),
    },
}  # fmt: skip
