"""Matrix operands by lane and register, for the probe's questions: the opposite of what the emulator reads, written
apart from it.

Source: AMD CDNA4 ISA, "Matrix arithmetic instructions", and AMD's matrix instruction calculator. A lane holds
neighbouring k of one row; for 8-bit formats of F8F6F4 two runs of 16 k, 64 k apart.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.probe.question import Words

__all__ = ["accumulator", "bf16", "codes_of", "e5m2", "join", "result", "rows_in_lanes", "split"]

ROWS = 16


def rows_in_lanes(items: NDArray[np.uint32], bits: int, *, interleaved: bool = False) -> Words:
    """(waves, 16, K) items of `bits` bits as an operand of a 16 x 16 x K instruction, uint32 (waves, 64, registers)."""
    waves, rows, depth = items.shape
    assert rows == ROWS
    each = depth * ROWS // 64
    if interleaved:
        parts = items.reshape(waves, rows, 2, 4, 16).transpose(0, 3, 1, 2, 4)
    else:
        parts = items.reshape(waves, rows, 4, each).transpose(0, 2, 1, 3)
    in_lane = parts.reshape(waves, 64, each).astype(np.uint64)
    per_word = 32 // bits
    words = in_lane.reshape(waves, 64, -1, per_word) << (np.arange(per_word, dtype=np.uint64) * np.uint64(bits))
    packed: Words = np.bitwise_or.reduce(words, axis=-1).astype(np.uint32)
    return packed


def accumulator(matrix: NDArray[np.float32]) -> Words:
    """(waves, 16, 16) as C of a 16 x 16 instruction: (i, j) in lane j + 16 * (i // 4), register i % 4."""
    parts = np.ascontiguousarray(matrix, np.float32).view(np.uint32).reshape(-1, 4, 4, ROWS)
    return np.ascontiguousarray(parts.transpose(0, 1, 3, 2)).reshape(-1, 64, 4)


def result(words: Words) -> NDArray[np.float32]:
    """The opposite: uint32 (waves, 64, 4) to float32 (waves, 16, 16)."""
    parts = np.ascontiguousarray(words).reshape(-1, 4, ROWS, 4).transpose(0, 1, 3, 2)
    return np.ascontiguousarray(parts).reshape(-1, ROWS, ROWS).view(np.float32)


def bf16(values: NDArray[np.float64]) -> NDArray[np.uint32]:
    """The bits of values that bfloat16 holds exactly."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    assert not (bits & 0xFFFF).any()
    return bits >> np.uint32(16)


def e5m2(values: NDArray[np.float64]) -> NDArray[np.uint32]:
    """The codes of values that FP8 E5M2 holds exactly (OCP FP8 spec 1.0): the upper byte of float16."""
    half = np.asarray(values, np.float16)
    assert np.array_equal(half.astype(np.float64), values)
    bits = half.view(np.uint16)
    assert not (bits & 0xFF).any()
    return (bits >> 8).astype(np.uint32)


_E2M1 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])  # OCP MX spec 1.0, 5.3.3


def codes_of(values: NDArray[np.float64]) -> NDArray[np.uint32]:
    """The E2M1 codes of values that it holds exactly; -0.0 is code 8."""
    magnitude = np.searchsorted(_E2M1, np.abs(values))
    assert np.array_equal(_E2M1[np.minimum(magnitude, 7)], np.abs(values))
    codes: NDArray[np.uint32] = (magnitude | np.signbit(values) * 8).astype(np.uint32)
    return codes


def join(*parts: Words) -> Words:
    """Operands side by side, as a program's inputs."""
    return np.concatenate([part.astype(np.uint32) for part in parts], axis=2)


def split(words: Words, sizes: Sequence[int]) -> list[Words]:
    """The opposite of `join`, by how many registers each has."""
    return np.split(words, np.cumsum(sizes)[:-1], axis=2)
