"""Loads and stores of a lane's private memory by SCRATCH instructions. Source: AMD CDNA4 ISA, "FLAT, GLOBAL and
SCRATCH".

The address is an offset into the lane's own scratch: SGPR + VGPR (where SVE enables it) + a signed 13-bit offset. How
a card spreads lanes over memory does not show. An access past the kernel's scratch size stops the run: declared
policy.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.access import Port, Spot, fetch, from_registers, store, to_registers
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.registry import CERTAIN, Build, Context, Step, define
from mxassay.gfx950.transfer import SUFFIXES, Transfer
from mxassay.gfx950.wave import LANES, Cohort, Lanes, Mask

__all__ = ["ScratchPort"]

_ISA = "AMD CDNA4 ISA, SCRATCH"


class ScratchPort(Port):
    """The way into each lane's own scratch."""

    def __init__(self, inst: Instruction, context: Context, kind: str, size: int) -> None:
        super().__init__(inst, context, kind, size, "scratch")

    def spots(self, wv: Cohort, address: Lanes, mask: Mask | None) -> Iterator[Spot]:
        """`address` int64 (waves, 64): bytes inside the lane's scratch."""
        if mask is not None:
            if not mask.any():
                return
            address = address * mask
        outside = (address < 0) | (address > wv.batch.scratch_bytes - self.size)
        if outside.any():
            self.fault(
                wv, address, outside, f"a scratch {self.kind} must stay inside {wv.batch.scratch_bytes} bytes a lane"
            )
        self.tell(wv, address, mask)
        lanes = wv.slot[:, None] * LANES + np.arange(LANES)
        aligned = not (address & (min(self.size & -self.size, 16) - 1)).any()
        yield wv.batch.scratch, address + lanes * wv.batch.scratch_stride, mask, aligned


def _address(inst: Instruction) -> Callable[[Cohort], NDArray[np.int64]]:
    addr, saddr = inst.operand("addr"), inst.operand("saddr")
    assert addr is not None
    raw, index = inst["offset"], addr.index
    fixed = np.int64(raw - ((raw >> 12 & 1) << 13))
    base = saddr.index if saddr is not None and saddr.file == "s" else None

    def address(wv: Cohort) -> NDArray[np.int64]:
        total = np.full((wv.count, LANES), fixed)
        if inst["sve"]:
            total += wv.vi[index]
        if base is not None:
            total += wv.s[base].view(np.int32)[:, None]
        return total

    return address


def _load(transfer: Transfer) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        address, port = _address(inst), ScratchPort(inst, context, "load", transfer.size)
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
        address, port = _address(inst), ScratchPort(inst, context, "store", transfer.size)
        data = inst.operand("data")
        assert data is not None
        file, index = data.file, data.index

        def step(wv: Cohort) -> None:
            words = transfer.taken(from_registers(wv, file, index, transfer.words))
            for spot in port.spots(wv, address(wv), None if wv.full else wv.mask):
                store(spot, transfer.size, words)

        return step

    return build


for _suffix, _transfer in SUFFIXES["load"].items():
    define(f"scratch_load_{_suffix}", _load(_transfer), CERTAIN, _ISA, reads_dst=bool(_transfer.d16))
for _suffix, _transfer in SUFFIXES["store"].items():
    define(f"scratch_store_{_suffix}", _store(_transfer), CERTAIN, _ISA)
