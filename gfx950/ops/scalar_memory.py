"""Scalar loads. Source: AMD CDNA4 ISA, "Scalar memory operations"."""

import numpy as np

from mxassay.gfx950.access import Port, fetch
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.registry import CERTAIN, Build, Context, Step, define
from mxassay.gfx950.scalarwise import scalar_source
from mxassay.gfx950.wave import Cohort


def _load(words: int) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        base, extra = inst.operand("sbase"), inst.operand("soffset")
        assert base is not None
        raw = inst["offset"]
        # IMM: a signed 21-bit byte offset; without it the field names an SGPR, as on older parts.
        fixed = raw - ((raw >> 20 & 1) << 21)
        if not inst["imm"] and not inst["soffset_en"]:
            context.refuse(inst, "an offset that is neither immediate nor enabled")
        soffset = scalar_source(extra, "u32", inst, context) if inst["soffset_en"] and extra is not None else None
        port = Port(inst, context, "load", 4, "scalar")
        destination, source = inst.dst[0].index, base.index

        def step(wv: Cohort) -> None:
            address = wv.pair(source).view(np.int64)[:, None] + (fixed if inst["imm"] else 0)
            if soffset is not None:
                address = address + np.asarray(soffset(wv), np.int64).reshape(-1, 1)
            address &= ~3  # the low two bits are ignored
            for word in range(words):
                for spot in port.spots(wv, address + 4 * word, None):
                    (value,) = fetch(spot, 4)
                    if spot[2] is None:
                        wv.set_sgpr(destination + word, value[:, 0])
                    else:
                        wv.set_sgpr(
                            destination + word, np.where(spot[2], value, wv.s[destination + word][:, None])[:, 0]
                        )

        return step

    return build


for _words, _suffix in {1: "", 2: "x2", 4: "x4", 8: "x8", 16: "x16"}.items():
    define(f"s_load_dword{_suffix}", _load(_words), CERTAIN, "AMD CDNA4 ISA, S_LOAD_DWORD")
