"""The buffer resource of MUBUF and scalar buffer instructions, and what it makes of an address.

Source: AMD CDNA4 ISA, "Buffer resource descriptor", "Buffer addressing", "Range checking". On gfx9 a buffer is raw, and
NUM_RECORDS counts bytes, unless the stride is not 0 and the instruction has IDXEN (LLVM D44401, "IDXEN matters for
interpretation of buffer sizes"; aiter's f4gemm kernels rely on it); a structured one is checked by its index alone.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.registry import Context
from mxassay.gfx950.scalarwise import scalar_source
from mxassay.gfx950.wave import LANES, Cohort

__all__ = ["Place", "Resource", "buffer_address"]

Columns = NDArray[np.int64]  # waves x 1, or waves x 64
_ANYTHING = np.int64(1 << 40)


class Resource:
    """The 128-bit buffer resource of each wave; each field has shape (waves, 1)."""

    __slots__ = ("add_lane", "base", "index_stride", "records", "stride", "swizzled")

    def __init__(self, wv: Cohort, index: int) -> None:
        words = wv.s[index : index + 4].astype(np.int64)[..., None]
        self.base: Columns = words[0] | (words[1] & 0xFFFF) << 32
        self.swizzled = words[1] >> 31 != 0
        self.records: Columns = words[2]
        self.add_lane = words[3] >> 23 & 1 != 0
        # ADD_TID_ENABLE makes stride bits of the data format's field.
        self.stride: Columns = (words[1] >> 16 & 0x3FFF) | np.where(self.add_lane, words[3] >> 15 & 15, 0) << 14
        self.index_stride: Columns = 8 << (words[3] >> 21 & 3)

    @property
    def plain(self) -> bool:
        return not (self.swizzled.any() or self.add_lane.any())


@dataclass(slots=True)
class Place:
    """Where each lane's access begins, and how many bytes from there on are in range (negative: none)."""

    address: NDArray[np.int64]
    room: NDArray[np.int64]


# A swizzled buffer's elements have 4 bytes on gfx9 (LLVM SIInstrInfo::getScratchRsrcWords23: no ELEMENT_SIZE there).
_ELEMENT = 4


def buffer_address(inst: Instruction, context: Context) -> Callable[[Cohort], Place]:
    rsrc, vaddr, soffset = inst.operand("srsrc"), inst.operand("vaddr"), inst.operand("soffset")
    assert rsrc is not None
    assert vaddr is not None
    assert soffset is not None
    scalar = scalar_source(soffset, "u32", inst, context)
    fixed, offen, idxen = inst["offset"], inst["offen"], inst["idxen"]
    register, index_register = rsrc.index, vaddr.index
    offset_register = vaddr.index + idxen

    def located(wv: Cohort) -> Place:
        resource = Resource(wv, register)
        shift = np.asarray(scalar(wv), np.int64).reshape(-1, 1)
        lanes = wv.v[offset_register].astype(np.int64) if offen else np.zeros((wv.count, LANES), np.int64)
        if not idxen and resource.plain:
            total = fixed + shift
            return Place(lanes + (resource.base + total), (resource.records - total) - lanes)
        lanes += fixed
        index = wv.v[index_register].astype(np.int64) if idxen else np.zeros((wv.count, LANES), np.int64)
        index += np.where(resource.add_lane, np.arange(LANES), 0)
        linear = index * resource.stride + lanes
        if resource.swizzled.any():
            linear = np.where(resource.swizzled, _swizzled(resource, index, lanes), linear)
        structured = (resource.stride != 0) & bool(idxen)
        room = np.where(
            structured, np.where(index < resource.records, _ANYTHING, -1), (resource.records - shift) - linear
        )
        return Place(linear + (resource.base + shift), room)

    return located


def _swizzled(resource: Resource, index: NDArray[np.int64], offset: NDArray[np.int64]) -> NDArray[np.int64]:
    """Elements of INDEX_STRIDE neighbours lie side by side."""
    group, member = index // resource.index_stride, index % resource.index_stride
    element, byte = offset // _ELEMENT, offset % _ELEMENT
    return (group * resource.stride + element * _ELEMENT) * resource.index_stride + member * _ELEMENT + byte
