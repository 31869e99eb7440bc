"""Loads from global memory straight into LDS. Source: AMD CDNA4 ISA, "Memory buffer load to LDS".

Lane i's data go to LDS byte M0 + instruction offset + i * slot, where a slot is the access, at least a dword. M0
holds 18 bits here: 160 KiB need them. Lanes that EXEC has off leave their slot alone; a lane out of its buffer's
range puts 0.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.access import Port, fetch, store
from mxassay.gfx950.instruction import M0, Instruction
from mxassay.gfx950.ops.global_memory import global_address, global_offset
from mxassay.gfx950.ops.lds import LdsPort
from mxassay.gfx950.registry import CERTAIN, Build, Context, Step, define
from mxassay.gfx950.transfer import SUFFIXES, Transfer
from mxassay.gfx950.wave import Cohort, Mask

__all__ = ["to_lds"]

_M0_BITS = np.uint32((1 << 18) - 4)
Loads = Callable[[Cohort], Iterator[tuple[list[NDArray[Any]], Mask | None]]]


def to_lds(inst: Instruction, context: Context, transfer: Transfer, loads: Loads, fixed: int) -> Step:
    """`loads` gives widened dwords and the lanes that get them, which may be repeated; `fixed` is the instruction's
    offset."""
    slot = max(4, transfer.size)
    lds = LdsPort(inst, context, "store", slot)
    places = np.arange(64, dtype=np.int64) * slot + fixed

    def step(wv: Cohort) -> None:
        to = (wv.s[M0] & _M0_BITS).astype(np.int64)[:, None] + places
        for words, lanes in loads(wv):
            for target in lds.spots(wv, to, lanes):
                store(target, slot, words)

    return step


def _global(transfer: Transfer) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        address, port = global_address(inst, context), Port(inst, context, "load", transfer.size)

        def loads(wv: Cohort) -> Iterator[tuple[list[NDArray[Any]], Mask | None]]:
            for spot in port.spots(wv, address(wv), None if wv.full else wv.mask):
                yield transfer.widened(fetch(spot, transfer.size)), spot[2]

        return to_lds(inst, context, transfer, loads, global_offset(inst))

    return build


for _suffix in ("ubyte", "sbyte", "ushort", "sshort", "dword", "dwordx3", "dwordx4"):
    define(
        f"global_load_lds_{_suffix}",
        _global(SUFFIXES["load"][_suffix]),
        CERTAIN,
        "AMD CDNA4 ISA, GLOBAL_LOAD_LDS_DWORD",
    )
