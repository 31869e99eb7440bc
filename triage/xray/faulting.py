"""Watcher of memory faults: an access outside every buffer ends the launch, and with it what can be looked at."""

from collections.abc import Iterator

from mxassay.gfx950.faults import MemoryFault
from mxassay.gfx950.memory import View
from mxassay.triage.diagnosis import Checkpoint
from mxassay.triage.xray.points import point
from mxassay.triage.xray.roles import STAGES, WORDS, roles_of
from mxassay.triage.xray.session import Session


def watch_faults(session: Session) -> Iterator[Checkpoint]:
    """The stage is that of the buffer that lies closest to the address."""
    for record in session.records:
        error = record.error
        views = [view for view in record.views if all(view.shape)]
        if not isinstance(error, MemoryFault) or error.instruction is None or not views:
            continue
        address = error.address
        view = min(views, key=lambda view: _distance(view, address))
        loads = "load" in error.instruction.op
        role = next((role for role in roles_of(record, session.failure.operands) if role.view == view), None)
        reduces = record is not session.records[0] and session.product is not record and role is None
        stage = STAGES[role.what] if role and loads else "reduce" if reduces else "launch" if loads else "store"
        name = WORDS[role.what] if role else view.name
        offset = address - view.address
        yield point(
            stage, f"addresses {'loaded from' if loads else 'stored to'} {name}", 1, 1, record=record,
            inst=error.instruction, index=(f"byte {offset}",), expected=f"an element of {view.name} {view.shape}",
            found=f"{error.size} bytes outside every buffer", wave=error.wave, lane=error.lane,
            place=f"{view.name} {offset:+#x}",
        )  # fmt: skip


def _distance(view: View, address: int) -> int:
    last = view.address + sum((size - 1) * step for size, step in zip(view.shape, view.strides, strict=True))
    return max(view.address - address, address - last - view.itemsize + 1, 0)
