"""Hardware registers and traps. Source: AMD CDNA4 ISA, "SOPK", "SOPP"; stand-ins are declared."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mxassay.gfx950.faults import KernelFault, UnsupportedInstruction
from mxassay.gfx950.instruction import VCC, Instruction
from mxassay.gfx950.moderegister import FP16_OVFL, MODE, field_of, half_saturates, set_half_saturates
from mxassay.gfx950.registry import INFERRED, UNKNOWN, Context, Step, semantics
from mxassay.gfx950.scalarwise import scalar_destination, scalar_source
from mxassay.gfx950.wave import Cohort

_STATUS, _TRAPSTS, _HW_ID, _XCC_ID = 2, 3, 4, 20
# AMD Instinct MI355X data sheet: 8 XCDs of 32 compute units; AMD CDNA4 ISA: 4 SIMDs of 8 waves.
_XCDS, _UNITS, _SIMDS, _WAVES = 8, 32, 4, 8


def _group(wv: Cohort) -> Any:
    return wv.batch.first_group + wv.group


def _status(wv: Cohort, context: Context) -> Any:
    """SCC, EXECZ and VCCZ; the other bits read 0."""
    return wv.scc | (wv.exec == 0) << 9 | (wv.pair(VCC) == 0) << 10


def _hardware_id(wv: Cohort, context: Context) -> Any:
    """WAVE_ID 3:0, SIMD_ID 5:4, CU_ID 11:8, SE_ID 15:13; workgroups go to XCDs, then to compute units, in turn."""
    place = wv.wave % wv.batch.waves_per_group
    unit = _group(wv) // _XCDS % _UNITS
    return place // _SIMDS % _WAVES | place % _SIMDS << 4 | unit % 16 << 8 | unit // 16 << 13


_READABLE: dict[int, Callable[[Cohort, Context], Any]] = {
    MODE: lambda wv, context: context.mode.bits | (0 if (on := half_saturates(wv)) is None else on[:, 0] << FP16_OVFL),
    _STATUS: _status,
    _TRAPSTS: lambda wv, context: 0,
    _HW_ID: _hardware_id,
    _XCC_ID: lambda wv, context: _group(wv) % _XCDS,
}


@semantics(
    "s_getreg_b32",
    fidelity=UNKNOWN,
    source="AMD CDNA4 ISA, S_GETREG_B32; MODE and STATUS as the ISA has them, HW_ID and XCC_ID deal workgroups in turn",
)
def _get_register(inst: Instruction, context: Context) -> Step:
    register, first, count = field_of(inst)
    if register not in _READABLE:
        context.refuse(inst, f"no value for hardware register {register}")
    value, mask = _READABLE[register], (1 << count) - 1
    write = scalar_destination(inst.dst[0], "u32", inst, context)
    return lambda wv: write(
        wv, np.broadcast_to(np.asarray(value(wv, context)) >> first & mask, wv.count).astype(np.uint32)
    )


@semantics("s_setreg_b32", "s_setreg_imm32_b32", fidelity=INFERRED, source="AMD CDNA4 ISA, S_SETREG_B32, MODE register")
def _set_register(inst: Instruction, context: Context) -> Step | None:
    register, first, count = field_of(inst)
    if register == _TRAPSTS:
        return None  # no exception is ever recorded
    if register != MODE:
        context.refuse(inst, f"a write to hardware register {register}")
    mask = ((1 << count) - 1) << first
    read = scalar_source(inst.src[0], "u32", inst, context)
    fixed = mask & 0x3FF if inst.op == "s_setreg_b32" else 0

    def step(wv: Cohort) -> None:
        bits = read(wv).astype(np.int64) << first & mask
        if fixed and ((bits ^ context.mode.bits) & fixed).any():
            raise UnsupportedInstruction(inst, context.kernel, "a MODE from a register, other than the one that holds")
        if mask >> FP16_OVFL & 1:
            set_half_saturates(wv, bits >> FP16_OVFL & 1)

    return step


@semantics(
    "s_trap",
    fidelity=INFERRED,
    source="AMD CDNA4 ISA, S_TRAP; what each number means: LLVM AMDGPUUsage, Trap Handler ABI",
)
def _trap(inst: Instruction, context: Context) -> Step | None:
    number = inst["simm16"] & 0xFF
    if number == 3:
        return None  # a debugger's; without one the wave goes on

    def step(wv: Cohort) -> None:
        raise KernelFault(
            f"a kernel must not trap, but wave {int(wv.wave[0])} does (number {number})", inst, context.kernel
        )

    return step
