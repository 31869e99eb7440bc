"""Scalar moves whose register number is an encoded one plus M0. Source: AMD CDNA4 ISA, S_MOVRELS_B32, S_MOVRELD_B32."""

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.faults import KernelFault
from mxassay.gfx950.instruction import M0, VCC, Instruction
from mxassay.gfx950.registry import CERTAIN, Build, Context, Step, define
from mxassay.gfx950.scalarwise import scalar_destination, scalar_source
from mxassay.gfx950.wave import Cohort

_GENERAL = VCC + 2  # SGPRs and VCC: what a number may reach


def _move(words: int, relative_source: bool) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        kind = "u32" if words == 1 else "u64"
        base = inst.src[0].index if relative_source else inst.dst[0].index
        if relative_source and inst.src[0].file != "s":
            context.refuse(inst, f"a relative register number from {inst.src[0]}")

        def numbers(wv: Cohort) -> NDArray[np.int64]:
            found: NDArray[np.int64] = base + wv.s[M0].astype(np.int64)
            if ((found < 0) | (found + words > _GENERAL)).any():
                raise KernelFault("a relative register number must name an SGPR", inst, context.kernel)
            return found

        if relative_source:
            write = scalar_destination(inst.dst[0], kind, inst, context)

            def load(wv: Cohort) -> None:
                at, waves = numbers(wv), np.arange(wv.count)
                value = wv.s[at, waves]
                if words == 2:
                    value = value.astype(np.uint64) | wv.s[at + 1, waves].astype(np.uint64) << np.uint64(32)
                write(wv, value)

            return load
        read = scalar_source(inst.src[0], kind, inst, context)

        def store(wv: Cohort) -> None:
            at, waves, value = numbers(wv), np.arange(wv.count), read(wv)
            for word in range(words):
                part = value if words == 1 else value >> np.uint64(32 * word)
                wv.s[at + word, waves] = part.astype(np.uint32)

        return store

    return build


for _words, _width in ((1, "b32"), (2, "b64")):
    define(f"s_movrels_{_width}", _move(_words, True), CERTAIN, "AMD CDNA4 ISA, S_MOVRELS_B32, S_MOVRELS_B64")
    define(f"s_movreld_{_width}", _move(_words, False), CERTAIN, "AMD CDNA4 ISA, S_MOVRELD_B32, S_MOVRELD_B64")
