"""Where each byte lies: declared permutations with padding.

A `Layout` is data; the address formula, its inverse, the shuffle, the unshuffle, the padded shape and the text about
it are all derived from that data. Importing this package does not load torch; only the calls that touch tensors do.
"""

from mxassay.layouts.bound import BoundLayout
from mxassay.layouts.contract import LayoutError
from mxassay.layouts.declaration import Axis, Factor, Layout, Place
from mxassay.layouts.explain import describe, explain
from mxassay.layouts.matrix import Element, explain_element, locate
from mxassay.layouts.memory import PACKING, SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.layouts.mfma import (
    MFMA_16X16X128_A,
    MFMA_16X16X128_B,
    MFMA_16X16X128_D,
    MFMA_16X16X128_SCALE,
    MFMA_32X32X64_A,
    MFMA_32X32X64_B,
    MFMA_32X32X64_D,
    MFMA_32X32X64_SCALE,
)

LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        PACKING,
        WEIGHT_PRESHUFFLE,
        SCALE_SHUFFLE,
        MFMA_16X16X128_A,
        MFMA_16X16X128_B,
        MFMA_16X16X128_SCALE,
        MFMA_16X16X128_D,
        MFMA_32X32X64_A,
        MFMA_32X32X64_B,
        MFMA_32X32X64_SCALE,
        MFMA_32X32X64_D,
    )
}

__all__ = [
    "LAYOUTS",
    "MFMA_16X16X128_A",
    "MFMA_16X16X128_B",
    "MFMA_16X16X128_D",
    "MFMA_16X16X128_SCALE",
    "MFMA_32X32X64_A",
    "MFMA_32X32X64_B",
    "MFMA_32X32X64_D",
    "MFMA_32X32X64_SCALE",
    "PACKING",
    "SCALE_SHUFFLE",
    "WEIGHT_PRESHUFFLE",
    "Axis",
    "BoundLayout",
    "Element",
    "Factor",
    "Layout",
    "LayoutError",
    "Place",
    "describe",
    "explain",
    "explain_element",
    "locate",
]
