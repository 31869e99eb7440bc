"""Watcher of the accumulators: each MFMA adds exactly, and each goes on with the sum that the last one left."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mxassay.reference.formats import E2M1
from mxassay.triage.diagnosis import Checkpoint
from mxassay.triage.xray.points import point
from mxassay.triage.xray.session import Session
from mxassay.triage.xray.stores import canonical
from mxassay.triage.xray.trace import Side, Trace, nibbles

_SIGNIFICAND = 53  # of float64


def watch_sums(session: Session) -> Iterator[Checkpoint]:
    """Both rows are of stage accumulate."""
    trace, frame = session.trace, session.frame
    if trace is None or frame is None:
        return
    live = (frame.rows[trace.chain] >= 0)[:, :, None] & (frame.columns[trace.chain] >= 0)[:, None, :]
    start = trace.previous < 0
    carried = np.where(start[:, None, None], np.uint32(0), trace.after[np.maximum(trace.previous, 0)])
    # The sign of a zero to start with changes nothing.
    wrong = live & (canonical(trace.before) != canonical(carried)) & ~(((trace.before | carried) << np.uint32(1)) == 0)
    wrong |= live & trace.torn[:, None, None]
    yield _point(trace, "sums that each MFMA starts from", live, wrong, trace.before, carried)
    total, exact = _totals(trace)
    with np.errstate(all="ignore"):
        due = total.astype(np.float32).view(np.uint32)
    sure = live & exact
    zero = ((trace.after | due) << np.uint32(1)) == 0
    wrong = sure & (canonical(trace.after) != canonical(due)) & ~zero
    yield _point(trace, "sums after each MFMA", sure, wrong, trace.after, due)


def _point(trace: Trace, what: str, live: NDArray[np.bool_], wrong: NDArray[np.bool_], found: NDArray[np.uint32],
           due: NDArray[np.uint32]) -> Checkpoint:  # fmt: skip
    if not wrong.any():
        return point("accumulate", what, int(live.sum()))
    event, row, column = (int(axis) for axis in np.unravel_index(int(wrong.argmax()), wrong.shape))
    inst = trace.insts[event]
    i, j = (column, row) if trace.swapped else (row, column)
    bands = 64 // trace.rows
    lane, register = trace.rows * (i // 4 % bands) + j, i // (4 * bands) * 4 + i % 4
    operand = inst.dst[0] if what.endswith("after each MFMA") else inst.src[2]
    place = f"{operand.file}{operand.index + register}" if operand.is_register else str(operand)
    return point(
        "accumulate", what, int(live.sum()), int(wrong.sum()), record=trace.record, inst=inst,
        index=(f"row {row} of the tile", f"column {column} of the tile", f"MFMA {_number(trace, event)} of its sum"),
        expected=shown(due[event, row, column]), found=shown(found[event, row, column]), wave=int(trace.wave[event]),
        lane=lane, place=place,
    )  # fmt: skip


def _number(trace: Trace, event: int) -> int:
    return int((trace.chain[: event + 1] == trace.chain[event]).sum())


def shown(bits: np.uint32) -> str:
    """A float32 by its bits: decimal and hexadecimal.

    >>> shown(np.uint32(0x3F800000))
    '1.0 (0x3F800000)'
    """
    return f"{float(np.uint32(bits).view(np.float32))!r} (0x{int(bits):08X})"


def _totals(trace: Trace) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Each instruction's sum in float64 from the operands and the sum that it read, and whether that is exact."""
    a, w = _values(trace.a), _values(trace.w)
    before = trace.before.view(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        total = a @ w.transpose(0, 2, 1) + before
        size = np.abs(a) @ np.abs(w).transpose(0, 2, 1) + np.abs(before)
        # All terms are multiples of this power of two.
        least = (trace.a.scales.astype(np.int64)[:, :, :, None] + trace.w.scales.astype(np.int64)[:, :, None, :]).min(
            axis=1
        )
        exponent = np.minimum(least - 254 - 2, _least_exponent(trace.before))
        exact = (size <= np.ldexp(1.0, (exponent + _SIGNIFICAND).clip(-1022, 1023))) | np.isnan(total)
    return total, exact


def _values(side: Side) -> NDArray[np.float64]:
    """float64 (instruction, row, k of the instruction); NaN under scale byte 255."""
    values = np.array(E2M1.values)[nibbles(side.codes)]
    scale = np.where(side.scales == 0xFF, np.nan, np.ldexp(1.0, side.scales.astype(np.int64) - 127))
    scaled = values * scale[..., None]
    return np.ascontiguousarray(scaled.transpose(0, 2, 1, 3)).reshape(len(scaled), scaled.shape[2], -1)


def _least_exponent(bits: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The exponent of the last bit of a float32; large for zero."""
    field = (bits >> np.uint32(23) & np.uint32(0xFF)).astype(np.int64)
    exponent = np.maximum(field, 1) - 150
    return np.where(bits << np.uint32(1) == 0, 1 << 20, exponent)
