"""Questions that ask every lane for one small computation: the common form of inputs and readings."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.probe.question import Reading, Words

__all__ = ["SPECIAL_F32", "columns", "each", "every_pair", "is_nan", "is_signalling", "quieted"]

SPECIAL_F32 = np.array(
    [0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x80800000, 0x3F800000,
     0xBF800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7FC12345, 0xFFFFFFFF,
     0x7F800001, 0xFFA00000], np.uint32,
)  # fmt: skip
"""Zeros, denormals, ones, the largest numbers, infinities, quiet and signalling NaNs."""


def columns(*parts: Any) -> Callable[[], Words]:
    """Inputs whose word w of item i is `parts[w][i]`; from the start again where lanes are left."""

    def inputs() -> Words:
        arrays = [np.asarray(part) for part in parts]
        lanes = -(-max(len(array) for array in arrays) // 64) * 64
        resized = [np.resize(array.astype(np.uint32), lanes) for array in arrays]
        return np.stack(resized, axis=1).reshape(-1, 64, len(parts))

    return inputs


def every_pair(first: Sequence[int] | NDArray[Any], second: Sequence[int] | NDArray[Any]) -> Callable[[], Words]:
    """Inputs of two words: all combinations."""
    left, right = np.meshgrid(np.asarray(first, np.uint32), np.asarray(second, np.uint32), indexing="ij")
    return columns(left.ravel(), right.ravel())


def each(*functions: Callable[..., Any]) -> Reading:
    """Output word w is `functions[w]` of the input words (one array each), as uint32 or float32."""

    def outputs(words: Words) -> Words:
        arguments = [words[..., index] for index in range(words.shape[2])]
        found = [np.broadcast_to(np.asarray(function(*arguments)), words.shape[:2]) for function in functions]
        bits = [np.ascontiguousarray(part).view(np.uint32) if part.dtype == np.float32 else part for part in found]
        return np.stack([part.astype(np.uint32) for part in bits], axis=2)

    return outputs


def is_nan(bits: Any) -> Any:
    return (bits & 0x7FFFFFFF) > 0x7F800000


def is_signalling(bits: Any) -> Any:
    return is_nan(bits) & ((bits & 0x400000) == 0)


def quieted(bits: Any) -> Any:
    """A float32's bits, a signalling NaN made quiet."""
    return np.where(is_nan(bits), bits | 0x400000, bits)
