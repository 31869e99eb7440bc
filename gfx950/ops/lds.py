"""Loads and stores of LDS. Source: AMD CDNA4 ISA, "Data share operations".

The address is the VGPR plus a byte offset; the two-address forms scale their offsets by the item (times 64 in the
"st64" ones). The sum has 32 bits: compilers put offsets onto negative bases (LLVM, GCNSubtarget::hasUsableDSOffset: on
every card since Sea Islands). An access past the workgroup's LDS stops the run: declared policy, since a card returns 0
and drops stores without a word.
"""

from collections.abc import Iterator

import numpy as np

from mxassay.gfx950.access import Port, Spot, fetch, from_registers, store, to_registers
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.registry import CERTAIN, Build, Context, Step, define
from mxassay.gfx950.transfer import Transfer
from mxassay.gfx950.wave import Cohort, Lanes, Mask

__all__ = ["LdsPort", "lds_offset"]

_ISA = "AMD CDNA4 ISA, DS"
_MOST = (1 << 32) - 1


class LdsPort(Port):
    """The way into the LDS of each wave's workgroup."""

    def __init__(self, inst: Instruction, context: Context, kind: str, size: int) -> None:
        super().__init__(inst, context, kind, size, "lds")

    def spots(self, wv: Cohort, address: Lanes, mask: Mask | None) -> Iterator[Spot]:
        """`address` int64: bytes inside the workgroup's LDS, modulo 2^32."""
        if mask is not None:
            if not mask.any():
                return
            address = address * mask
        bits = int(np.bitwise_or.reduce(address, axis=None))
        limit = wv.batch.lds_bytes - self.size
        if bits < 0 or bits > _MOST:
            address = address & _MOST
            bits = int(np.bitwise_or.reduce(address, axis=None))
        if bits > limit and int(address.max()) > limit:
            outside = address > limit
            self.fault(wv, address, outside, f"an LDS {self.kind} must stay inside {wv.batch.lds_bytes} bytes")
        self.tell(wv, address, mask)
        item = 4 if self.size == 12 else self.size
        yield wv.batch.lds, address + wv.lds_base, mask, not bits & (item - 1)


def lds_offset(inst: Instruction) -> int:
    return inst["offset0"] | inst["offset1"] << 8


def _load(transfer: Transfer) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        port, offset = LdsPort(inst, context, "load", transfer.size), np.int64(lds_offset(inst))
        addr, file, index = inst.src[0].index, inst.dst[0].file, inst.dst[0].index

        def step(wv: Cohort) -> None:
            for spot in port.spots(wv, wv.v[addr] + offset, None if wv.full else wv.mask):
                words = transfer.widened(fetch(spot, transfer.size))
                words = transfer.merged(words, lambda: from_registers(wv, file, index, 1)[0])
                to_registers(wv, file, index, words, spot[2])

        return step

    return build


def _store(transfer: Transfer) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        port, offset = LdsPort(inst, context, "store", transfer.size), np.int64(lds_offset(inst))
        data = inst.operand("data")
        assert data is not None
        addr, file, index = inst.src[0].index, data.file, data.index

        def step(wv: Cohort) -> None:
            words = transfer.taken(from_registers(wv, file, index, transfer.words))
            for spot in port.spots(wv, wv.v[addr] + offset, None if wv.full else wv.mask):
                store(spot, transfer.size, words)

        return step

    return build


def _load2(size: int, scale: int) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        port = LdsPort(inst, context, "load", size)
        offsets = [np.int64(inst[f"offset{part}"] * scale) for part in (0, 1)]
        addr, file, index = inst.src[0].index, inst.dst[0].file, inst.dst[0].index

        def step(wv: Cohort) -> None:
            mask = None if wv.full else wv.mask
            base = wv.v[addr].copy()  # the first half may overwrite the address
            words = []
            for offset in offsets:
                for spot in port.spots(wv, base + offset, mask):
                    words += fetch(spot, size)
            if words:
                to_registers(wv, file, index, words, mask)

        return step

    return build


def _store2(size: int, scale: int) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        port = LdsPort(inst, context, "store", size)
        data = [inst.operand("data"), inst.operand("data1")]
        offsets = [np.int64(inst[f"offset{part}"] * scale) for part in (0, 1)]
        addr = inst.src[0].index

        def step(wv: Cohort) -> None:
            mask = None if wv.full else wv.mask
            for operand, offset in zip(data, offsets, strict=True):
                assert operand is not None
                words = from_registers(wv, operand.file, operand.index, size // 4)
                for spot in port.spots(wv, wv.v[addr] + offset, mask):
                    store(spot, size, words)

        return step

    return build


for _name, _transfer in {
    "u8": Transfer(1), "i8": Transfer(1, True), "u16": Transfer(2), "i16": Transfer(2, True), "b32": Transfer(4),
    "b64": Transfer(8), "b96": Transfer(12), "b128": Transfer(16), "u8_d16": Transfer(1, d16="lo"),
    "u8_d16_hi": Transfer(1, d16="hi"), "i8_d16": Transfer(1, True, "lo"), "i8_d16_hi": Transfer(1, True, "hi"),
    "u16_d16": Transfer(2, d16="lo"), "u16_d16_hi": Transfer(2, d16="hi"),
}.items():  # fmt: skip
    define(f"ds_read_{_name}", _load(_transfer), CERTAIN, _ISA, reads_dst=bool(_transfer.d16))
for _name, _transfer in {
    "b8": Transfer(1), "b16": Transfer(2), "b32": Transfer(4), "b64": Transfer(8), "b96": Transfer(12),
    "b128": Transfer(16), "b8_d16_hi": Transfer(1, d16="hi"), "b16_d16_hi": Transfer(2, d16="hi"),
}.items():  # fmt: skip
    define(f"ds_write_{_name}", _store(_transfer), CERTAIN, _ISA)
for _bits, _size in (("b32", 4), ("b64", 8)):
    for _st64, _factor in (("", 1), ("st64", 64)):
        define(f"ds_read2{_st64}_{_bits}", _load2(_size, _size * _factor), CERTAIN, _ISA)
        define(f"ds_write2{_st64}_{_bits}", _store2(_size, _size * _factor), CERTAIN, _ISA)
