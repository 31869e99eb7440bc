"""Operands whose values say where they lie: run through the same code object, they tell where each byte goes.

Addresses and lanes of a GEMM don't depend on values, so what is found out with probes holds for the failing case.
Three kinds:

- "codes": the bytes of W, its scale bytes and the elements of A spell their own index, a digit in each run. Elements of
  A spell in binary: large or a quarter of it for the place in the block, the sign for the block. All blocks of A have
  one exponent.
- "scales": the exponents of A's blocks spell the index of the block.
- "sums": each row of A is one power of two and each block of W another, random for each run, so that a sum tells which
  row and column it belongs to. For K up to 1024 it is exact even in bfloat16.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from mxassay.properties.operands import Operands
from mxassay.reference import pack

BLOCK = 32
MASK, MIXED, OUTSIDE = -1, -2, -3
"""Instead of an index: a constant stands in for data; no single index fits; poison from outside every buffer."""

_POISON = 0xFF
SUM_RUNS = 5
_PLACE_RUNS = 5  # bits of a place in a block


@dataclass(frozen=True)
class Digits:
    """Numbers as digits 0..base-1, one in each run: the digits of the number first, then check sums of them.

    `first` and `step` make bytes of digits.
    """

    base: int
    first: int
    step: int
    count: int

    def digit(self, index: NDArray[np.int64], run: int) -> NDArray[np.int64]:
        if run < self.count:
            plain: NDArray[np.int64] = index // self.base**run % self.base
            return plain
        total = np.zeros_like(index)
        for place in range(self.count):
            total += index // self.base**place % self.base * (place + 2)
        return (total + 11 * run) % self.base

    def byte(self, index: NDArray[np.int64], run: int) -> NDArray[np.uint8]:
        return (self.first + self.step * self.digit(index, run)).astype(np.uint8)

    def read(self, seen: NDArray[np.uint8], limit: int, slack: int = 0) -> NDArray[np.int64]:
        """Indices of bytes (runs, ...); MASK, MIXED or OUTSIDE where they spell none. A byte may be `slack` too high
        or low, the same in every run or not."""
        values = seen.astype(np.int64) - self.first + slack
        digits, rest = values // self.step, values % self.step
        good = ((digits >= 0) & (digits < self.base) & (rest <= 2 * slack)).all(axis=0)
        index = np.zeros(seen.shape[1:], np.int64)
        for run in range(min(self.count, len(seen))):
            index += np.where(good, digits[run], 0) * self.base**run
        good &= index < limit
        for run in range(self.count, len(seen)):
            good &= self.digit(index, run) == digits[run]
        constant = (seen == seen[0]).all(axis=0)
        other = np.where(constant, np.where(seen[0] == _POISON, OUTSIDE, MASK), MIXED)
        return np.where(good, index, other)


def _count(size: int, base: int) -> int:
    count = 1
    while base**count < size:
        count += 1
    return count


class Probes:
    """The probes of one shape, and how to read them."""

    def __init__(self, case: Operands) -> None:
        self.case = case
        m, n, k = self.shape = case.shape
        self.blocks = k // BLOCK
        # Bytes 0x00 and 0xFF are left to masks and poison, scale bytes below 128 to what stands in for masked scales.
        # Scales lie close together, because the emulated card is slow where they don't.
        self.w = Digits(254, 1, 1, _count(n * k // 2, 254))
        self.w_scales = Digits(8, 128, 1, _count(n * self.blocks, 8))
        # Five apart: scale rules differ by up to two.
        self.a_scales = Digits(6, 100, 5, _count(m * self.blocks, 6))
        self._block_bits = max(1, (m * self.blocks - 1).bit_length())
        self.scale_runs = self.a_scales.count + 1
        least = max(self.w.count, self.w_scales.count) + 1 - self.scale_runs
        self.code_runs = max(_PLACE_RUNS + 1, self._block_bits, least)
        random = np.random.default_rng(950)
        self._powers = [
            (random.integers(-30, 31, m), random.choice((-1.0, 1.0), m), random.integers(0, 4, (n, self.blocks)))
            for _ in range(SUM_RUNS)
        ]

    def operands(self) -> Iterator[tuple[str, int, Operands]]:
        """(kind, run, operands) of every probe."""
        for run in range(self.code_runs):
            yield "codes", run, self._made(self._elements(run), self._w(run), self._scales_of_w(run))
        for run in range(self.scale_runs):
            later = run + self.code_runs
            yield "scales", run, self._made(self._exponents(run), self._w(later), self._scales_of_w(later))
        for run in range(SUM_RUNS):
            yield "sums", run, self._sums(run)

    def _made(self, a: NDArray[np.float32], codes: NDArray[np.uint8], scales: NDArray[np.uint8]) -> Operands:
        return replace(
            self.case,
            a=torch.from_numpy(np.ascontiguousarray(a)).to(torch.bfloat16),
            codes=torch.from_numpy(np.ascontiguousarray(codes)),
            scales=torch.from_numpy(np.ascontiguousarray(scales)),
            words="a probe",
        )

    def _elements(self, run: int) -> NDArray[np.float32]:
        m, _, k = self.shape
        block = np.arange(m * self.blocks).reshape(m, self.blocks, 1)
        sign = np.where(block >> run & 1, -1.0, 1.0)
        place = np.arange(BLOCK)
        size = np.where(place >> run & 1, 4.0, 1.0) if run < _PLACE_RUNS else np.full(BLOCK, 4.0)
        return (sign * size).reshape(m, k).astype(np.float32)

    def _exponents(self, run: int) -> NDArray[np.float32]:
        m, _, k = self.shape
        byte = self.a_scales.byte(np.arange(m * self.blocks), run).astype(np.int64)
        # 4 * 2^(byte - 127): a block whose scale is `byte` under EVEN and FLOOR.
        value = np.ldexp(np.float32(4), byte - 127)
        return np.repeat(value, BLOCK).reshape(m, k).astype(np.float32)

    def _w(self, run: int) -> NDArray[np.uint8]:
        _, n, k = self.shape
        return self.w.byte(np.arange(n * k // 2), run).reshape(n, k // 2)

    def _scales_of_w(self, run: int) -> NDArray[np.uint8]:
        _, n, _ = self.shape
        return self.w_scales.byte(np.arange(n * self.blocks), run).reshape(n, self.blocks)

    def _sums(self, run: int) -> Operands:
        (_, n, k), (rows, signs, blocks) = self.shape, self._powers[run]
        a = np.repeat(np.ldexp(signs, rows)[:, None], k, axis=1)
        scales = (127 + blocks).astype(np.uint8)
        ones = pack(torch.full((n, k), 2, dtype=torch.uint8)).numpy()
        return self._made(a.astype(np.float32), ones, scales)

    def read_pairs(self, pairs: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Indices m * K + k (..., 2) of the elements in registers that hold two bfloat16 numbers, (runs, ...), whatever
        their last bits."""
        halves = np.stack((pairs & np.uint32(0xFFFF), pairs >> np.uint32(16)), axis=-1)
        field = halves >> np.uint32(7) & np.uint32(0xFF)
        # 4 and 1 as codes 6 and 2; code 0 for what is neither.
        magnitude = np.where(field == 129, 6, np.where(field == 127, 2, 0))
        sign = (halves >> np.uint32(15)).astype(np.uint8) << np.uint8(3)
        return self.read_elements(magnitude.astype(np.uint8) | sign, np.uint8(6))

    def read_elements(self, codes: NDArray[np.uint8], large: np.uint8 | None = None) -> NDArray[np.int64]:
        """Indices m * K + k of the codes that a lane holds, uint8 (runs, ..., 32). `large`: the code of 4, whatever the
        others of the lane are; without it the largest of the lane is taken for it."""
        magnitude, negative = codes & 7, codes >> 3 & 1
        largest = magnitude.max(axis=-1, keepdims=True) if large is None else np.broadcast_to(large, codes.shape)
        place = np.zeros(codes.shape[1:], np.int64)
        for run in range(_PLACE_RUNS):
            place |= (magnitude[run] == largest[run]).astype(np.int64) << run
        block = np.zeros(codes.shape[1:], np.int64)
        for run in range(min(self._block_bits, self.code_runs)):
            block |= negative[run].astype(np.int64) << run
        good = (block < self.shape[0] * self.blocks) & (magnitude[_PLACE_RUNS:] == largest[_PLACE_RUNS:]).all(axis=0)
        good &= (negative[self._block_bits :] == 0).all(axis=0)
        empty = (magnitude == 0).all(axis=0)
        constant = (codes == codes[0]).all(axis=0)
        found = np.where(good, block * BLOCK + place, np.where(constant, OUTSIDE, MIXED))
        return np.where(empty, MASK, found)

    def read_w(self, packed: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Indices n * K/2 + byte of packed bytes of W (runs, ...)."""
        _, n, k = self.shape
        return self.w.read(packed, n * k // 2)

    def read_w_scales(self, scales: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Indices n * K/32 + block of W's scale bytes (runs, ...)."""
        return self.w_scales.read(scales, self.shape[1] * self.blocks)

    def read_a_scales(self, scales: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Indices m * K/32 + block of A's scale bytes (runs, ...), whatever the scale rule."""
        return self.a_scales.read(scales, self.shape[0] * self.blocks, slack=2)
