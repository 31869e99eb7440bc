"""Scalar loads. Source: AMD CDNA4 ISA, "Scalar memory operations".

Scalar stores and atomics, which no compiler emits for gfx950, stay unknown.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.access import Port, fetch
from mxassay.gfx950.buffer_resource import Resource
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.registry import CERTAIN, INFERRED, UNKNOWN, Build, Context, Step, define
from mxassay.gfx950.scalarwise import scalar_source
from mxassay.gfx950.wave import Cohort

Columns = NDArray[np.int64]  # waves x 1


def _offset(inst: Instruction, context: Context) -> Callable[[Cohort], Columns]:
    """The byte offset: IMM gives a signed 21-bit number, SOFFSET_EN an SGPR beside it; with neither, the field names an
    SGPR."""
    raw = inst["offset"]
    if not inst["imm"] and not inst["soffset_en"]:
        index = raw & 0x7F
        return lambda wv: wv.s[index].astype(np.int64)[:, None]
    fixed = np.int64(raw - ((raw >> 20 & 1) << 21) if inst["imm"] else 0)
    extra = inst.operand("soffset")
    if not inst["soffset_en"] or extra is None:
        return lambda wv: np.full((wv.count, 1), fixed)
    register = scalar_source(extra, "u32", inst, context)
    return lambda wv: np.asarray(register(wv), np.int64).reshape(-1, 1) + fixed


def _load(words: int, buffer: bool) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        base = inst.operand("sbase")
        assert base is not None
        offset, port = _offset(inst, context), Port(inst, context, "load", 4, "scalar")
        destination, source = inst.dst[0].index, base.index

        def step(wv: Cohort) -> None:
            at = offset(wv)
            room = None
            if buffer:
                resource = Resource(wv, source)
                start = resource.base
                # In units of the stride where there is one (Mesa, "NUM_RECORDS" of SMEM on gfx9).
                room = resource.records * np.where(resource.stride == 0, 1, resource.stride)
            else:
                start = wv.pair(source).view(np.int64)[:, None]
            at = at & ~3 if buffer else at
            address = (start + at) & ~3  # the low two bits are ignored
            found = []
            for word in range(words):
                mask = None if room is None else at + (4 * word + 4) <= room
                value = np.zeros((wv.count, 1), np.uint32)
                for spot in port.spots(wv, address + 4 * word, None if mask is None or mask.all() else mask):
                    np.copyto(value, fetch(spot, 4)[0], where=True if spot[2] is None else spot[2])
                found.append(value[:, 0])
            for word, values in enumerate(found):
                wv.set_sgpr(destination + word, values)

        return step

    return build


def _time(inst: Instruction, context: Context) -> Step:
    """Time is not modelled: a wave's readings count up from 1."""
    index = inst.dst[0].index

    def step(wv: Cohort) -> None:
        now = wv.data.get("time", np.zeros(wv.count, np.int64)) + 1
        wv.data["time"] = now
        wv.set_pair(index, now.astype(np.uint64))

    return step


for _words, _suffix in {1: "", 2: "x2", 4: "x4", 8: "x8", 16: "x16"}.items():
    define(f"s_load_dword{_suffix}", _load(_words, buffer=False), CERTAIN, "AMD CDNA4 ISA, S_LOAD_DWORD")
    define(f"s_buffer_load_dword{_suffix}", _load(_words, buffer=True), INFERRED, "AMD CDNA4 ISA; range check: Mesa")
define(("s_memtime", "s_memrealtime"), _time, UNKNOWN, "declared policy: readings count up")
define(("s_dcache_discard", "s_dcache_discard_x2"), lambda inst, context: None, CERTAIN, "AMD CDNA4 ISA, SMEM")
