"""Activations that leave nothing out: every largest magnitude, and every ratio to the scale under every scale byte."""

import torch

from mxassay.reference import Dialect

BLOCK = 32
_MANTISSAS = 128


def every_amax() -> torch.Tensor:
    """bfloat16 (32640, 32): every finite magnitude as the largest of a block, at a place that wanders, beside lesser
    ones and zeros."""
    amax = torch.arange(0x7F80, dtype=torch.int32)
    block = torch.zeros(len(amax), BLOCK, dtype=torch.int32)
    place = amax % BLOCK
    for step, shift in ((5, 1), (11, 2), (17, 3)):  # three lesser elements, at other places
        block.scatter_(1, ((place + step) % BLOCK).long().unsqueeze(1), (amax >> shift << 1 >> 1).unsqueeze(1))
    block.scatter_(1, place.long().unsqueeze(1), (amax | (amax & 1) << 15).unsqueeze(1))
    return _bfloat16(block)


def every_ratio(scale_byte: int, dialect: Dialect) -> torch.Tensor:
    """bfloat16 (blocks, 32), whose scale byte in `dialect` is `scale_byte`: all elements, of both signs, from 2^-3 of
    the scale up to the largest that the scale allows. Below lies nothing that could round to another code than 0.

    The largest element of each block is one of those that demand this scale. Empty where no finite block has the byte.
    """
    magnitudes = torch.arange(0x7F80, dtype=torch.int32)
    bytes_of = dialect.scale_bytes(magnitudes << 16).int()
    largest = magnitudes[bytes_of == scale_byte]
    if not len(largest):
        return _bfloat16(torch.empty(0, BLOCK, dtype=torch.int32))
    lowest = max((scale_byte - 3) * _MANTISSAS, 0)
    elements = torch.arange(lowest, int(largest[-1]) + 1, dtype=torch.int32)
    elements = torch.cat((elements, elements | 0x8000))
    padding = -len(elements) % (BLOCK - 1)
    elements = torch.cat((elements, elements[:1].expand(padding))).reshape(-1, BLOCK - 1)
    # The rows' largest elements: the smallest demand of this byte that covers the row, wandering through the rest.
    need = (elements & 0x7FFF).amax(1)
    first = torch.searchsorted(largest, need).clamp(max=len(largest) - 1)
    choice = first + (torch.arange(len(need)) * 37) % (len(largest) - first)
    block = torch.cat((elements, largest[choice].unsqueeze(1)), dim=1)
    place = torch.arange(len(block)) % BLOCK
    return _bfloat16(torch.stack([row.roll(int(steps)) for row, steps in zip(block, place, strict=True)]))


def matrix_of(blocks: torch.Tensor, columns: int) -> torch.Tensor:
    """The blocks as a matrix of `columns` blocks a row, padded with blocks of zeros."""
    rows = -(-len(blocks) // columns)
    padded = torch.zeros(rows * columns, BLOCK, dtype=blocks.dtype)
    padded[: len(blocks)] = blocks
    return padded.reshape(rows, columns * BLOCK)


def _bfloat16(bits: torch.Tensor) -> torch.Tensor:
    return bits.to(torch.int16).view(torch.bfloat16)
