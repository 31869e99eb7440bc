"""Watcher of what comes behind the product: the launch, or the end of the product's own, that sums the partials."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.memory import View
from mxassay.triage.diagnosis import Checkpoint
from mxassay.triage.xray.loading import stray_moves
from mxassay.triage.xray.points import point
from mxassay.triage.xray.recorder import Record
from mxassay.triage.xray.session import Session
from mxassay.triage.xray.stores import Stores, canonical, moves_to, slots_of, stores_of, to_bfloat16
from mxassay.triage.xray.sums import shown

Words = NDArray[np.uint32]


def watch_reduction(session: Session) -> Iterator[Checkpoint]:
    """Addresses, each output once, and the bits of the sum of the partials as they lie in memory."""
    m, n, _ = session.failure.operands.shape
    if session.product is None:
        return
    for record in (session.product, *session.later):
        partials, out = _partials(record, m, n), _output(record, m, n)
        if partials is None or out is None:
            if record is session.product:
                continue
            session.notes.append(f"{record.launch.code.name} is no sum of partials that the x-ray can follow")
            continue
        yield from stray_moves(record, partials, ("load",), "reduce", f"addresses loaded from {partials.name}")
        yield from stray_moves(record, out, ("store", "atomic"), "reduce", f"addresses stored to {out.name}")
        yield from _outputs(record, partials, stores_of(record, out, m), m, n)


def _partials(record: Record, m: int, n: int) -> View | None:
    return next(
        (view for view in record.views if view.itemsize == 4 and view.shape[-2:] == (m, n) and len(view.shape) == 3),
        None,
    )


def _output(record: Record, m: int, n: int) -> View | None:
    return next(
        (
            view for view in record.views
            if view.itemsize == 2 and view.shape[-1:] == (n,) and slots_of(view, m) and moves_to(record, view)
        ),
        None,
    )  # fmt: skip


def _outputs(record: Record, partials: View, stores: Stores, m: int, n: int) -> Iterator[Checkpoint]:
    good = stores.inside & (stores.slot < stores.slots)
    times = np.zeros((m, n), np.int64)
    np.add.at(times, (stores.row[good], stores.column[good]), 1)
    wrong = times != 1
    i, j = (int(axis) for axis in np.unravel_index(int(wrong.argmax()), wrong.shape))
    bad = bool(wrong.any())
    yield point(
        "reduce", "times that each output is stored", wrong.size, int(wrong.sum()), record=record,
        inst=stores.insts[0] if stores.insts and bad else None, index=(f"row {i}", f"column {j}") if bad else (),
        expected="once" if bad else "", found=f"{times[i, j]} times" if bad else "",
    )  # fmt: skip
    number = record.views.index(partials)
    terms = record.after.get(number, record.before[number]).reshape(-1, m, n, 4).view(np.float32)[..., 0]
    with np.errstate(all="ignore"):
        total = terms[0].copy()
        for term in terms[1:]:
            total = total + term
    due = to_bfloat16(total.view(np.uint32))
    wanted = np.where(good, due[np.where(good, stores.row, 0), np.where(good, stores.column, 0)], np.uint32(0))
    off = good & (canonical(stores.bits) != wanted) & ~(((stores.bits | wanted) << np.uint32(1)) == 0)
    rounding = bool(off.any()) and _only_rounded(total.view(np.uint32), stores, off)
    what = "bfloat16 values as stored" if rounding else "sums of the partials"
    stage = "store" if rounding else "reduce"
    if not off.any():
        yield point(stage, what, int(good.sum()))
        return
    first = int(off.argmax())
    i, j = int(stores.row[first]), int(stores.column[first])
    summands = " + ".join(repr(float(term)) for term in terms[:8, i, j]) + (" + ..." if len(terms) > 8 else "")
    inst = stores.insts[int(stores.inst[first])]
    data = inst.operand("vdata") or inst.operand("data")
    yield point(
        stage, what, int(good.sum()), int(off.sum()), record=record, inst=inst, index=(f"row {i}", f"column {j}"),
        expected=f"{shown(wanted[first])} of {summands}", found=shown(stores.bits[first]), wave=int(stores.wave[first]),
        lane=int(stores.lane[first]), place=str(data),
    )  # fmt: skip


def _only_rounded(total: Words, stores: Stores, off: NDArray[np.bool_]) -> bool:
    """Whether one wrong way of rounding the right sum explains every wrong output."""
    exact = total[stores.row[off], stores.column[off]]
    upper = np.uint32(0xFFFF0000)
    ways = (
        exact & upper,
        exact + np.uint32(0x8000) & upper,
        to_bfloat16(exact + np.uint32(0x80) & np.uint32(0xFFFFFF00)),
    )
    return any(bool((way == stores.bits[off]).all()) for way in ways)
