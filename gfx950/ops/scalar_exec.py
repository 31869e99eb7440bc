"""Scalar operations that read and write EXEC. Source: AMD CDNA4 ISA, "SOP1"."""

from typing import Any

import numpy as np

from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.ops.scalar import BITWISE
from mxassay.gfx950.registry import CERTAIN, Build, Context, Step, define
from mxassay.gfx950.scalarwise import scalar_destination, scalar_source
from mxassay.gfx950.wave import Cohort


def _save_exec(combine: Any, saves: bool) -> Build:
    """EXEC = S0 op EXEC; SCC = EXEC is not zero; D = the old EXEC if it `saves`, else the new one."""

    def build(inst: Instruction, context: Context) -> Step:
        read = scalar_source(inst.src[0], "u64", inst, context)
        write = scalar_destination(inst.dst[0], "u64", inst, context)

        def step(wv: Cohort) -> None:
            old, operand = wv.exec, read(wv)
            bits = np.broadcast_to(combine(operand, old), old.shape)
            write(wv, old if saves else bits)
            wv.set_exec(bits)
            wv.scc[:] = bits != 0

        return step

    return build


_FUNCTIONS = {**BITWISE, "andn1": lambda a, b: ~a & b, "orn1": lambda a, b: ~a | b}
for _name, _fn in _FUNCTIONS.items():
    define(f"s_{_name}_saveexec_b64", _save_exec(_fn, True), CERTAIN, "AMD CDNA4 ISA, S_AND_SAVEEXEC_B64 and its kin")
for _name in ("andn1", "andn2"):
    define(f"s_{_name}_wrexec_b64", _save_exec(_FUNCTIONS[_name], False), CERTAIN, "AMD CDNA4 ISA, S_ANDN1_WREXEC_B64")
