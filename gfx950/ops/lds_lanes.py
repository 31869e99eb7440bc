"""Data between lanes through the LDS crossbar: DS_PERMUTE, DS_BPERMUTE, DS_SWIZZLE; nothing is stored. And loads and
stores addressed by the lane number. Source: AMD CDNA4 ISA, "Data share operations"."""

from functools import cache
from typing import Any

import numpy as np

from mxassay.gfx950.access import fetch, from_registers, store, to_registers
from mxassay.gfx950.instruction import M0, Instruction
from mxassay.gfx950.ops.lds import LdsPort, lds_offset
from mxassay.gfx950.registry import CERTAIN, INFERRED, Context, Step, define, semantics
from mxassay.gfx950.wave import LANES, Cohort

_LANE = np.arange(LANES)


@semantics("ds_bpermute_b32", fidelity=CERTAIN, source="AMD CDNA4 ISA, DS_BPERMUTE_B32")
def _pull(inst: Instruction, context: Context) -> Step:
    """Each lane reads the lane that its address / 4 names; 0 from lanes that are off."""
    offset, addr, target = np.uint32(lds_offset(inst)), inst.src[0].index, inst.dst[0]
    data = inst.operand("data")
    assert data is not None

    def step(wv: Cohort) -> None:
        lane = ((wv.v[addr] + offset) >> np.uint32(2) & np.uint32(63)).astype(np.intp)
        (values,) = from_registers(wv, data.file, data.index, 1)
        if not wv.full:
            values = np.where(wv.mask, values, np.uint32(0))
        moved = np.take_along_axis(values, lane, axis=1)
        to_registers(wv, target.file, target.index, [moved], None if wv.full else wv.mask)

    return step


@semantics("ds_permute_b32", fidelity=CERTAIN, source="AMD CDNA4 ISA, DS_PERMUTE_B32")
def _push(inst: Instruction, context: Context) -> Step:
    """Each lane writes to the lane that its address / 4 names; the highest lane wins, lanes nobody names get 0."""
    offset, addr, target = np.uint32(lds_offset(inst)), inst.src[0].index, inst.dst[0]
    data = inst.operand("data")
    assert data is not None

    def step(wv: Cohort) -> None:
        lane = ((wv.v[addr] + offset) >> np.uint32(2) & np.uint32(63)).astype(np.intp)
        wave, source = np.nonzero(wv.mask)  # ascending lanes: the last assignment is the highest lane's
        moved = np.zeros((wv.count, LANES), np.uint32)
        moved[wave, lane[wave, source]] = from_registers(wv, data.file, data.index, 1)[0][wave, source]
        to_registers(wv, target.file, target.index, [moved], None if wv.full else wv.mask)

    return step


@cache
def swizzled_lanes(offset: int) -> Any:
    """The lane that each lane reads under DS_SWIZZLE's 16-bit offset, int64 (64)."""
    low, half = _LANE & 31, _LANE & 32
    mask, amount = offset & 31, offset >> 5 & 31
    if offset >= 0xE000:  # FFT
        reverse = np.array([int(f"{lane:05b}"[::-1], 2) for lane in range(32)])[low]
        return (reverse >> mask.bit_count()) | (low & mask) | half
    if offset >= 0xC000:  # rotate
        turned = low - amount if offset >> 10 & 1 else low + amount
        return (low & mask) | (turned & 31 & ~mask) | half
    if offset & 0x8000:  # any lane of the same four
        return _LANE & ~3 | np.array([offset >> 2 * (lane & 3) & 3 for lane in range(LANES)])
    return ((low & mask | amount) ^ offset >> 10 & 31) | half


@semantics("ds_swizzle_b32", fidelity=CERTAIN, source="AMD CDNA4 ISA, DS_SWIZZLE_B32")
def _swizzle(inst: Instruction, context: Context) -> Step:
    lanes, source, target = swizzled_lanes(lds_offset(inst)), inst.src[0], inst.dst[0]

    def step(wv: Cohort) -> None:
        (values,) = from_registers(wv, source.file, source.index, 1)
        if not wv.full:
            values = np.where(wv.mask, values, np.uint32(0))
        moved = values.take(lanes, axis=1)
        to_registers(wv, target.file, target.index, [moved], None if wv.full else wv.mask)

    return step


# The pseudocode takes M0[15:0]; 160 KiB of LDS would need 18 bits, so bits above 15 are refused by the bounds check.
_M0_BITS = np.uint32(0xFFFF)


def _by_lane(inst: Instruction, context: Context) -> Step:
    """LDS address M0[15:0] + offset + 4 * lane."""
    load = "read" in inst.op
    port, offset = LdsPort(inst, context, "load" if load else "store", 4), lds_offset(inst)
    operand = inst.dst[0] if load else inst.src[0]

    def step(wv: Cohort) -> None:
        address = (wv.s[M0] & _M0_BITS).astype(np.int64)[:, None] + (4 * _LANE + offset)
        for spot in port.spots(wv, address, None if wv.full else wv.mask):
            if load:
                to_registers(wv, operand.file, operand.index, fetch(spot, 4), spot[2])
            else:
                store(spot, 4, from_registers(wv, operand.file, operand.index, 1))

    return step


define(("ds_read_addtid_b32", "ds_write_addtid_b32"), _by_lane, INFERRED, "AMD CDNA4 ISA, DS_READ_ADDTID_B32")
define("ds_nop", lambda inst, context: None, CERTAIN, "AMD CDNA4 ISA, DS_NOP")
