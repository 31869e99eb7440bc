"""Watcher of the product's stores: addresses, each output once, right bits."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mxassay.triage.diagnosis import Checkpoint
from mxassay.triage.xray.frame import Frame
from mxassay.triage.xray.loading import stray_moves
from mxassay.triage.xray.points import point
from mxassay.triage.xray.session import Session
from mxassay.triage.xray.stores import Origins, Stores, canonical, to_bfloat16
from mxassay.triage.xray.sums import shown
from mxassay.triage.xray.tiles import UNSTORED, chains_at
from mxassay.triage.xray.trace import Trace


def watch_stores(session: Session) -> Iterator[Checkpoint]:
    """All rows are of stage store."""
    record, stores, trace, frame = session.product, session.stores, session.trace, session.frame
    if record is None or trace is None or frame is None:
        return
    yield from _atomics(session)
    if stores is None or session.origins is None:
        return
    what = f"addresses stored to {stores.view.name}"
    yield from stray_moves(record, stores.view, ("store", "atomic"), "store", what)
    yield from _places(session, stores, session.origins, trace, frame)
    yield _values(stores, session.origins, trace)


def _atomics(session: Session) -> Iterator[Checkpoint]:
    """Atomic additions must find zeros."""
    record = session.product
    assert record is not None
    moves = [move for move in record.moves if move.kind == "atomic" and move.mask.any()]
    if not moves:
        return
    move = moves[0]
    address = int(np.broadcast_to(move.address, move.mask.shape)[move.mask][0])
    segment = record.launch.memory.find(address)
    for index, view in enumerate(record.views):
        if segment is not None and segment.base <= view.address < segment.end:
            before = record.before[index]
            wrong = before.any(axis=-1)
            first = np.unravel_index(int(wrong.argmax()), wrong.shape)
            yield point(
                "store", f"what {view.name} holds before atomics add to it", wrong.size, int(wrong.sum()),
                record=record, inst=move.inst, index=[str(axis) for axis in first] if wrong.any() else (),
                expected="zero" if wrong.any() else "",
                found=f"0x{int.from_bytes(before[first].tobytes(), 'little'):X}" if wrong.any() else "",
                place=view.name,
            )  # fmt: skip
            return


def _places(session: Session, stores: Stores, origins: Origins, trace: Trace, frame: Frame) -> Iterator[Checkpoint]:
    """Where each sum goes, then which outputs get none or several."""
    known = origins.chain >= 0
    row = np.where(known, frame.rows[origins.chain, origins.i], -1)
    column = np.where(known, frame.columns[origins.chain, origins.j], -1)
    wrong = known & stores.inside & ((row != stores.row) | (column != stores.column))
    what = "row and column to which each sum is stored"
    if wrong.any():
        first = int(wrong.argmax())
        expected, found = (
            f"row {row[first]}, column {column[first]}",
            f"row {stores.row[first]}, column {stores.column[first]}",
        )
        yield _point(stores, trace, what, known, wrong, expected, found, (expected,))
    else:
        yield _point(stores, trace, what, known, wrong)
    yield from _times(session, stores, trace)


def _times(session: Session, stores: Stores, trace: Trace) -> Iterator[Checkpoint]:
    m, n, _ = session.failure.operands.shape
    at = chains_at(session)
    good = stores.inside & (stores.slot < stores.slots)
    place = (stores.slot[good] * m + stores.row[good]) * n + stores.column[good]
    times = np.bincount(place, minlength=at.size).reshape(at.shape)
    empty = (at == UNSTORED).all(axis=(1, 2))
    several, never = times > 1, (times == 0) & ~empty[:, None, None]
    what = "times that each output is stored"
    wrong = several | never
    if empty.any() and several.any():
        wrong |= empty[:, None, None]
    if not wrong.any():
        yield point("store", what, at.size)
    else:
        slot, i, j = (int(axis) for axis in np.unravel_index(int(wrong.argmax()), wrong.shape))
        where = (f"split {slot}",) if stores.slots > 1 else ()
        yield point(
            "store", what, at.size, int(wrong.sum()), record=trace.record,
            inst=stores.insts[0] if stores.insts else None,
            index=(*where, f"row {i}", f"column {j}"), expected="once", found=f"{times[slot, i, j]} times",
            place=stores.view.name,
        )  # fmt: skip
    if empty.any() and not several.any():
        yield point(
            "reduce", "slots of the partials that some split stores", len(empty), int(empty.sum()),
            record=trace.record, index=(f"split {int(empty.argmax())}",), expected="a sum",
            found="nothing is stored there", place=stores.view.name,
        )  # fmt: skip


def _values(stores: Stores, origins: Origins, trace: Trace) -> Checkpoint:
    """Bits, against the sum that the accumulator held."""
    known = origins.chain >= 0
    final = trace.after[trace.last]
    due = np.where(known, final[origins.chain, origins.i, origins.j], np.uint32(0)).astype(np.uint32)
    narrow = stores.view.itemsize == 2
    due = canonical(to_bfloat16(due) if narrow else due)
    wrong = known & (canonical(stores.bits) != due) & ~(((stores.bits | due) << np.uint32(1)) == 0)
    what = f"{'bfloat16' if narrow else 'float32'} values as stored"
    if not wrong.any():
        return _point(stores, trace, what, known, wrong)
    first = int(wrong.argmax())
    where = (f"split {stores.slot[first]}",) if stores.slots > 1 else ()
    index = (*where, f"row {stores.row[first]}", f"column {stores.column[first]}")
    exact = shown(final[origins.chain[first], origins.i[first], origins.j[first]])
    expected = f"{shown(due[first])} of the sum {exact}" if narrow else exact
    return _point(stores, trace, what, known, wrong, expected, shown(stores.bits[first]), index)


def _point(
    stores: Stores, trace: Trace, what: str, known: NDArray[np.bool_], wrong: NDArray[np.bool_], expected: str = "",
    found: str = "", index: tuple[str, ...] = (),
) -> Checkpoint:  # fmt: skip
    if not wrong.any():
        return point("store", what, int(known.sum()))
    first = int(wrong.argmax())
    inst = stores.insts[int(stores.inst[first])]
    data = inst.operand("vdata") or inst.operand("data")
    offset = int(stores.address[first]) - stores.view.address
    return point(
        "store", what, int(known.sum()), int(wrong.sum()), record=trace.record, inst=inst, index=index,
        expected=expected, found=found, wave=int(stores.wave[first]), lane=int(stores.lane[first]),
        place=f"{data}, to {stores.view.name} {offset:+#x}",
    )  # fmt: skip
