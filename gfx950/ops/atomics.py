"""Atomics on global memory, by GLOBAL, FLAT and MUBUF instructions. Source: AMD CDNA4 ISA, "FLAT, GLOBAL and
SCRATCH", "MUBUF". SC0 returns the value from before. A buffer atomic out of range does nothing and returns 0."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.access import Port, from_registers, to_registers
from mxassay.gfx950.atomic_updates import FLOAT, INTEGER, Atomic, apply_atomic
from mxassay.gfx950.buffer_resource import buffer_address
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.ops.buffer import in_range
from mxassay.gfx950.ops.global_memory import global_address
from mxassay.gfx950.registry import CERTAIN, INFERRED, Build, Context, Step, define
from mxassay.gfx950.wave import Cohort, Mask, join

__all__ = ["operands_of", "put_old"]


def operands_of(wv: Cohort, file: str, index: int, atomic: Atomic) -> list[NDArray[Any]]:
    """The operands from consecutive registers."""
    words = atomic.size // 4
    registers = from_registers(wv, file, index, words * atomic.operands)
    if words == 1:
        return registers
    return [join(registers[2 * n], registers[2 * n + 1]) for n in range(atomic.operands)]


def put_old(wv: Cohort, file: str, index: int, before: NDArray[Any], lanes: Mask | None) -> None:
    parts = np.ascontiguousarray(before)[..., None].view(np.uint32)
    to_registers(wv, file, index, [parts[..., word] for word in range(parts.shape[-1])], lanes)


def _build(atomic: Atomic) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        port = Port(inst, context, "atomic", atomic.size)
        buffer = inst.encoding == "MUBUF"
        data = inst.operand("vdata" if buffer else "data")
        assert data is not None
        target = data if buffer else inst.dst[0]
        place = buffer_address(inst, context) if buffer else None
        address = None if buffer else global_address(inst, context)
        returns = bool(inst["sc0"])

        def step(wv: Cohort) -> None:
            on = None if wv.full else wv.mask
            values = operands_of(wv, data.file, data.index, atomic)
            if place is not None:
                found = place(wv)
                where, mask = found.address, in_range(found, atomic.size, on)
                if returns and mask is not on and mask is not None:
                    outside = ~mask if on is None else on & ~mask
                    none = np.zeros(where.shape, np.uint32 if atomic.size == 4 else np.uint64)
                    put_old(wv, target.file, target.index, none, outside)
            else:
                assert address is not None
                where, mask = address(wv), on
            for spot in port.spots(wv, where, mask):
                before = apply_atomic(spot, atomic, values, returns)
                if before is not None:
                    put_old(wv, target.file, target.index, before, spot[2])

        return step

    return build


_FLOATS = ("add_f32", "add_f64", "min_f64", "max_f64", "pk_add_bf16", "pk_add_f16")
_INTEGERS = ("swap", "cmpswap", "add", "sub", "smin", "umin", "smax", "umax", "and", "or", "xor", "inc", "dec")
for _prefix in ("global", "flat", "buffer"):
    for _name in _INTEGERS:
        for _size, _suffix in ((4, ""), (8, "_x2")):
            define(
                f"{_prefix}_atomic_{_name}{_suffix}", _build(INTEGER[_size][_name]), CERTAIN,
                "AMD CDNA4 ISA, GLOBAL_ATOMIC_* and BUFFER_ATOMIC_*",
            )  # fmt: skip
    for _name in _FLOATS:
        define(f"{_prefix}_atomic_{_name}", _build(FLOAT[_name]), INFERRED, "AMD CDNA4 ISA; rounding: inferred")
