"""Loads and stores through a buffer resource (MUBUF). Source: AMD CDNA4 ISA, "Vector memory buffer instructions".

Range checks: raw when the stride is 0 (byte offset against NUM_RECORDS), structured when it is not (index against
it). A load out of range returns 0 and a store is dropped, dword by dword.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.access import Port, fetch, from_registers, store, to_registers
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.ops.direct_lds import to_lds
from mxassay.gfx950.registry import CERTAIN, Build, Context, Step, define
from mxassay.gfx950.scalarwise import scalar_source
from mxassay.gfx950.transfer import SUFFIXES, Transfer
from mxassay.gfx950.wave import Cohort, Mask

__all__ = ["Resource", "buffer_address", "in_range"]

_ISA = "AMD CDNA4 ISA, MUBUF"
Columns = NDArray[np.int64]
Located = tuple[NDArray[np.int64], NDArray[np.int64] | None]


class Resource:
    """The 128-bit buffer resource of each wave, shape (waves, 1) each (AMD CDNA4 ISA, "Buffer resource descriptor")."""

    __slots__ = ("base", "records", "stride")

    def __init__(self, wv: Cohort, index: int) -> None:
        words = wv.s[index : index + 4].astype(np.int64)[..., None]
        self.base: Columns = words[0] | (words[1] & 0xFFFF) << 32
        self.stride: Columns = words[1] >> 16 & 0x3FFF
        self.records: Columns = words[2]


def buffer_address(inst: Instruction, context: Context) -> Callable[[Cohort], Located]:
    """Each lane's address, and how many bytes from there on are in range (None: no lane is near the end)."""
    rsrc, vaddr, soffset = inst.operand("srsrc"), inst.operand("vaddr"), inst.operand("soffset")
    assert rsrc is not None
    assert vaddr is not None
    assert soffset is not None
    scalar = scalar_source(soffset, "u32", inst, context)
    fixed, offen, idxen = inst["offset"], inst["offen"], inst["idxen"]
    register = rsrc.index
    offset_index = vaddr.index + idxen

    def located(wv: Cohort) -> Located:
        resource = Resource(wv, register)
        if (wv.s[register + 1] >> np.uint32(31)).any() or (wv.s[register + 3] >> np.uint32(23) & np.uint32(1)).any():
            context.refuse(inst, "a swizzled buffer, or one that adds the lane number")
        shift = np.asarray(scalar(wv), np.int64).reshape(-1, 1)
        lanes = wv.v[offset_index].astype(np.int64) if offen else np.zeros((wv.count, 64), np.int64)
        if idxen:
            index = wv.v[vaddr.index].astype(np.int64)
            lanes += index * resource.stride
        total = fixed + shift
        if not idxen or not resource.stride.any():
            room = resource.records - total - lanes
        else:
            room = np.where(index < resource.records, np.int64(1 << 40), np.int64(0)) + np.zeros_like(lanes)
        return lanes + (resource.base + total), room

    return located


def in_range(room: NDArray[np.int64] | None, size: int, mask: Mask | None) -> tuple[Mask | None, bool]:
    """The lanes whose whole access is in range, and whether some other lane is partly in range."""
    if room is None or int(room.min()) >= size:
        return mask, False
    inside = room >= size
    partly = size > 4 and bool(((room >= 4) & ~inside).any())
    return (inside if mask is None else inside & mask), partly


def _load(transfer: Transfer) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        address, port = buffer_address(inst, context), Port(inst, context, "load", transfer.size)
        if inst["lds"]:

            def addressed(wv: Cohort) -> tuple[NDArray[np.int64], Mask | None]:
                where, room = address(wv)
                inside, partly = in_range(room, transfer.size, None if wv.full else wv.mask)
                if partly:
                    context.refuse(inst, "a load that is partly out of range")
                return where, inside

            return to_lds(inst, context, transfer, addressed, inst["offset"])
        file, index = inst.dst[0].file, inst.dst[0].index

        def step(wv: Cohort) -> None:
            on = None if wv.full else wv.mask
            where, room = address(wv)
            inside, partly = in_range(room, transfer.size, on)
            if partly:
                context.refuse(inst, "a load that is partly out of range")
            if inside is not None and inside is not on:
                outside = ~inside if on is None else on & ~inside
                zero = [np.zeros((wv.count, 64), np.uint32)] * transfer.words
                to_registers(
                    wv, file, index, transfer.merged(zero, lambda: from_registers(wv, file, index, 1)[0]), outside
                )
            for spot in port.spots(wv, where, inside):
                words = transfer.widened(fetch(spot, transfer.size))
                words = transfer.merged(words, lambda: from_registers(wv, file, index, 1)[0])
                to_registers(wv, file, index, words, spot[2])

        return step

    return build


def _store(transfer: Transfer) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        address, port = buffer_address(inst, context), Port(inst, context, "store", transfer.size)
        data = inst.operand("vdata")
        assert data is not None
        file, index = data.file, data.index

        def step(wv: Cohort) -> None:
            where, room = address(wv)
            inside, partly = in_range(room, transfer.size, None if wv.full else wv.mask)
            if partly:
                context.refuse(inst, "a store that is partly out of range")
            words = transfer.taken(from_registers(wv, file, index, transfer.words))
            for spot in port.spots(wv, where, inside):
                store(spot, transfer.size, words)

        return step

    return build


for _suffix, _transfer in SUFFIXES["load"].items():
    define(f"buffer_load_{_suffix}", _load(_transfer), CERTAIN, _ISA, reads_dst=bool(_transfer.d16))
for _suffix, _transfer in SUFFIXES["store"].items():
    define(f"buffer_store_{_suffix}", _store(_transfer), CERTAIN, _ISA)
