"""Branches, barriers, waits: what ends a block, and what does nothing here because memory is in order.

Source: AMD CDNA4 ISA, "SOPP".
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from mxassay.gfx950.instruction import VCC, Instruction
from mxassay.gfx950.registry import (
    BARRIER,
    CERTAIN,
    EXIT,
    INFERRED,
    Build,
    Context,
    End,
    Outcome,
    Step,
    define,
    semantics,
)
from mxassay.gfx950.scalarwise import scalar_destination, scalar_source
from mxassay.gfx950.wave import Cohort

_ISA = "AMD CDNA4 ISA, SOPP"


def _nothing(inst: Instruction, context: Context) -> Step | None:
    return None


# Every memory operation completes at once, and stalls and priorities don't show: declared.
define(
    ("s_nop", "s_waitcnt", "s_sleep", "s_setprio", "s_icache_inv", "s_dcache_inv", "s_dcache_wb",
     "s_ttracedata", "s_incperflevel", "s_decperflevel", "v_nop", "buffer_wbl2", "buffer_inv",
     "s_dcache_inv_vol", "s_dcache_wb_vol", "v_clrexcp", "s_sendmsg", "s_wakeup"),
    _nothing, INFERRED, "AMD CDNA4 ISA; no effect on memory that is in order",
)  # fmt: skip


@semantics("s_endpgm", fidelity=CERTAIN, source=_ISA, ends=True)
def _end_program(inst: Instruction, context: Context) -> End:
    return lambda wv: EXIT


@semantics("s_barrier", fidelity=CERTAIN, source=_ISA, ends=True)
def _barrier(inst: Instruction, context: Context) -> End:
    return lambda wv: BARRIER


@semantics("s_branch", fidelity=CERTAIN, source=_ISA, ends=True)
def _branch(inst: Instruction, context: Context) -> End:
    target = inst.target
    return lambda wv: target


_CONDITIONS: dict[str, Callable[[Cohort], Any]] = {
    "scc0": lambda wv: ~wv.scc,
    "scc1": lambda wv: wv.scc,
    "vccz": lambda wv: (wv.s[VCC] | wv.s[VCC + 1]) == 0,
    "vccnz": lambda wv: (wv.s[VCC] | wv.s[VCC + 1]) != 0,
    "execz": lambda wv: wv.exec == 0,
    "execnz": lambda wv: wv.exec != 0,
}


def _conditional(condition: Callable[[Cohort], Any]) -> Build:
    def build(inst: Instruction, context: Context) -> End:
        target, following = inst.target, inst.next_pc

        def end(wv: Cohort) -> Outcome:
            taken = condition(wv)
            if taken[0]:
                return target if taken.all() else np.where(taken, target, following)
            return np.where(taken, target, following) if taken.any() else following

        return end

    return build


for _name, _condition in _CONDITIONS.items():
    define(f"s_cbranch_{_name}", _conditional(_condition), CERTAIN, _ISA, ends=True)


@semantics("s_getpc_b64", fidelity=CERTAIN, source="AMD CDNA4 ISA, S_GETPC_B64")
def _get_pc(inst: Instruction, context: Context) -> Step:
    write = scalar_destination(inst.dst[0], "u64", inst, context)
    address = np.uint64(inst.next_pc + context.code_base)
    return lambda wv: write(wv, address)


@semantics("s_setpc_b64", fidelity=CERTAIN, source="AMD CDNA4 ISA, S_SETPC_B64", ends=True)
def _set_pc(inst: Instruction, context: Context) -> End:
    read = scalar_source(inst.src[0], "i64", inst, context)
    return lambda wv: np.broadcast_to(read(wv) - context.code_base, (wv.count,))


@semantics("s_swappc_b64", fidelity=CERTAIN, source="AMD CDNA4 ISA, S_SWAPPC_B64", ends=True)
def _swap_pc(inst: Instruction, context: Context) -> End:
    read = scalar_source(inst.src[0], "i64", inst, context)
    write = scalar_destination(inst.dst[0], "u64", inst, context)

    def end(wv: Cohort) -> Outcome:
        target = np.broadcast_to(read(wv) - context.code_base, (wv.count,)).copy()
        write(wv, np.uint64(inst.next_pc + context.code_base))
        return target

    return end


@semantics("s_call_b64", fidelity=CERTAIN, source="AMD CDNA4 ISA, S_CALL_B64", ends=True)
def _call(inst: Instruction, context: Context) -> End:
    write = scalar_destination(inst.dst[0], "u64", inst, context)
    target, back = inst.target, np.uint64(inst.next_pc + context.code_base)

    def end(wv: Cohort) -> Outcome:
        write(wv, back)
        return target

    return end


def _never_taken(inst: Instruction, context: Context) -> End:
    following = inst.next_pc
    return lambda wv: following


define(
    ("s_cbranch_cdbgsys", "s_cbranch_cdbguser", "s_cbranch_cdbgsys_or_user", "s_cbranch_cdbgsys_and_user"),
    _never_taken, INFERRED, "AMD CDNA4 ISA, S_CBRANCH_CDBGSYS; no debugger sets its conditions", ends=True,
)  # fmt: skip


def _halts(inst: Instruction, context: Context) -> Step | None:
    if inst["simm16"] & 1:
        context.refuse(inst, "a wave that halts until the host resumes it")
    return None


define(("s_sethalt", "s_setkill"), _halts, INFERRED, "AMD CDNA4 ISA, S_SETHALT, S_SETKILL")
define("s_endpgm_saved", _end_program, INFERRED, "AMD CDNA4 ISA, S_ENDPGM_SAVED: an end too", ends=True)
