"""The operands and results of the dense matrix instructions: which element lies in which lane and register.

An operand of `rows` rows (of A, or columns of B), K and `blocks` blocks: element (i, k) of block b lies in lane
i + rows * (b + blocks * (k / n)), item k % n, where a lane holds n = K * rows * blocks / 64 items, the first in the
lowest bits of the lowest register. Source: AMD matrix instruction calculator, "CDNA3"; the shapes that gfx950 adds
follow the same rule (inferred for K order inside a lane, which no result but the accumulation order shows).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.narrow import BF8, FP8, NarrowFloat, decoded

__all__ = ["ELEMENTS", "Element", "Shape", "b_lanes", "columns"]

Words = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Element:
    """A type of matrix elements: bits, the exponent below which denormals begin, and `unpack` from uint32 (..., words)
    to float64, or float32 for integers, (..., items)."""

    bits: int
    least: int
    unpack: Callable[[Words], Any]


@cache
def _halves(form: str) -> NDArray[np.float64]:
    bits = np.arange(1 << 16, dtype=np.uint16)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        if form == "f16":
            return bits.view(np.float16).astype(np.float64)
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


@cache
def _bytes(form: NarrowFloat) -> NDArray[np.float64]:
    return decoded(form).astype(np.float64)


ELEMENTS: dict[str, Element] = {
    "f32": Element(32, -126, lambda words: words.view(np.float32).astype(np.float64)),
    "f64": Element(64, -1022, lambda words: words.view(np.float64)),
    "f16": Element(16, -14, lambda words: _halves("f16").take(words.view(np.uint16))),
    "bf16": Element(16, -126, lambda words: _halves("bf16").take(words.view(np.uint16))),
    "fp8": Element(8, -6, lambda words: _bytes(FP8).take(words.view(np.uint8))),
    "bf8": Element(8, -14, lambda words: _bytes(BF8).take(words.view(np.uint8))),
    "i8": Element(8, 0, lambda words: words.view(np.int8).astype(np.float32)),
}


def columns(words: Words) -> Words:
    """(registers, waves, 64) to (waves, 64, registers), so that a lane's registers are neighbours."""
    registers, waves, lanes = words.shape
    packed = np.empty((waves, lanes, registers), np.uint32)
    for index in range(registers):
        packed[..., index] = words[index]
    return packed


@dataclass(frozen=True, slots=True)
class Shape:
    """D (rows x rows) = A (rows x k) * B (k x rows) + C in each of `blocks` blocks; results are 32 or `wide` 64
    bits."""

    rows: int
    k: int
    blocks: int = 1
    wide: bool = False

    @property
    def items(self) -> int:
        """Elements of A, and of B, in a lane."""
        return self.k * self.rows * self.blocks // 64

    @property
    def results(self) -> int:
        """Registers of D."""
        return max(self.rows * self.rows * self.blocks // 64, 1) << self.wide

    def operand(self, items: Any, pick: NDArray[np.int64] | None = None) -> Any:
        """(waves, 64, items) to (waves * blocks, rows, k). `pick`: the block that each block reads."""
        waves = items.shape[0]
        parts = items.reshape(waves, self.k // self.items, self.blocks, self.rows, self.items).transpose(0, 2, 3, 1, 4)
        if pick is not None:
            parts = parts[:, pick]
        return parts.reshape(waves * self.blocks, self.rows, self.k)

    def results_of(self, registers: Words, dtype: Any) -> Any:
        """C or D, uint32 (registers, waves, 64), as (waves * blocks, rows, rows) of `dtype`."""
        waves = registers.shape[1]
        if self.wide:
            pairs = registers.reshape(-1, 2, waves, 64).transpose(0, 2, 3, 1)
            values: Any = np.ascontiguousarray(pairs).view(np.uint64)[..., 0]
        else:
            values = registers
        outer, inner, lanes = self._bands
        if lanes:
            parts = values.reshape(self.blocks, outer, inner, waves, lanes, self.rows).transpose(3, 0, 1, 4, 2, 5)
        elif self.wide:
            parts = values.reshape(waves, self.rows, self.blocks, self.rows).transpose(0, 2, 1, 3)
        else:
            parts = values.reshape(self.rows, waves, self.blocks, self.rows).transpose(1, 2, 0, 3)
        return parts.reshape(waves * self.blocks, self.rows, self.rows).view(dtype)

    def registers_of(self, results: Any) -> Words:
        """The opposite."""
        values = results.view(np.uint64 if self.wide else np.uint32)
        waves = values.shape[0] // self.blocks
        outer, inner, lanes = self._bands
        if lanes:
            parts = values.reshape(waves, self.blocks, outer, lanes, inner, self.rows).transpose(1, 2, 4, 0, 3, 5)
        elif self.wide:
            parts = values.reshape(waves, self.blocks, self.rows, self.rows).transpose(0, 2, 1, 3)
        else:
            parts = values.reshape(waves, self.blocks, self.rows, self.rows).transpose(2, 0, 1, 3)
        flat = np.ascontiguousarray(parts).reshape(-1, waves, 64)
        if not self.wide:
            return flat
        pairs = flat[..., None].view(np.uint32).transpose(0, 3, 1, 2)
        return np.ascontiguousarray(pairs).reshape(-1, waves, 64)

    @property
    def _bands(self) -> tuple[int, int, int]:
        """Rows of a block are split into (register bands, registers of a band, lane groups); no lane groups where 4
        rows lie in as many registers (or, 64 bits wide, lane groups) for all blocks."""
        if self.rows == 4:
            return 1, 4, 0
        inner, lanes = 1 if self.wide else 4, 64 // self.rows
        return self.rows // (inner * lanes), inner, lanes


@cache
def b_lanes(blgp: int) -> NDArray[np.int64] | None:
    """The lane whose B each lane sees under BLGP: halves or quarters broadcast, or all rotated by 16; None for 0."""
    lane = np.arange(64)
    if blgp == 0:
        return None
    if blgp in (1, 2):
        return lane % 32 + 32 * (blgp - 1)
    if blgp == 3:
        return (lane + 16) % 64
    return lane % 16 + 16 * (blgp - 4)
