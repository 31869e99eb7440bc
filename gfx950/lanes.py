"""Data that cross lanes or bytes on their way into an operand: DPP and SDWA.

Source: AMD CDNA4 ISA, "Data parallel processing (DPP)" and "Sub-dword addressing (SDWA)".
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.registry import Context
from mxassay.gfx950.wave import Cohort, Lanes, Mask

__all__ = ["dpp_lanes", "dpp_source", "dpp_writes", "sdwa_result", "sdwa_source"]

_LANE = np.arange(64)
_ROW = _LANE & ~15


@cache
def dpp_lanes(control: int) -> NDArray[np.int64] | None:
    """The lane that each lane reads under DPP_CTRL, -1 where there is none; None for a control word nobody defines."""
    lane, place = _LANE, _LANE & 15
    if control <= 0xFF:  # quad_perm
        return (lane & ~3) | np.array([control >> 2 * (i & 3) & 3 for i in range(64)], np.int64)
    shift = control & 15
    kind = control >> 4
    if kind == 0x10 and shift:  # row_shl
        return np.where(place + shift <= 15, lane + shift, -1)
    if kind == 0x11 and shift:  # row_shr
        return np.where(place - shift >= 0, lane - shift, -1)
    if kind == 0x12 and shift:  # row_ror
        return _ROW | ((place - shift) & 15)
    if kind == 0x15:  # row_newbcast
        return _ROW | shift
    fixed: dict[int, NDArray[np.int64]] = {
        0x130: np.where(lane + 1 <= 63, lane + 1, -1),  # wave_shl:1
        0x134: (lane + 1) & 63,  # wave_rol:1
        0x138: lane - 1,  # wave_shr:1
        0x13C: (lane - 1) & 63,  # wave_ror:1
        0x140: _ROW | (15 - place),  # row_mirror
        0x141: (lane & ~7) | (7 - (lane & 7)),  # row_half_mirror
        0x142: np.where(lane >= 16, _ROW - 1, -1),  # row_bcast:15
        0x143: np.where(lane >= 32, 31, -1),  # row_bcast:31
    }
    return fixed.get(control)


def _fetched(inst: Instruction, wv: Cohort) -> Mask:
    """Which lanes have a lane to read from: it exists and EXEC has it on."""
    lanes = dpp_lanes(inst["dpp_ctrl"])
    assert lanes is not None
    exists = lanes >= 0
    if wv.full:
        return np.broadcast_to(exists, wv.mask.shape)
    return exists & wv.mask[:, lanes]


def dpp_source(word: Callable[[Cohort], Lanes], inst: Instruction, context: Context) -> Callable[[Cohort], Lanes]:
    """The operand as each lane's neighbour has it; 0 where there is no neighbour (which BOUND_CTRL lets be written)."""
    lanes = dpp_lanes(inst["dpp_ctrl"])
    if lanes is None:
        context.refuse(inst, f"no meaning for DPP_CTRL {inst['dpp_ctrl']:#x}")
    everywhere = bool((lanes >= 0).all())

    def read(wv: Cohort) -> Lanes:
        moved = word(wv).take(lanes, axis=1, mode="wrap")
        if everywhere and wv.full:
            return moved
        return np.where(_fetched(inst, wv), moved, np.uint32(0))

    return read


def dpp_writes(inst: Instruction) -> Callable[[Cohort], Mask] | None:
    """Which lanes a DPP instruction writes: rows and banks by their masks, and without BOUND_CTRL only lanes that
    fetched."""
    rows = np.array([inst["row_mask"] >> (lane >> 4) & 1 for lane in range(64)], bool)
    banks = np.array([inst["bank_mask"] >> (lane >> 2 & 3) & 1 for lane in range(64)], bool)
    on = rows & banks
    lanes = dpp_lanes(inst["dpp_ctrl"])
    if inst["bound_ctrl"] or lanes is None:
        return None if on.all() else lambda wv: np.broadcast_to(on, wv.mask.shape)
    return lambda wv: on & _fetched(inst, wv)


# SDWA selects: 0..3 bytes, 4 and 5 words, 6 the whole dword.
_PART = {0: (0, 8), 1: (8, 8), 2: (16, 8), 3: (24, 8), 4: (0, 16), 5: (16, 16)}


def sdwa_source(word: Callable[[Cohort], Lanes], select: int, sign_extend: int) -> Callable[[Cohort], Lanes]:
    if select not in _PART:
        return word
    low, width = _PART[select]
    up, down = np.uint32(32 - low - width), np.uint32(32 - width)
    if sign_extend:
        return lambda wv: ((word(wv) << up).view(np.int32) >> down.view(np.int32)).view(np.uint32)
    return lambda wv: word(wv) << up >> down


def sdwa_result(old: Lanes, value: Lanes, select: int, unused: int) -> Lanes:
    """`value` put into its part of the register. DST_UNUSED: 0 zeros the rest, 1 sign-extends, 2 keeps the old bits."""
    if select not in _PART:
        return value
    low, width = _PART[select]
    part = np.uint32(((1 << width) - 1) << low)
    placed = value << np.uint32(low) & part
    if unused == 2:
        return old & ~part | placed
    if unused == 1:
        up = np.int32(32 - low - width)
        return (placed.view(np.int32) << up >> up).view(np.uint32)
    return placed
