"""Watcher of the loop over K: whether every block is counted once, and nothing else is."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxassay.triage.diagnosis import Checkpoint
from mxassay.triage.xray.course import over_read
from mxassay.triage.xray.frame import Frame, counted
from mxassay.triage.xray.points import point, whereabouts
from mxassay.triage.xray.probes import BLOCK
from mxassay.triage.xray.session import Session
from mxassay.triage.xray.tiles import UNKNOWN, sums_of_outputs
from mxassay.triage.xray.trace import Trace


def watch_loop(session: Session) -> Iterator[Checkpoint]:
    """Two rows each for the stages k-loop and split-k: blocks behind K that count, and how often each block counts."""
    trace, frame = session.trace, session.frame
    if trace is None or frame is None:
        return
    yield from _beyond(session, trace, frame)
    yield from _coverage(session, trace, frame)


def _beyond(session: Session, trace: Trace, frame: Frame) -> Iterator[Checkpoint]:
    beyond = over_read(trace, frame)
    what = "places of the MFMA behind K"
    compared = int((frame.block < 0).sum())
    if not beyond.any():
        yield point("k-loop", what, compared)
        return
    each = np.zeros(len(trace.last), np.int64)
    np.add.at(each, trace.chain, beyond.sum(axis=1))
    whole = session.step is not None and int(each.max()) * BLOCK >= session.step
    event, band = (int(axis) for axis in np.unravel_index(int(beyond.argmax()), beyond.shape))
    row = int((frame.rows[trace.chain[event]] >= 0).argmax())
    lane, register = trace.place(event, "a", band, row)
    source = whereabouts(int(trace.a.block[event, band, row]), trace.blocks, "m")
    yield point(
        "split-k" if whole else "k-loop", what, compared, int(beyond.sum()), record=trace.record,
        inst=trace.insts[event], index=(f"{int(each.max()) * BLOCK} elements behind K",), expected="zeros in A or in W",
        found=f"A from {source}, and W likewise", wave=int(trace.wave[event]), lane=lane, place=register,
    )  # fmt: skip


@dataclass
class _Wrong:
    """Outputs of one set of chains. `row`, `column`: the first of them."""

    stage: str
    row: int
    column: int
    times: NDArray[np.int64]
    outputs: int
    chains: list[int]


def _coverage(session: Session, trace: Trace, frame: Frame) -> Iterator[Checkpoint]:
    counts = counted(trace, frame)
    at = sums_of_outputs(session)
    places = np.bincount(trace.chain, minlength=len(trace.last)) * (64 // trace.rows)
    compared, wrong = 0, list[_Wrong]()
    layers, _, n = at.shape
    combinations, first, number = np.unique(at.reshape(layers, -1), axis=1, return_index=True, return_counts=True)
    for combination, place, outputs in zip(combinations.T, first.tolist(), number.tolist(), strict=True):
        chains = [int(chain) for chain in combination if chain >= 0]
        if not chains or (combination == UNKNOWN).any():
            continue
        times = counts[chains].sum(axis=0)
        compared += outputs * trace.blocks
        if (times != 1).any():
            stage = _stage(times, chains, int(places[chains].sum()), session.step)
            wrong.append(_Wrong(stage, place // n, place % n, times, outputs, chains))
    for stage in ("k-loop", "split-k"):
        mine = [entry for entry in wrong if entry.stage == stage]
        what = "times that each block of K is counted" if stage == "k-loop" else "blocks of K over all splits"
        if not mine:
            yield point(stage, what, compared)
            continue
        entry = mine[0]
        block = int((entry.times != 1).argmax())
        event = int(trace.last[entry.chains[0]])
        yield point(
            stage, what, compared, sum(int((e.times != 1).sum()) * e.outputs for e in mine), record=trace.record,
            inst=trace.insts[event], index=(f"row {entry.row}", f"column {entry.column}", f"block {block}"),
            expected=f"k {block * BLOCK}..{block * BLOCK + 31} once", found=_times(entry.times),
            wave=int(trace.wave[event]),
        )  # fmt: skip


def _stage(times: NDArray[np.int64], chains: list[int], places: int, step: int | None) -> str:
    """A block counted twice by two splits, or whole steps that nobody takes, are the splits' fault; places that stand
    empty, or a part of a step, the loop's."""
    if (times > 1).any():
        return "split-k" if len(chains) > 1 else "k-loop"
    if places >= len(times):
        return "k-loop"
    missing = int((times == 0).sum()) * BLOCK
    if step is None:
        return "split-k" if len(chains) > 1 else "k-loop"
    return "split-k" if missing >= step else "k-loop"


def _times(times: NDArray[np.int64]) -> str:
    """
    >>> _times(np.array([1, 0, 0, 2]))
    'k 32..95 never, k 96..127 2 times'
    """
    words = []
    start = 0
    for end in range(1, len(times) + 1):
        if end == len(times) or times[end] != times[start]:
            if times[start] != 1:
                often = f"{times[start]} times" if times[start] else "never"
                words.append(f"k {start * BLOCK}..{end * BLOCK - 1} {often}")
            start = end
    return ", ".join(words[:4]) + (", ..." if len(words) > 4 else "")
