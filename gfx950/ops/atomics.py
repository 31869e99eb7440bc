"""Atomics on global memory, by GLOBAL, FLAT and MUBUF instructions. Source: AMD CDNA4 ISA, "FLAT, GLOBAL and
SCRATCH", "MUBUF".

Lanes that meet at one address take turns in grid order: declared, since a card's order is open. SC0 returns the value
from before.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.access import Port, Spot, from_registers, to_registers
from mxassay.gfx950.buffer_resource import buffer_address
from mxassay.gfx950.floating import bf16_to_f32, f32_to_bf16
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.ops.buffer import in_range
from mxassay.gfx950.ops.global_memory import global_address
from mxassay.gfx950.registry import CERTAIN, INFERRED, Build, Context, Step, define
from mxassay.gfx950.wave import Cohort, Mask, join

Update = Callable[..., Any]  # old value, data (and compare value) -> new value; arrays of the item's type


def _add_packed(to_float: Callable[[Any], Any], to_bits: Callable[[Any], Any]) -> Update:
    def add(old: Any, data: Any) -> Any:
        halves = [
            to_bits(
                to_float((old >> np.uint32(shift)).astype(np.uint16))
                + to_float((data >> np.uint32(shift)).astype(np.uint16))
            )
            for shift in (0, 16)
        ]
        return halves[0].astype(np.uint32) | halves[1].astype(np.uint32) << np.uint32(16)

    return add


def _as(dtype: Any, function: Callable[[Any, Any], Any]) -> Update:
    return lambda old, data: np.asarray(function(old.view(dtype), data.view(dtype))).view(old.dtype)


_INTEGER: dict[str, Callable[[Any], Update]] = {
    "swap": lambda signed: lambda old, data: data,
    "cmpswap": lambda signed: lambda old, data, compare: np.where(old == compare, data, old),
    "add": lambda signed: np.add,
    "sub": lambda signed: np.subtract,
    "smin": lambda signed: _as(signed, np.minimum),
    "umin": lambda signed: np.minimum,
    "smax": lambda signed: _as(signed, np.maximum),
    "umax": lambda signed: np.maximum,
    "and": lambda signed: np.bitwise_and,
    "or": lambda signed: np.bitwise_or,
    "xor": lambda signed: np.bitwise_xor,
    "inc": lambda signed: lambda old, data: np.where(old >= data, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda signed: lambda old, data: np.where((old == 0) | (old > data), data, old - old.dtype.type(1)),
}
# Rounding to nearest even with denormals kept is inferred: the ISA gives no mode for memory atomics.
_FLOAT: dict[str, tuple[int, Update]] = {
    "add_f32": (4, _as(np.float32, np.add)),
    "add_f64": (8, _as(np.float64, np.add)),
    "min_f64": (8, _as(np.float64, np.fmin)),
    "max_f64": (8, _as(np.float64, np.fmax)),
    "pk_add_bf16": (4, _add_packed(bf16_to_f32, f32_to_bf16)),
    "pk_add_f16": (4, _add_packed(lambda x: x.view(np.float16), lambda x: np.asarray(x, np.float16).view(np.uint16))),
}


def _apply(spot: Spot, size: int, update: Update, values: list[NDArray[Any]]) -> NDArray[Any]:
    """Update memory lane after lane, lanes of different addresses together. Returns the old values by lane."""
    segment, offset, mask, aligned = spot
    lanes = np.flatnonzero(np.ones(offset.shape, np.bool_) if mask is None else mask)
    flat = offset.ravel()
    before = np.zeros(flat.shape, np.uint32 if size == 4 else np.uint64)
    data = [value.ravel() for value in values]
    while lanes.size:
        _, first = np.unique(flat[lanes], return_index=True)
        turn = lanes[first]
        old = segment.gather(flat[turn], size, aligned)
        segment.scatter(flat[turn], size, aligned, np.asarray(update(old, *(value[turn] for value in data))))
        before[turn] = old
        lanes = np.delete(lanes, first)
    return before.reshape(offset.shape)


def _build(size: int, update: Update, operands: int) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        port = Port(inst, context, "atomic", size)
        data = inst.operand("vdata" if inst.encoding == "MUBUF" else "data")
        assert data is not None
        target = data if inst.encoding == "MUBUF" else inst.dst[0]
        words = size // 4
        place = buffer_address(inst, context) if inst.encoding == "MUBUF" else None
        address = global_address(inst, context) if place is None else None

        def located(wv: Cohort) -> tuple[NDArray[np.int64], Mask | None]:
            on = None if wv.full else wv.mask
            if place is None:
                assert address is not None
                return address(wv), on
            found = place(wv)
            return found.address, in_range(found, size, on)

        def step(wv: Cohort) -> None:
            registers = from_registers(wv, data.file, data.index, words * operands)
            values = [
                registers[n] if words == 1 else join(registers[2 * n], registers[2 * n + 1]) for n in range(operands)
            ]
            where, mask = located(wv)
            for spot in port.spots(wv, where, mask):
                before = _apply(spot, size, update, values)
                if inst["sc0"]:
                    parts = before[..., None].view(np.uint32)
                    to_registers(wv, target.file, target.index, [parts[..., word] for word in range(words)], spot[2])

        return step

    return build


for _prefix in ("global", "flat", "buffer"):
    for _name, _make in _INTEGER.items():
        for _suffix, _size, _signed in (("", 4, np.int32), ("_x2", 8, np.int64)):
            _operands = 2 if _name == "cmpswap" else 1
            define(
                f"{_prefix}_atomic_{_name}{_suffix}", _build(_size, _make(_signed), _operands), CERTAIN,
                "AMD CDNA4 ISA, GLOBAL_ATOMIC_* and BUFFER_ATOMIC_*",
            )  # fmt: skip
    for _name, (_size, _update) in _FLOAT.items():
        define(f"{_prefix}_atomic_{_name}", _build(_size, _update, 1), INFERRED, "AMD CDNA4 ISA; rounding: inferred")
