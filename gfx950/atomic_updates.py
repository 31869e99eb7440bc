"""What atomics do to memory, as data: name -> how many operands, and the new value from the old one.

Lanes that meet at one address take turns in grid order: declared, since a card's order is open.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.access import Spot
from mxassay.gfx950.floating import bf16_to_f32, canonical, f32_to_bf16

__all__ = ["FLOAT", "INTEGER", "Atomic", "apply_atomic"]

Update = Callable[..., Any]  # old value, data... -> new value; unsigned arrays


@dataclass(frozen=True, slots=True)
class Atomic:
    """`size` bytes of memory, `operands` values of that size from registers, and the update.

    `at`: a ufunc that does the same on items of type `item`, so that numpy can take the turns; only without results.
    """

    size: int
    operands: int
    update: Update
    at: "np.ufunc | None" = None
    item: Any = None


def apply_atomic(spot: Spot, atomic: Atomic, values: list[NDArray[Any]], returns: bool) -> NDArray[Any] | None:
    """Update memory, lane after lane. The old values by lane where `returns`; lanes outside the mask get 0."""
    segment, offset, mask, aligned = spot
    shape = offset.shape
    lanes = slice(None) if mask is None else np.flatnonzero(mask)
    flat = offset.ravel()[lanes]
    data = [np.broadcast_to(value, shape).ravel()[lanes] for value in values]
    places, first, which, count = np.unique(flat, return_index=True, return_inverse=True, return_counts=True)
    memory = segment.gather(places, atomic.size, aligned)
    old = np.empty(flat.shape, memory.dtype)
    if len(places) == len(flat):
        old[first] = memory
        memory = np.asarray(atomic.update(memory, *(value[first] for value in data)))
    elif atomic.at is not None and not returns:
        atomic.at.at(memory.view(atomic.item), which, data[0].view(atomic.item))
        if np.issubdtype(atomic.item, np.floating):
            canonical(memory.view(atomic.item))
    else:
        order = np.argsort(which, kind="stable")
        starts = np.cumsum(count) - count
        for turn in range(int(count.max())):
            here = np.flatnonzero(count > turn)
            lane = order[starts[here] + turn]
            old[lane] = memory[here]
            memory[here] = atomic.update(memory[here], *(value[lane] for value in data))
    segment.scatter(places, atomic.size, aligned, memory)
    if not returns:
        return None
    before = np.zeros(flat.size if mask is None else offset.size, memory.dtype)
    before[lanes] = old
    return before.reshape(shape)


def _as(item: Any, function: Callable[[Any, Any], Any]) -> Update:
    return lambda old, data: np.asarray(function(old.view(item), data.view(item))).view(old.dtype)


def _added(item: Any) -> Update:
    return lambda old, data: canonical(old.view(item) + data.view(item)).view(old.dtype)


def _lesser(old: Any, data: Any) -> Any:
    return np.where(data < old, data, old)


def _greater(old: Any, data: Any) -> Any:
    return np.where(data > old, data, old)


def _halves(add: Callable[[Any, Any], Any]) -> Update:
    """Both 16-bit halves of a dword alike."""

    def update(old: Any, data: Any) -> Any:
        low, high = (
            add((old >> np.uint32(shift)).astype(np.uint16), (data >> np.uint32(shift)).astype(np.uint16))
            for shift in (0, 16)
        )
        return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)

    return update


def _add_bf16(old: Any, data: Any) -> Any:
    return f32_to_bf16(bf16_to_f32(old) + bf16_to_f32(data))


def _add_f16(old: Any, data: Any) -> Any:
    return np.asarray(old.view(np.float16) + data.view(np.float16)).view(np.uint16)


def _integers(size: int) -> dict[str, Atomic]:
    signed: Any = np.int32 if size == 4 else np.int64
    plain: Any = np.uint32 if size == 4 else np.uint64
    one = plain(1)
    return {
        "swap": Atomic(size, 1, lambda old, data: data),
        "cmpswap": Atomic(size, 2, lambda old, data, compare: np.where(old == compare, data, old)),
        "add": Atomic(size, 1, np.add, np.add, plain),
        "sub": Atomic(size, 1, np.subtract, np.subtract, plain),
        "rsub": Atomic(size, 1, lambda old, data: data - old),
        "smin": Atomic(size, 1, _as(signed, np.minimum), np.minimum, signed),
        "umin": Atomic(size, 1, np.minimum, np.minimum, plain),
        "smax": Atomic(size, 1, _as(signed, np.maximum), np.maximum, signed),
        "umax": Atomic(size, 1, np.maximum, np.maximum, plain),
        "and": Atomic(size, 1, np.bitwise_and, np.bitwise_and, plain),
        "or": Atomic(size, 1, np.bitwise_or, np.bitwise_or, plain),
        "xor": Atomic(size, 1, np.bitwise_xor, np.bitwise_xor, plain),
        "inc": Atomic(size, 1, lambda old, data: np.where(old >= data, plain(0), old + one)),
        "dec": Atomic(size, 1, lambda old, data: np.where((old == 0) | (old > data), data, old - one)),
        "mskor": Atomic(size, 2, lambda old, mask, data: old & ~mask | data),
    }


INTEGER: dict[int, dict[str, Atomic]] = {4: _integers(4), 8: _integers(8)}
# AMD CDNA4 ISA, DS_MIN_F32 and kin: "src < tmp ? src : tmp", so a NaN operand leaves memory alone. Rounding to nearest
# even with denormals kept is inferred: the ISA gives no mode for memory atomics.
FLOAT: dict[str, Atomic] = {
    "add_f32": Atomic(4, 1, _added(np.float32), np.add, np.float32),
    "min_f32": Atomic(4, 1, _as(np.float32, _lesser)),
    "max_f32": Atomic(4, 1, _as(np.float32, _greater)),
    "add_f64": Atomic(8, 1, _added(np.float64), np.add, np.float64),
    "min_f64": Atomic(8, 1, _as(np.float64, _lesser)),
    "max_f64": Atomic(8, 1, _as(np.float64, _greater)),
    "pk_add_bf16": Atomic(4, 1, _halves(_add_bf16)),
    "pk_add_f16": Atomic(4, 1, _halves(_add_f16)),
}
