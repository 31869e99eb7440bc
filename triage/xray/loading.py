"""Watcher of loads and stores: whether each address lies on an element of some buffer."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.memory import View
from mxassay.triage.diagnosis import Checkpoint
from mxassay.triage.xray.points import point
from mxassay.triage.xray.recorder import Record


def stray_moves(record: Record, view: View, kinds: tuple[str, ...], stage: str, what: str) -> Iterator[Checkpoint]:
    """Accesses to the buffer that holds `view`: those beside every argument's elements are wrong.

    Yields nothing where there is no access.
    """
    segment = record.launch.memory.find(view.address)
    if segment is None:
        return
    owned = _owned(record, segment.base, segment.size)
    compared = differing = 0
    first = None
    for move in record.moves:
        address = np.broadcast_to(move.address, move.mask.shape)
        here = move.mask & (address >= segment.base) & (address + move.size <= segment.end)
        if move.kind not in kinds or not here.any():
            continue
        at = np.where(here, address - segment.base, 0)[..., None] + np.arange(move.size)
        outside = ~owned[at] & here[..., None]
        compared += int(here.sum()) * move.size
        differing += int(outside.sum())
        if first is None and outside.any():
            wave, lane, byte = (int(axis) for axis in np.unravel_index(int(outside.argmax()), outside.shape))
            first = move, wave, lane, int(at[wave, lane, byte]) + segment.base - view.address
    if not compared:
        return
    if first is None:
        yield point(stage, what, compared)
        return
    move, wave, lane, offset = first
    yield point(
        stage, what, compared, differing, record=record, inst=move.inst, index=(f"byte {offset}",),
        expected=f"an element of {view.name} {tuple(view.shape)}", found=_beside(offset, view),
        wave=int(move.wave[wave]), lane=lane, place=f"{view.name} {offset:+#x}",
    )  # fmt: skip


def _owned(record: Record, base: int, size: int) -> NDArray[np.bool_]:
    """Which bytes of a storage belong to an argument."""
    owned = np.zeros(size, np.bool_)
    for view in record.views:
        if base <= view.address < base + size and all(view.shape):
            start = owned[view.address - base :]
            strided = np.lib.stride_tricks.as_strided(start, (*view.shape, view.itemsize), (*view.strides, 1))
            strided[...] = True
    return owned


def _beside(offset: int, view: View) -> str:
    last = sum((size - 1) * step for size, step in zip(view.shape, view.strides, strict=True)) + view.itemsize
    if offset < 0:
        return f"{-offset} bytes before it"
    return f"{offset - last} bytes behind its end" if offset >= last else "the gap between its rows"
