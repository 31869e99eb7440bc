"""The MODE register while a kernel runs: what S_SETREG changes.

Rounding, denormals, IEEE and DX10_CLAMP are known when steps are built: S_SETREG_IMM32_B32 changes them for the rest of
its block, and a change must be undone before the block ends. FP16_OVFL is a wave's own, kept in `Cohort.data`.

Source: AMD CDNA4 ISA, "MODE register", S_SETREG_IMM32_B32.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.registry import Context, Mode
from mxassay.gfx950.wave import Cohort, Mask

__all__ = ["FP16_OVFL", "MODE", "context_after", "field_of", "half_saturates", "limited", "set_half_saturates"]

MODE = 1  # the register's number in SIMM16
FP16_OVFL = 23
_BUILT_IN = 0x3FF  # the bits of `Mode`
_KEY = "fp16_ovfl"


def field_of(inst: Instruction) -> tuple[int, int, int]:
    """Register number, first bit and number of bits that S_GETREG and S_SETREG name in SIMM16."""
    word = inst["simm16"]
    return word & 63, word >> 6 & 31, (word >> 11 & 31) + 1


def context_after(inst: Instruction, context: Context) -> Context:
    """What holds for the instructions after this one."""
    if inst.op != "s_setreg_imm32_b32" or field_of(inst)[0] != MODE:
        return context
    _, first, count = field_of(inst)
    mask = ((1 << count) - 1) << first
    bits = context.mode.bits & ~mask | int(inst.src[-1].value) << first & mask
    mode = Mode(
        bool(bits >> 9 & 1), bool(bits >> 8 & 1), bits & 3, bits >> 2 & 3, bits >> 4 & 3, bits >> 6 & 3
    )  # fmt: skip
    return context if mode == context.mode else replace(context, mode=mode)


def set_half_saturates(wv: Cohort, bits: Any) -> None:
    """MODE.FP16_OVFL, 0 or 1 a wave."""
    wv.data[_KEY] = np.broadcast_to(np.asarray(bits, np.int64), (wv.count,)).copy()


def half_saturates(wv: Cohort) -> Mask | None:
    """Whether MODE.FP16_OVFL is on: bool (waves, 1), or None where it is off everywhere."""
    bits = wv.data.get(_KEY)
    return bits.astype(np.bool_)[:, None] if bits is not None and bits.any() else None


def limited(wv: Cohort, result: Any, operands: list[Any]) -> Any:
    """float16 results with MODE.FP16_OVFL obeyed: an overflow becomes the largest finite number; infinities that come
    from infinite operands, or from a function's pole at zero, stay."""
    on = half_saturates(wv)
    if on is None:
        return result
    true_infinity = np.isinf(operands[0]) if len(operands) > 1 else np.isinf(operands[0]) | (operands[0] == 0)
    for operand in operands[1:]:
        true_infinity = true_infinity | np.isinf(operand)
    on = on.reshape(on.shape + (1,) * (np.ndim(result) - 2))
    return np.where(on & np.isinf(result) & ~true_infinity, np.copysign(np.float16(65504), result), result)
