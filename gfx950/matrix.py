"""Exact sums of block products, for matrix instructions: operand formats as data, and the product that all of them
share.

A lane holds one block: 32 consecutive k of one row, and its scale. Block sums are exact in float32, their scaled sum
is exact in float64 or found exactly some other way; the accumulator is added with one rounding.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.accumulate import exact_sums
from mxassay.gfx950.floating import narrowed, sum_to_f32, two_sum
from mxassay.gfx950.narrow import BF6, BF8, FP4, FP6, FP8, NarrowFloat, decoded

__all__ = ["E8M0_VALUES", "FORMATS", "MatrixFormat", "block_bits", "block_products", "scaled_accumulate"]

Words = NDArray[np.uint32]
Floats = NDArray[np.float32]
Scales = NDArray[np.uint8]
BLOCK = 32


@dataclass(frozen=True, slots=True)
class MatrixFormat:
    """An operand format of the F8F6F4 instructions.

    A lane's `registers` VGPRs hold 32 values. `unpack` makes float32 (waves, 64, 32) of them, shape (registers, waves,
    64). Values are multiples of 2^`unit` below 2^`top` in magnitude: that bounds what a block sum needs. Denormals
    begin below 2^`least`. `interleaved`: a lane holds two runs of 16 k instead of one of 32.
    """

    name: str
    bits: int
    unit: int
    top: int
    least: int
    unpack: Callable[[Words], Floats]
    interleaved: bool = False

    @property
    def registers(self) -> int:
        return self.bits

    def rows(self, words: Words, rows: int) -> Floats:
        """float32 (waves, rows, K), k ascending, of the operand's registers, uint32 (registers, waves, 64)."""
        waves, lanes = words.shape[1], 64 // rows
        values = self.unpack(words)
        if self.interleaved:
            parts = values.reshape(waves, lanes, rows, 2, 16).transpose(0, 2, 3, 1, 4)
        else:
            parts = values.reshape(waves, lanes, rows, BLOCK).transpose(0, 2, 1, 3)
        return parts.reshape(waves, rows, lanes * BLOCK)


def _columns(words: Words) -> Words:
    """(registers, waves, 64) to (waves, 64, registers), so that a lane's registers are neighbours."""
    registers, waves, lanes = words.shape
    packed = np.empty((waves, lanes, registers), np.uint32)
    for index in range(registers):
        packed[..., index] = words[index]
    return packed


# OCP MX spec 1.0, 5.3.3: codes 0..7; 8..15 are their negatives.
E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


@cache
def _e2m1_quads() -> NDArray[np.complex128]:
    """Four E2M1 values (as one 16-byte item) by the 16 bits that hold them, lowest nibble first."""
    value, word = decoded(FP4), np.arange(1 << 16)
    return np.stack([value[word >> 4 * place & 15] for place in range(4)], axis=-1).view(np.complex128)[:, 0]


def _unpack_e2m1(words: Words) -> Floats:
    return _e2m1_quads().take(_columns(words).view(np.uint16)).view(np.float32)


@cache
def _pairs(form: NarrowFloat) -> NDArray[np.complex64]:
    """Two values (as one 8-byte item) by the bits that hold them, the first in the low ones."""
    value, word = decoded(form), np.arange(1 << 2 * form.bits)
    both = np.stack([value[word & (1 << form.bits) - 1], value[word >> form.bits]], axis=-1)
    return both.view(np.complex64)[:, 0]


def _unpack_bytes(form: NarrowFloat) -> Callable[[Words], Floats]:
    return lambda words: _pairs(form).take(_columns(words).view(np.uint16)).view(np.float32)


def _unpack_sixes(form: NarrowFloat) -> Callable[[Words], Floats]:
    """32 codes of 6 bits lie end to end in 6 registers, the first in the lowest bits."""

    def unpack(words: Words) -> Floats:
        triples = _columns(words).view(np.uint8).reshape(*words.shape[1:], 8, 3).astype(np.uint16)
        pairs = np.empty((*words.shape[1:], 8, 2), np.uint16)
        pairs[..., 0] = triples[..., 0] | (triples[..., 1] & np.uint16(15)) << np.uint16(8)
        pairs[..., 1] = triples[..., 1] >> np.uint16(4) | triples[..., 2] << np.uint16(4)
        return _pairs(form).take(pairs).view(np.float32).reshape(*words.shape[1:], BLOCK)

    return unpack


def _format(form: NarrowFloat, unpack: Callable[[Words], Floats]) -> MatrixFormat:
    top = int(np.frexp(decoded(form)[form.top_code])[1])
    return MatrixFormat(form.name, form.bits, form.lowest, top, 1 - form.bias, unpack, interleaved=form.bits == 8)


# By CBSZ / BLGP (AMD CDNA4 ISA, "Dense matrix F8F6F4").
FORMATS: dict[int, MatrixFormat] = {
    0: _format(FP8, _unpack_bytes(FP8)),
    1: _format(BF8, _unpack_bytes(BF8)),
    2: _format(FP6, _unpack_sixes(FP6)),
    3: _format(BF6, _unpack_sixes(BF6)),
    4: _format(FP4, _unpack_e2m1),
}


def block_bits(form_a: MatrixFormat, form_b: MatrixFormat) -> int:
    """How many bits 32 products need, each below 2^(top_a + top_b) in units of 2^(unit_a + unit_b)."""
    return form_a.top + form_b.top + 5 - form_a.unit - form_b.unit


def block_products(a: Words, b: Words, form_a: MatrixFormat, form_b: MatrixFormat, rows: int) -> Floats:
    """sum over the block's k of a[i, k] * b[j, k], float32 (waves, blocks, rows, rows), exact."""
    assert block_bits(form_a, form_b) <= 24
    assert not form_a.interleaved
    assert not form_b.interleaved
    waves, blocks = a.shape[1], 64 // rows
    left = form_a.unpack(a).reshape(waves, blocks, rows, BLOCK)
    right = form_b.unpack(b).reshape(waves, blocks, rows, BLOCK)
    products: Floats = np.matmul(left, right.transpose(0, 1, 3, 2))
    return products


# E8M0: 2^(e - 127), 255 is NaN (OCP MX spec 1.0, 5.4.1).
_SCALE = np.ldexp(1.0, np.arange(256) - 127)
_SCALE[255] = np.nan
E8M0_VALUES = _SCALE
_RELATIVE = np.ldexp(np.float32(1), np.arange(32)).astype(np.float32)


def scaled_accumulate(
    products: Floats, sa: NDArray[np.uint8], sb: NDArray[np.uint8], c: Floats, bits: int, place: Callable[[Any], Any]
) -> Floats:
    """RNE to float32 of c + sum over blocks of products * 2^(sa + sb - 254), the sum exact.

    products: (waves, blocks, rows, rows), integers of `bits` bits times a power of two; sa, sb: scale bytes (waves,
    64), block by block; c: float32 in the destination's layout, into which `place` brings (waves, rows, rows).
    """
    waves, blocks, rows, _ = products.shape
    left, right = (waves, blocks, rows, 1), (waves, blocks, 1, rows)
    sa, sb = sa.reshape(waves, blocks, rows), sb.reshape(waves, blocks, rows)
    low_a, low_b, high_a, high_b = sa.min(axis=1), sb.min(axis=1), sa.max(axis=1), sb.max(axis=1)
    spread = int((high_a - low_a).max()) + int((high_b - low_b).max())
    if spread + bits + 2 > 24:
        # A block of zeros, as behind the end of K, adds nothing whatever its scale, unless that is NaN.
        sa, low_a, high_a = _without_idle(sa, products.any(axis=3))
        sb, low_b, high_b = _without_idle(sb, products.any(axis=2))
        spread = int((high_a - low_a).max()) + int((high_b - low_b).max())
    if spread + bits + 2 <= 24 and int(high_a.max()) < 255 and int(high_b.max()) < 255:
        # Scales relative to their row's smallest: the sum is an integer of at most 24 bits times the row's own power
        # of two.
        factor = _RELATIVE.take(sa - low_a[:, None]).reshape(left) * _RELATIVE.take(sb - low_b[:, None]).reshape(right)
        factor *= products
        total = factor.sum(axis=1) * (_SCALE.take(low_a)[:, :, None] * _SCALE.take(low_b)[:, None, :])
        return sum_to_f32(place(total), c.astype(np.float64))
    terms = _SCALE.take(sa).reshape(left) * _SCALE.take(sb).reshape(right)
    terms *= products
    if spread + bits + 2 <= 53:
        return sum_to_f32(place(terms.sum(axis=1)), c.astype(np.float64))
    return _far_apart([place(terms[:, block]) for block in range(blocks)], c.astype(np.float64))


def _without_idle(scales: Scales, counts: Any) -> tuple[Scales, Scales, Scales]:
    """Scale bytes (waves, blocks, rows) with those of blocks that don't count brought to the least of their row that
    does, and each row's least and largest."""
    counts |= scales == 255
    low = np.where(counts.any(axis=1), np.where(counts, scales, 255).min(axis=1), np.uint8(127))
    scales = np.where(counts, scales, low[:, None])
    return scales, low, scales.max(axis=1)


def _far_apart(terms: list[NDArray[np.float64]], c: NDArray[np.float64]) -> Floats:
    """The same where scales lie so far apart that float64 can't always hold the sum: those few are added without
    error."""
    total, lost = terms[0], np.zeros(c.shape, np.bool_)
    for term in terms[1:]:
        total, error = two_sum(total, term)
        lost |= error != 0
    result = sum_to_f32(total, c)
    where = np.nonzero(lost & np.isfinite(total) & np.isfinite(c))
    if len(where[0]):
        high, low = exact_sums(np.stack([*(term[where] for term in terms), c[where]]))
        result[where] = narrowed(high + 0.0, low)  # a sum of exactly zero is +0
    return result
