"""Checkpoints out of comparisons: how many values are wrong, and everything about the first of them."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.instruction import Instruction
from mxassay.triage.diagnosis import Checkpoint
from mxassay.triage.xray.probes import MASK, MIXED, OUTSIDE
from mxassay.triage.xray.recorder import Record
from mxassay.triage.xray.trace import Trace

Describe = Callable[[int, int, int], tuple[tuple[str, ...], str, str]]
"""Of one place (instruction, band, row): index, expected, found."""

_NOTHING = {
    MASK: "a constant in place of data",
    MIXED: "bytes of no one block",
    OUTSIDE: "memory outside every operand",
}


def point(
    stage: str, what: str, compared: int, differing: int = 0, *, record: Record | None = None,
    inst: Instruction | None = None, index: Sequence[str] = (), expected: str = "", found: str = "",
    wave: int | None = None, lane: int | None = None, place: str = "",
) -> Checkpoint:  # fmt: skip
    """A checkpoint, with the instruction in words."""
    return Checkpoint(
        stage=stage,
        what=what,
        compared=int(compared),
        differing=int(differing),
        index=tuple(index),
        expected=expected,
        found=found,
        kernel=record.launch.code.name if record else "",
        pc=record.pc(inst) if record and inst else None,
        instruction=inst.text if inst else "",
        source=record.source(inst) if record else None,
        wave=None if wave is None else int(wave),
        lane=None if lane is None else int(lane),
        place=place,
    )


def at_matrix(
    trace: Trace, stage: str, what: str, live: NDArray[np.bool_], wrong: NDArray[np.bool_], side: str,
    describe: Describe, part: int = 1,
) -> Checkpoint:  # fmt: skip
    """Of an operand at the matrix instructions, axes (instruction, band, row): `part` values stand at each place.

    `describe` gives index, expected, found of one place.
    """
    compared = int(live.sum()) * part
    wrong = wrong & live
    if not wrong.any():
        return point(stage, what, compared)
    event, band, row = (int(axis) for axis in np.unravel_index(int(wrong.argmax()), wrong.shape))
    index, expected, found = describe(event, band, row)
    lane, register = trace.place(event, side, band, row)
    return point(
        stage, what, compared, int(wrong.sum()) * part, record=trace.record, inst=trace.insts[event], index=index,
        expected=expected, found=found, wave=int(trace.wave[event]), lane=lane, place=register,
    )  # fmt: skip


def whereabouts(index: int, blocks: int, line: str) -> str:
    """
    >>> whereabouts(35, 16, "n")
    'n 2, block 3 (k 96..127)'
    """
    if index < 0:
        return _NOTHING[index]
    row, block = divmod(index, blocks)
    return f"{line} {row}, block {block} (k {32 * block}..{32 * block + 31})"
