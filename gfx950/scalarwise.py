"""From a numpy function and a signature to a step: scalar operations, one value a wave.

Functions take arrays of shape (waves,) or numpy scalars and return the result; SCC comes from `scc`:
"" leaves it alone, "nonzero" tells whether the result is not zero, "pair" means the function returns (result, scc).
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mxassay.gfx950.instruction import EXEC, Instruction, Operand
from mxassay.gfx950.operands import TYPES, constant
from mxassay.gfx950.registry import Build, Context, Fidelity, Step, define
from mxassay.gfx950.wave import Cohort

__all__ = ["scalar_destination", "scalar_source", "scalarwise"]

Read = Callable[[Cohort], Any]


def scalar_source(operand: Operand, kind: str, inst: Instruction, context: Context) -> Read:
    """Read an SGPR, SGPR pair, constant or special as `kind`, shape (waves,) or a numpy scalar."""
    dtype = np.dtype(TYPES[kind])
    index = operand.index
    if operand.file == "s":
        if dtype.itemsize == 8:
            return lambda wv: wv.pair(index).view(dtype)
        if dtype == np.uint32:
            return lambda wv: wv.s[index]
        return lambda wv: wv.s[index].view(dtype)
    if operand.file in ("int", "float", "literal"):
        value = constant(operand, kind)
        return lambda wv: value
    if operand.value == "scc":
        return lambda wv: wv.scc.astype(dtype)
    if operand.value == "execz":
        return lambda wv: (wv.exec == 0).astype(dtype)
    if operand.value == "vccz":
        return lambda wv: (wv.pair(106) == 0).astype(dtype)
    return context.refuse(inst, f"no value for the operand {operand}")


def scalar_destination(
    operand: Operand, kind: str, inst: Instruction, context: Context
) -> Callable[[Cohort, Any], None]:
    """Write an SGPR or SGPR pair; EXEC goes through `Cohort.set_exec`."""
    dtype, index = np.dtype(TYPES[kind]), operand.index
    if operand.file != "s":
        context.refuse(inst, f"a scalar result in {operand}")
    if dtype.itemsize == 8:

        def write64(wv: Cohort, value: Any) -> None:
            wv.set_pair(index, np.broadcast_to(np.asarray(value).view(np.uint64), (wv.count,)))

        return write64
    if index >= EXEC:
        return lambda wv, value: wv.set_sgpr(index, np.asarray(value).view(np.uint32))

    def write32(wv: Cohort, value: Any) -> None:
        wv.s[index] = value if dtype == np.uint32 else np.asarray(value).view(np.uint32)

    return write32


def scalarwise(
    signature: str, table: Mapping[str, Callable[..., Any]], fidelity: Fidelity, source: str, *, scc: str = ""
) -> None:
    """Teach `{op: function}`. A signature reads "u32 u32 -> u32"; "-> scc" writes SCC alone; "scc" among the sources
    passes it."""
    words, out = (side.split() for side in signature.split("->"))
    for op, function in table.items():
        define(op, _builder(function, words, out[0], scc), fidelity, source)


def _builder(function: Callable[..., Any], words: list[str], out: str, scc: str) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        operands = iter(inst.src)
        reads: list[Read] = []
        for kind in words:
            if kind == "scc":
                reads.append(lambda wv: wv.scc)
            elif kind.startswith("dst:"):
                reads.append(scalar_source(inst.dst[0], kind.removeprefix("dst:"), inst, context))
            elif kind == "imm":
                value = np.int32(inst["simm16"] - ((inst["simm16"] & 0x8000) << 1))
                reads.append(lambda wv, value=value: value)  # type: ignore[misc]
            else:
                reads.append(scalar_source(next(operands), kind, inst, context))
        if out == "scc":

            def compare(wv: Cohort) -> None:
                wv.scc[:] = function(*(read(wv) for read in reads))

            return compare
        write = scalar_destination(inst.dst[0], out, inst, context)
        if scc == "pair":

            def paired(wv: Cohort) -> None:
                result, flag = function(*(read(wv) for read in reads))
                write(wv, result)
                wv.scc[:] = flag

            return paired
        if scc == "nonzero":

            def flagged(wv: Cohort) -> None:
                result = function(*(read(wv) for read in reads))
                write(wv, result)
                wv.scc[:] = result != 0

            return flagged
        if len(reads) == 1:
            (only,) = reads
            return lambda wv: write(wv, function(only(wv)))
        return lambda wv: write(wv, function(*(read(wv) for read in reads)))

    return build
