"""Loads and stores through a buffer resource (MUBUF). Source: AMD CDNA4 ISA, "Vector memory buffer instructions".

A load out of range returns 0 and a store is dropped. Wider accesses than a dword are checked dword by dword (LLVM
AMDGPUUsage, "Relaxed buffer OOB mode").
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.access import Port, fetch, from_registers, store, to_registers
from mxassay.gfx950.buffer_resource import Place, buffer_address
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.ops.direct_lds import to_lds
from mxassay.gfx950.registry import CERTAIN, Build, Context, Step, define
from mxassay.gfx950.transfer import SUFFIXES, Transfer
from mxassay.gfx950.wave import Cohort, Mask

__all__ = ["in_range"]

_ISA = "AMD CDNA4 ISA, MUBUF"
Loaded = Iterator[tuple[list[NDArray[Any]], Mask | None]]


def in_range(place: Place, size: int, on: Mask | None) -> Mask | None:
    """The lanes of `on` whose whole access is in range."""
    if int(place.room.min()) >= size:
        return on
    inside = place.room >= size
    return inside if on is None else inside & on


def _partly(place: Place, size: int, on: Mask | None, inside: Mask | None) -> Mask | None:
    """The lanes of which some dword is in range, but not all; None where there are none."""
    if size <= 4 or inside is on or inside is None:
        return None
    some = (place.room >= 4) & ~inside
    if on is not None:
        some &= on
    return some if some.any() else None


def ranged_loads(port: Port, narrow: Port, wv: Cohort, place: Place, transfer: Transfer, on: Mask | None) -> Loaded:
    """Widened dwords and the lanes that get them: zeros out of range, then what lies in memory."""
    inside = in_range(place, transfer.size, on)
    if inside is not on and inside is not None:
        outside = ~inside if on is None else on & ~inside
        yield [np.zeros(place.address.shape, np.uint32)] * transfer.words, outside
        partly = _partly(place, transfer.size, on, inside)
        if partly is not None:
            yield _by_dwords(narrow, wv, place, transfer.words, partly), partly
    for spot in port.spots(wv, place.address, inside):
        yield transfer.widened(fetch(spot, transfer.size)), spot[2]


def _by_dwords(port: Port, wv: Cohort, place: Place, count: int, lanes: Mask) -> list[NDArray[Any]]:
    words = []
    for word in range(count):
        value = np.zeros(place.address.shape, np.uint32)
        for spot in port.spots(wv, place.address + 4 * word, lanes & (place.room >= 4 * word + 4)):
            np.copyto(value, fetch(spot, 4)[0], where=True if spot[2] is None else spot[2])
        words.append(value)
    return words


def _load(transfer: Transfer) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        address = buffer_address(inst, context)
        port, narrow = Port(inst, context, "load", transfer.size), Port(inst, context, "load", 4)

        def loads(wv: Cohort) -> Loaded:
            return ranged_loads(port, narrow, wv, address(wv), transfer, None if wv.full else wv.mask)

        if inst["lds"]:
            return to_lds(inst, context, transfer, loads, inst["offset"])
        file, index = inst.dst[0].file, inst.dst[0].index

        def step(wv: Cohort) -> None:
            for words, lanes in loads(wv):
                merged = transfer.merged(words, lambda: from_registers(wv, file, index, 1)[0])
                to_registers(wv, file, index, merged, lanes)

        return step

    return build


def _store(transfer: Transfer) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        address = buffer_address(inst, context)
        port, narrow = Port(inst, context, "store", transfer.size), Port(inst, context, "store", 4)
        data = inst.operand("vdata")
        assert data is not None
        file, index = data.file, data.index

        def step(wv: Cohort) -> None:
            place, on = address(wv), None if wv.full else wv.mask
            inside = in_range(place, transfer.size, on)
            words = transfer.taken(from_registers(wv, file, index, transfer.words))
            partly = _partly(place, transfer.size, on, inside)
            if partly is not None:
                for word, value in enumerate(words):
                    for spot in narrow.spots(wv, place.address + 4 * word, partly & (place.room >= 4 * word + 4)):
                        store(spot, 4, [value])
            for spot in port.spots(wv, place.address, inside):
                store(spot, transfer.size, words)

        return step

    return build


for _suffix, _transfer in SUFFIXES["load"].items():
    define(f"buffer_load_{_suffix}", _load(_transfer), CERTAIN, _ISA, reads_dst=bool(_transfer.d16))
for _suffix, _transfer in SUFFIXES["store"].items():
    define(f"buffer_store_{_suffix}", _store(_transfer), CERTAIN, _ISA)
