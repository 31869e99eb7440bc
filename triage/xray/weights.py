"""Watcher of W and its scales: where the matrix instruction's bytes come from, and their values."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxassay.triage.diagnosis import Checkpoint
from mxassay.triage.xray.course import advances_wrongly, over_read
from mxassay.triage.xray.frame import DEAD, Frame, counted
from mxassay.triage.xray.loading import stray_moves
from mxassay.triage.xray.points import at_matrix, point, whereabouts
from mxassay.triage.xray.probes import OUTSIDE
from mxassay.triage.xray.roles import STAGES, WORDS, Role
from mxassay.triage.xray.session import Session
from mxassay.triage.xray.tiles import sums_of_outputs
from mxassay.triage.xray.trace import Trace

Places = tuple[tuple[str, ...], str, str]
_BYTES = 16  # packed bytes of a block
_MOST = 0.75


def watch_preparation(session: Session) -> Iterator[Checkpoint]:
    """Weights that were brought into row-major order before the launch."""
    for wrong in session.astray:
        differing = wrong.expected != wrong.found
        row, column = (int(axis) for axis in np.unravel_index(int(differing.argmax()), differing.shape))
        yield point(
            "prepare", f"{WORDS[wrong.what]} in row-major order", differing.size, int(differing.sum()),
            record=session.product, index=(f"row {row}", f"byte {column}"),
            expected=f"0x{wrong.expected[row, column]:02X} (of a probe)",
            found=f"0x{wrong.found[row, column]:02X}", place=wrong.view.name,
        )  # fmt: skip


def watch_weights(session: Session) -> Iterator[Checkpoint]:
    """Packed bytes first, scale bytes then; for each, addresses and what the MFMA reads."""
    trace, frame = session.trace, session.frame
    if trace is None or frame is None or session.astray:
        return
    expected = frame.expected(trace, "w")
    watch = _Watch(session, trace, frame, expected)
    layouts = watch.misread()
    if layouts is not None:
        yield layouts
        return
    together = bool(over_read(trace, frame).any())
    for what, points in (("w", watch.codes), ("w_scales", watch.scales)):
        role = next((role for role in session.roles if role.what == what), None)
        if role is not None and not together:
            yield from stray_moves(
                trace.record, role.view, ("load",), STAGES[what], f"addresses loaded from {WORDS[what]}"
            )
        yield points(role)
    if not together:
        yield watch.idle_scales()


@dataclass
class _Watch:
    session: Session
    trace: Trace
    frame: Frame
    expected: NDArray[np.int64]

    def misread(self) -> Checkpoint | None:
        """Where W and its scales both lie one way and are read as if they lay the other: whoever launches says so."""
        side, live = self.trace.w, self.expected >= 0
        roles = {role.what: role for role in self.session.roles}
        count = 0
        for what, index in (("w", side.block), ("w_scales", side.scale)):
            role = roles.get(what)
            wrong = live & (index >= 0) & (index != self.expected)
            if role is None or role.otherwise is None or not wrong.any():
                return None
            found = role.offsets.reshape(-1)[index[wrong]]
            # Not all: where both are read wrongly, some blocks are outvoted.
            if (found == role.otherwise.reshape(-1)[self.expected[wrong]]).mean() < _MOST:
                return None
            count += int(wrong.sum())
        shuffled = roles["w"].shuffled
        ways = ("row-major", "preshuffled")
        return point(
            "launch", "order in which W and its scales are read", 2 * int(live.sum()), count, record=self.trace.record,
            inst=self.trace.insts[0], expected=f"{ways[shuffled]}, as they lie", found=ways[not shuffled],
        )  # fmt: skip

    def codes(self, role: Role | None) -> Checkpoint:
        side, live = self.trace.w, self.expected >= 0
        packed = self.session.failure.operands.codes.numpy().reshape(-1, _BYTES)
        elsewhere = live & (side.block != self.expected)
        order = (side.parts % _BYTES != np.arange(_BYTES)).any(axis=-1)
        values = (packed[np.maximum(self.expected, 0)] != side.codes).any(axis=-1)
        stage = "k-loop" if advances_wrongly(self.session, role, side.block, self.expected) else "weights.layout"
        wrong = elsewhere | (live & (order | values))
        return at_matrix(
            self.trace, stage, "codes of W as the MFMA reads them", live, wrong, "w", self._codes, 2 * _BYTES
        )

    def scales(self, role: Role | None) -> Checkpoint:
        side, live = self.trace.w, self.expected >= 0
        if self._splits_overlap():
            live = np.zeros_like(live)
        wrong = live & ((side.scale != self.expected) | (side.scales != self._true[np.maximum(self.expected, 0)]))
        stage = "k-loop" if advances_wrongly(self.session, role, side.scale, self.expected) else "scales.layout"
        return at_matrix(self.trace, stage, "scales of W as the MFMA reads them", live, wrong, "w", self._scales)

    def _splits_overlap(self) -> bool:
        """Whether A and W both say that splits begin at wrong places: shuffled scales can't be read from anywhere, so
        what they hold then follows from it."""
        right_a = self.frame.expected(self.trace, "a")
        settled = ((self.trace.a.block == right_a) | (right_a < 0)).all()
        settled &= ((self.trace.w.block == self.expected) | (self.expected < 0)).all()
        if not settled:
            return False
        layers, counts = sums_of_outputs(self.session), counted(self.trace, self.frame)
        groups = np.unique(layers.reshape(len(layers), -1), axis=1).T
        return any((counts[group[group >= 0]].sum(axis=0) > 1).any() for group in groups if (group >= 0).sum() > 1)

    def idle_scales(self) -> Checkpoint:
        """Behind K the codes are zero, and a NaN beside them would still count."""
        columns = self.frame.columns[self.trace.chain][:, None, :]
        idle = (self.frame.block == DEAD)[:, :, None] & (columns >= 0)
        side = self.trace.w
        wrong = idle & ((side.scale == OUTSIDE) | (side.scales == 0xFF))
        return at_matrix(self.trace, "scales.layout", "scales of W behind K", idle, wrong, "w", self._idle)

    @property
    def _true(self) -> NDArray[np.uint8]:
        scales: NDArray[np.uint8] = self.session.failure.operands.scales.numpy().reshape(-1)
        return scales

    def _lines(self, event: int, band: int, row: int) -> tuple[str, ...]:
        n, block = divmod(int(self.expected[event, band, row]), self.trace.blocks)
        return f"n {n}", f"block {block}"

    def _codes(self, event: int, band: int, row: int) -> Places:
        at, side, blocks = (event, band, row), self.trace.w, self.trace.blocks
        expected, source = int(self.expected[at]), int(side.block[at])
        if source != expected:
            return self._lines(*at), whereabouts(expected, blocks, "n"), whereabouts(source, blocks, "n")
        order = side.parts[at] % _BYTES
        if (order != np.arange(_BYTES)).any():
            return self._lines(*at), "bytes 0, 1, 2, ... of the block", f"bytes {', '.join(map(str, order))}"
        true = self.session.failure.operands.codes.numpy().reshape(-1, _BYTES)[expected]
        byte = int((true != side.codes[at]).argmax())
        return (*self._lines(*at), f"byte {byte}"), f"0x{true[byte]:02X}", f"0x{side.codes[at][byte]:02X}"

    def _scales(self, event: int, band: int, row: int) -> Places:
        at, side = (event, band, row), self.trace.w
        expected, source = int(self.expected[at]), int(side.scale[at])
        true, byte = int(self._true[expected]), int(side.scales[at])
        where = "" if source == expected else f", from {whereabouts(source, self.trace.blocks, 'n')}"
        return self._lines(*at), f"{true} (0x{true:02X})", f"{byte} (0x{byte:02X}){where}"

    def _idle(self, event: int, band: int, row: int) -> Places:
        n = int(self.frame.columns[self.trace.chain[event], row])
        source, byte = int(self.trace.w.scale[event, band, row]), int(self.trace.w.scales[event, band, row])
        return (
            (f"n {n}", "behind K"),
            "a finite scale",
            f"{byte} (0x{byte:02X}), {whereabouts(source, self.trace.blocks, 'n')}",
        )
