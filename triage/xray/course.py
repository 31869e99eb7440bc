"""What goes wrong with the loop over K as a whole, rather than with one operand."""

import numpy as np
from numpy.typing import NDArray

from mxassay.triage.xray.frame import DEAD, Frame
from mxassay.triage.xray.probes import BLOCK, MASK, OUTSIDE
from mxassay.triage.xray.roles import Role
from mxassay.triage.xray.session import Session
from mxassay.triage.xray.trace import Index, Trace


def over_read(trace: Trace, frame: Frame) -> NDArray[np.bool_]:
    """(instruction, band): places where nothing must count and both operands hold something."""
    rows, columns = frame.rows[trace.chain][:, None, :], frame.columns[trace.chain][:, None, :]
    a = ((trace.a.block != MASK) & (rows >= 0)).any(axis=2)
    w = ((trace.w.block != MASK) & (columns >= 0)).any(axis=2)
    both: NDArray[np.bool_] = (frame.block == DEAD) & a & w
    return both


def steps(session: Session) -> Index:
    """Which step of its chain each matrix instruction belongs to."""
    trace = session.trace
    assert trace is not None
    depth = BLOCK * (64 // trace.rows)
    seen: dict[int, int] = {}
    place = np.zeros(len(trace.chain), np.int64)
    for event, chain in enumerate(trace.chain.tolist()):
        place[event] = seen.get(chain, 0)
        seen[chain] = place[event] + 1
    return place * depth // max(session.step or depth, depth)


def advances_wrongly(session: Session, role: Role | None, index: Index, expected: Index) -> bool:
    """Whether an operand is right in the first step of each chain and then strays by as much more in each later step:
    a pointer that the loop moves by the wrong amount."""
    trace = session.trace
    assert trace is not None
    if role is None:
        return False
    live = expected >= 0
    step = np.broadcast_to(steps(session)[:, None, None], index.shape)
    wrong = live & (index != expected)
    if wrong[step == 0].any() or not wrong.any():
        return False
    known = live & (index >= 0)
    places = role.offsets.reshape(-1)
    astray = places[np.where(known, index, 0)] - places[np.where(known, expected, 0)]
    moved = known & (step > 0)
    if not moved.any():
        return bool((index[wrong] == OUTSIDE).all())
    strays = astray[moved] / step[moved]
    return bool((strays == strays[0]).all() and strays[0] != 0 and (index[wrong & ~known] == OUTSIDE).all())
