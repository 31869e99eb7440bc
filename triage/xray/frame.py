"""Which row, column and block each matrix instruction must be about: what most witnesses say.

Four operands and the stores each tell where they stand. One that is wrong is outvoted by the others, so that the
checks can say of each by itself whether it is right; where all go wrong together, the count of blocks shows it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxassay.triage.xray.lines import lines_of, modes
from mxassay.triage.xray.probes import MASK, MIXED
from mxassay.triage.xray.stores import Origins, Stores
from mxassay.triage.xray.trace import Index, Trace

DEAD = -1
"""A row, column or block that no output depends on."""


@dataclass
class Frame:
    """rows: of A for (chain, row of the instruction); columns: of W likewise; DEAD where nothing is stored from there.
    slot: which split's slot a chain is stored in, DEAD where it is not stored. block: along K, for (instruction, band);
    DEAD where what stands there must not count. mapped: whether the stores told anything."""

    rows: Index
    columns: Index
    slot: Index
    block: Index
    mapped: bool

    def expected(self, trace: Trace, name: str) -> Index:
        """The index row * K/32 + block that the operand `a` or `w` must have, (instruction, band, row); DEAD where it
        does not matter."""
        line = (self.rows if name == "a" else self.columns)[trace.chain][:, None, :]
        block = self.block[:, :, None]
        return np.where((line >= 0) & (block >= 0), line * trace.blocks + block, DEAD)


def frame_of(trace: Trace, stores: Stores | None, origins: Origins | None) -> Frame:
    """Hear the witnesses."""
    chains = len(trace.last)
    votes = {name: lines_of(trace, getattr(trace, name)) for name in ("a", "w")}
    if stores is None or origins is None or not ((origins.chain >= 0) & stores.inside).any():
        rows, columns = votes["a"][0], votes["w"][0]
        return Frame(rows, columns, np.zeros(chains, np.int64), _blocks(trace, rows, columns), False)
    good = (origins.chain >= 0) & stores.inside
    chain, i, j = (part[good] for part in (origins.chain, origins.i, origins.j))
    size = trace.rows
    stored_rows = modes(chain * size + i, stores.row[good], chains * size).reshape(chains, size)
    stored_columns = modes(chain * size + j, stores.column[good], chains * size).reshape(chains, size)
    slot = modes(chain, stores.slot[good], chains)
    columns = _arbitrated(stored_columns, *votes["w"])
    rows = stored_rows
    # A and its scales are one witness where the kernel quantizes. They count against the stores only where the columns
    # say as well that stores go astray.
    live = stored_columns >= 0
    if (columns != stored_columns)[live].any():
        rows = _arbitrated(stored_rows, *votes["a"])
    return Frame(rows, columns, slot, _blocks(trace, rows, columns), True)


def _arbitrated(stored: Index, codes: Index, scales: Index) -> Index:
    agree = (codes == scales) & (codes >= 0) & (stored >= 0)
    return np.where(agree, codes, stored)


def _blocks(trace: Trace, rows: Index, columns: Index) -> Index:
    """The block of each (instruction, band), by majority of the operands that stand in the right row."""
    a, w = rows[trace.chain][:, None, :], columns[trace.chain][:, None, :]
    ballots = np.stack([
        _ballot(trace, trace.w.block, w), _ballot(trace, trace.w.scale, w), _ballot(trace, trace.a.block, a),
        _ballot(trace, trace.a.scale, a),
    ])  # fmt: skip
    # Of two that say one thing and two that say another, those count more whose bands follow each other; then W and its
    # scales, which are two loads where A is one.
    steady = (ballots - ballots[..., :1] == np.arange(ballots.shape[-1])).all(axis=-1, keepdims=True)
    support = (np.stack([2 * (ballots == mine).sum(axis=0) for mine in ballots]) + steady) * (ballots >= 0)
    best = np.take_along_axis(ballots, support.argmax(axis=0)[None], axis=0)[0]
    w_dead = (ballots[0] < 0) & (ballots[1] < 0)
    return np.where((support.max(axis=0) > 0) & ~w_dead, best, DEAD)


def _ballot(trace: Trace, index: Index, line: Index) -> Index:
    """What one operand says of each (instruction, band): the block that most of its live rows hold, MASK, or MIXED."""
    live = np.broadcast_to(line >= 0, index.shape)
    good = live & (index >= 0) & (index // trace.blocks == line)
    block = index % trace.blocks
    least = np.where(good, block, trace.blocks).min(axis=2)
    most = np.where(good, block, -1).max(axis=2)
    result = np.where(least == most, least, MIXED)
    for event, band in zip(*np.nonzero((least < most) & good.any(axis=2)), strict=True):
        values, times = np.unique(block[event, band][good[event, band]], return_counts=True)
        result[event, band] = values[times.argmax()]
    masked = (live & (index == MASK)).sum(axis=2) >= live.sum(axis=2)
    return np.where(good.any(axis=2), result, np.where(masked, MASK, MIXED))


def counted(trace: Trace, frame: Frame) -> NDArray[np.int64]:
    """How often each chain counts each block of K, (chains, blocks)."""
    total = np.zeros((len(trace.last), trace.blocks), np.int64)
    chain = np.broadcast_to(trace.chain[:, None], frame.block.shape)
    live = frame.block >= 0
    np.add.at(total, (chain[live], frame.block[live]), 1)
    return total
