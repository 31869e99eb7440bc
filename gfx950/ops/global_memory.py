"""Loads and stores of global memory by FLAT and GLOBAL instructions. Source: AMD CDNA4 ISA, "FLAT, GLOBAL and
SCRATCH"."""

from collections.abc import Callable

import numpy as np

from mxassay.gfx950.access import Port, fetch, from_registers, store, to_registers
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.registry import CERTAIN, Build, Context, Step, define
from mxassay.gfx950.transfer import SUFFIXES, Transfer
from mxassay.gfx950.wave import Cohort, Lanes, join

__all__ = ["global_address", "global_offset"]

_ISA = "AMD CDNA4 ISA, FLAT/GLOBAL"


def global_offset(inst: Instruction) -> int:
    """FLAT has an unsigned 12-bit offset, GLOBAL a signed 13-bit one (AMD CDNA4 ISA, "Microcode format FLAT")."""
    raw = inst["offset"]
    return raw if inst.encoding == "FLAT" else raw - ((raw >> 12 & 1) << 13)


def global_address(inst: Instruction, context: Context) -> Callable[[Cohort], Lanes]:
    """The byte address of each lane: VGPR pair + offset, or SGPR pair + VGPR + offset."""
    addr, saddr = inst.operand("addr"), inst.operand("saddr")
    assert addr is not None
    offset = np.int64(global_offset(inst))
    index = addr.index
    if saddr is None or saddr.file == "off":
        return lambda wv: join(wv.v[index], wv.v[index + 1]).view(np.int64) + offset
    base = saddr.index
    return lambda wv: wv.v[index].astype(np.int64) + (wv.pair(base).view(np.int64)[:, None] + offset)


def _load(transfer: Transfer) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        address, port = global_address(inst, context), Port(inst, context, "load", transfer.size)
        file, index = inst.dst[0].file, inst.dst[0].index

        def step(wv: Cohort) -> None:
            for spot in port.spots(wv, address(wv), None if wv.full else wv.mask):
                words = transfer.widened(fetch(spot, transfer.size))
                words = transfer.merged(words, lambda: from_registers(wv, file, index, 1)[0])
                to_registers(wv, file, index, words, spot[2])

        return step

    return build


def _store(transfer: Transfer) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        address, port = global_address(inst, context), Port(inst, context, "store", transfer.size)
        data = inst.operand("data")
        assert data is not None
        file, index = data.file, data.index

        def step(wv: Cohort) -> None:
            words = transfer.taken(from_registers(wv, file, index, transfer.words))
            for spot in port.spots(wv, address(wv), None if wv.full else wv.mask):
                store(spot, transfer.size, words)

        return step

    return build


for _prefix in ("global", "flat"):
    for _suffix, _transfer in SUFFIXES["load"].items():
        define(f"{_prefix}_load_{_suffix}", _load(_transfer), CERTAIN, _ISA, reads_dst=bool(_transfer.d16))
    for _suffix, _transfer in SUFFIXES["store"].items():
        define(f"{_prefix}_store_{_suffix}", _store(_transfer), CERTAIN, _ISA)
