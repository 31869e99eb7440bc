"""What a launch stores, element by element, and which sum each stored element comes from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.memory import View
from mxassay.triage.xray.lines import lines_of
from mxassay.triage.xray.recorder import Move, Record
from mxassay.triage.xray.trace import Trace

Index = NDArray[np.int64]
Words = NDArray[np.uint32]
_HALF = np.uint32(16)


@dataclass
class Stores:
    """Every stored element of one buffer, in the order of execution.

    view: the buffer. insts with `inst` (index into them), wave, lane, address: where from and to. bits: uint32, float32
    bits of the value, a bfloat16 in the upper half. slot, row, column: where the address lies in (splits, M, N);
    `inside` says whether it does. word: which element of the lane's store it is.
    """

    view: View
    insts: list[Instruction]
    inst: Index
    wave: Index
    lane: Index
    address: Index
    bits: Words
    word: Index
    slot: Index
    row: Index
    column: Index
    inside: NDArray[np.bool_]
    slots: int


def moves_to(record: Record, view: View) -> list[Move]:
    """The stores whose first lane goes to the view's buffer, margins included."""
    segment = record.launch.memory.find(view.address)
    assert segment is not None

    def goes(move: Move) -> bool:
        if move.kind != "store" or move.words is None or not move.mask.any():
            return False
        return segment.base <= int(np.broadcast_to(move.address, move.mask.shape)[move.mask][0]) < segment.end

    return [move for move in record.moves if goes(move)]


def destination(record: Record, m: int, n: int) -> View | None:
    """The view of floats that the launch stores to: (..., M, N), (S * M, N) of float32, or (M or more, N)."""
    for view in record.views:
        size = view.shape[-1] if view.shape else 0
        if view.itemsize in (2, 4) and size == n and slots_of(view, m) and moves_to(record, view):
            return view
    return None


def slots_of(view: View, m: int) -> int:
    """How many (M, N) the view holds, 0 where it is no such view. A bfloat16 matrix of more rows is padded."""
    rows = int(np.prod(view.shape[:-1], dtype=np.int64))
    if len(view.shape) == 2 and view.itemsize == 2:
        return int(rows >= m)
    return rows // m if m and rows % m == 0 else 0


def stores_of(record: Record, view: View, m: int) -> Stores:
    """Every element that a launch stores to `view`, whose rows are those of (splits, M)."""
    moves = moves_to(record, view)
    insts: list[Instruction] = []
    numbers: dict[int, int] = {}
    parts: dict[str, list[NDArray[np.generic]]] = {
        name: [] for name in ("inst", "wave", "lane", "address", "bits", "word")
    }
    for move in moves:
        number = numbers.setdefault(move.inst.pc, len(insts))
        if number == len(insts):
            insts.append(move.inst)
        at, lane = np.nonzero(move.mask)
        address = np.broadcast_to(move.address, move.mask.shape)[at, lane]
        for word, bits in enumerate(_elements(move, view.itemsize)):
            parts["inst"].append(np.full(len(at), number))
            parts["wave"].append(move.wave[at])
            parts["lane"].append(lane)
            parts["address"].append(address + word * view.itemsize)
            parts["bits"].append(bits[at, lane])
            parts["word"].append(np.full(len(at), word))
    found = {name: np.concatenate(arrays) if arrays else np.empty(0, np.int64) for name, arrays in parts.items()}
    rows, column, inside = _place(view, found["address"].astype(np.int64))
    total = slots_of(view, m)
    slot, row = np.divmod(rows, m) if total > 1 else (np.zeros_like(rows), rows)
    inside &= (row < m) & (slot < total)
    return Stores(
        view, insts, found["inst"], found["wave"], found["lane"], found["address"].astype(np.int64),
        found["bits"].astype(np.uint32), found["word"], slot, row, column, inside, total,
    )  # fmt: skip


def _elements(move: Move, itemsize: int) -> list[Words]:
    """uint32 (waves, 64) of each element of a lane's store, as float32 bits."""
    assert move.words is not None
    if itemsize == 4:
        return list(move.words)
    halves = []
    for word in move.words:
        halves.append(word << _HALF)
        if move.size >= 4:
            halves.append(word & np.uint32(0xFFFF0000))
    return halves


def _place(view: View, address: Index) -> tuple[Index, Index, NDArray[np.bool_]]:
    """Row (all axes but the last, counted together), column, and whether the address is that of an element."""
    rest = address - view.address
    inside = rest >= 0
    order = sorted(
        (axis for axis in range(len(view.shape)) if view.shape[axis] > 1), key=lambda axis: -view.strides[axis]
    )
    index = [np.zeros(len(address), np.int64) for _ in view.shape]
    for axis in order:
        index[axis], rest = np.divmod(rest, view.strides[axis])
        inside &= index[axis] < view.shape[axis]
    inside &= rest == 0
    row = np.zeros(len(address), np.int64)
    for axis in range(len(view.shape) - 1):
        row = row * view.shape[axis] + index[axis]
    return row, index[-1], inside


def to_bfloat16(bits: Words) -> Words:
    """float32 bits rounded to bfloat16, nearest even, as float32 bits; every NaN becomes one."""
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    rounded = bits + np.uint32(0x7FFF) + (bits >> _HALF & np.uint32(1)) & np.uint32(0xFFFF0000)
    return np.where(nan, np.uint32(0x7FC00000), rounded).astype(np.uint32)


def canonical(bits: Words) -> Words:
    """float32 bits with one NaN for all."""
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(nan, np.uint32(0x7FC00000), bits).astype(np.uint32)


@dataclass
class Origins:
    """For each stored element the sum that it holds: `chain` and the places `i`, `j` in it (row of A, row of W); -1
    where no sum of its workgroup has those bits in every probe, or where the sum is zero in all of them."""

    chain: Index
    i: Index
    j: Index


_ALIKE = 64  # sums of the same bits that are told apart by where they should go; sums of one tile are copied less often


def origins_of(trace: Trace, stores: Sequence[Stores]) -> Origins:
    """`stores` are those of the probes of sums, in order. Of sums with the same bits the one counts that belongs where
    it is stored, if there is one."""
    groups = trace.record.waves_per_group
    finals = trace.sums[:, 1, trace.last]  # runs, chains, rows, rows
    runs, chains, size, _ = finals.shape
    narrow = stores[0].view.itemsize == 2
    seen = canonical(to_bfloat16(finals) if narrow else finals)
    group = trace.wave[trace.last] // groups
    where = np.broadcast_to(group[None, :, None, None], (1, chains, size, size)).astype(np.uint32)
    table = _joined(np.concatenate((where, seen)).reshape(runs + 1, -1))
    wanted = _joined(np.stack([stores[0].wave // groups, *(canonical(found.bits) for found in stores)]))
    order = np.argsort(table, kind="stable")
    ranked = table[order]
    first, end = np.searchsorted(ranked, wanted), np.searchsorted(ranked, wanted, side="right")
    zero = np.logical_and.reduce([found.bits << np.uint32(1) == 0 for found in stores])
    good = (end > first) & ~zero
    rows, columns = lines_of(trace, trace.a)[0], lines_of(trace, trace.w)[0]
    best, rank = order[np.where(good, first, 0)], np.zeros(len(good), np.int64)
    row, column = stores[0].row, stores[0].column
    for step in range(min(int((end - first).max(initial=0)), _ALIKE)):
        hit = order[np.minimum(first + step, len(order) - 1)]
        chain, i, j = np.unravel_index(hit, (chains, size, size))
        by_row, by_column = rows[chain, i] == row, columns[chain, j] == column
        # In natural order, where operands read from the wrong place say nothing.
        mine = 4 * by_row + 4 * by_column + (i == row % size) + (j == column % size)
        better = good & (first + step < end) & (mine > rank)
        best, rank = np.where(better, hit, best), np.where(better, mine, rank)
    return Origins(*(np.where(good, index, -1) for index in np.unravel_index(best, (chains, size, size))))


def _joined(columns: NDArray[np.generic]) -> NDArray[np.uint64]:
    """A 64-bit hash of each column of (count, n)."""
    total = np.zeros(columns.shape[1], np.uint64)
    for column in columns.astype(np.uint64):
        total = (total ^ column) * np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(29)
    return total
