"""Watcher of A: where the matrix instruction's codes come from, their scales, their values, their order."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mxassay.reference import DIALECTS, quantize
from mxassay.triage.diagnosis import Checkpoint
from mxassay.triage.xray.course import advances_wrongly, over_read
from mxassay.triage.xray.loading import stray_moves
from mxassay.triage.xray.points import Describe, at_matrix, whereabouts
from mxassay.triage.xray.probes import BLOCK, MIXED
from mxassay.triage.xray.roles import STAGES, WORDS
from mxassay.triage.xray.session import Session
from mxassay.triage.xray.trace import Trace, nibbles

Mask = NDArray[np.bool_]
Places = tuple[tuple[str, ...], str, str]


def watch_loads(session: Session) -> Iterator[Checkpoint]:
    """Addresses. Loads behind K of A and W together are the loop's, not A's."""
    trace, frame = session.trace, session.frame
    if trace is None or frame is None or over_read(trace, frame).any():
        return
    for role in session.roles:
        if role.what in ("a", "a_scales"):
            what = f"addresses loaded from {WORDS[role.what]}"
            yield from stray_moves(trace.record, role.view, ("load",), STAGES[role.what], what)


def watch_places(session: Session) -> Iterator[Checkpoint]:
    """Which elements of A the matrix instruction's codes come from."""
    trace, frame = session.trace, session.frame
    if trace is not None and frame is not None:
        yield _Watch(session, trace, frame.expected(trace, "a")).places()


def watch_activations(session: Session) -> Iterator[Checkpoint]:
    """Scales, codes, order."""
    trace, frame = session.trace, session.frame
    if trace is not None and frame is not None:
        yield from _Watch(session, trace, frame.expected(trace, "a")).quantized()


@dataclass
class _Watch:
    """`live`: what is looked at. `elsewhere`: codes from another block; `garbled`: codes of no one block, whose scale
    is that of the right one, so that the right elements were there and were lost behind it."""

    session: Session
    trace: Trace
    expected: NDArray[np.int64]

    def __post_init__(self) -> None:
        side = self.trace.a
        self.live = self.expected >= 0
        wrong = self.live & (side.block != self.expected)
        self.garbled = wrong & (side.block == MIXED) & (side.scale == self.expected)
        self.elsewhere = wrong & ~self.garbled

    def places(self) -> Checkpoint:
        role = next((role for role in self.session.roles if role.what == "a"), None)
        found = np.where(self.garbled, self.expected, self.trace.a.block)
        advance = advances_wrongly(self.session, role, found, self.expected)
        what = "rows and blocks of A as the MFMA reads them"
        return self._at("k-loop" if advance else "activations", what, self.live, self.elsewhere, self._place)

    def quantized(self) -> Iterator[Checkpoint]:
        side, garbled = self.trace.a, self.garbled
        here = self.live & ~self.elsewhere
        order = here & ~garbled & (side.parts % BLOCK != np.arange(BLOCK)).any(axis=-1)
        scales = here & self._wrong_scales()
        yield self._at("quantizer.scale", "scales of A as the MFMA reads them", here, scales, self._scale)
        settled = here & ~garbled & ~order
        values, flushed = self._wrong_codes(settled)
        if flushed:
            yield self._at("activations", "subnormal and zero elements of A", settled, values, self._codes, BLOCK)
            values = np.zeros_like(values)
        yield self._at("quantizer.element", "codes of A as the MFMA reads them", settled, values, self._codes, BLOCK)
        permuted = (np.sort(side.parts % BLOCK, axis=-1) == np.arange(BLOCK)).all(axis=-1)
        lost = garbled | (order & ~permuted)
        yield self._at("quantizer.element", "elements that the codes of A stand for", here, lost, self._order, BLOCK)
        what = "order of the codes of A in their block"
        yield self._at("pack", what, here & ~lost, order & permuted, self._order, BLOCK)

    def _at(self, stage: str, what: str, live: Mask, wrong: Mask, describe: Describe, part: int = 1) -> Checkpoint:
        return at_matrix(self.trace, stage, what, live, wrong, "a", describe, part)

    @property
    def _true_scales(self) -> NDArray[np.uint8]:
        return self.session.failure.operands.quantized.scales.numpy().reshape(-1)

    def _wrong_scales(self) -> NDArray[np.bool_]:
        side = self.trace.a
        true = self._true_scales[np.maximum(self.expected, 0)]
        wrong: Mask = (side.scale != self.expected) | (side.scales != true)
        return wrong

    def _wrong_codes(self, settled: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], bool]:
        """Codes other than those of A's elements under the scale that is there; whether flushing explains them all."""
        side = self.trace.a
        settled = settled & (side.scales != 0xFF)
        key = np.where(settled, self.expected * 256 + side.scales, 0)
        known, number = np.unique(key, return_inverse=True)
        number = number.reshape(key.shape)
        blocks = self._elements(known // 256)
        wrong = settled & (self._encoded(blocks, known)[number] != side.codes).any(axis=-1)
        if not wrong.any():
            return wrong, False
        bits = blocks.view(torch.int16)
        tiny = torch.where((bits & 0x7F80) == 0, 0, bits).view(torch.bfloat16)
        unsigned = torch.where(bits == -0x8000, 0, bits).view(torch.bfloat16)
        explained = [
            (self._encoded(changed, known)[number] == side.codes).all(axis=-1)[wrong].all()
            for changed in (tiny, unsigned)
        ]
        return wrong, any(bool(found) for found in explained)

    def _elements(self, index: NDArray[np.int64]) -> torch.Tensor:
        return self.session.failure.operands.a.contiguous().reshape(-1, BLOCK)[torch.from_numpy(index)]

    def _encoded(self, blocks: torch.Tensor, known: NDArray[np.int64]) -> NDArray[np.uint8]:
        scales = torch.from_numpy((known % 256).astype(np.uint8)).unsqueeze(1)
        packed: NDArray[np.uint8] = quantize(
            blocks, DIALECTS[self.session.failure.operands.dialect], scales=scales
        ).packed.numpy()
        return packed

    def _lines(self, event: int, band: int, row: int) -> tuple[str, ...]:
        m, block = divmod(int(self.expected[event, band, row]), self.trace.blocks)
        return f"row {m}", f"block {block}"

    def _place(self, event: int, band: int, row: int) -> Places:
        at = event, band, row
        words = [whereabouts(int(x[at]), self.trace.blocks, "m") for x in (self.expected, self.trace.a.block)]
        return self._lines(*at), words[0], words[1]

    def _scale(self, event: int, band: int, row: int) -> Places:
        at = event, band, row
        true, byte = int(self._true_scales[self.expected[at]]), int(self.trace.a.scales[at])
        source = int(self.trace.a.scale[at])
        where = "" if source == int(self.expected[at]) else f", from {whereabouts(source, self.trace.blocks, 'm')}"
        return self._lines(*at), f"{true} (0x{true:02X})", f"{byte} (0x{byte:02X}){where}"

    def _codes(self, event: int, band: int, row: int) -> Places:
        at = event, band, row
        block, byte = int(self.expected[at]), int(self.trace.a.scales[at])
        elements = self._elements(np.array([block]))
        wanted = nibbles(self._encoded(elements, np.array([block * 256 + byte])))[0]
        seen = nibbles(self.trace.a.codes[at])
        first = int((wanted != seen).argmax())
        bits = int(elements.view(torch.int16)[0, first]) & 0xFFFF
        lines = (*self._lines(*at), f"k {block % self.trace.blocks * BLOCK + first}")
        value = float(elements[0, first])
        return lines, f"code {wanted[first]} of {value!r} (0x{bits:04X}) under scale {byte}", f"code {seen[first]}"

    def _order(self, event: int, band: int, row: int) -> Places:
        at = event, band, row
        parts, block = self.trace.a.parts[at], int(self.expected[at])
        first = int((parts != block * BLOCK + np.arange(BLOCK)).argmax())
        k = block % self.trace.blocks * BLOCK
        lines = (*self._lines(*at), f"k {k + first}")
        source = int(parts[first])
        blocks = self.trace.blocks
        found = f"k {source % (blocks * BLOCK)} of row {source // (blocks * BLOCK)}" if source >= 0 else "no element"
        return lines, f"element k {k + first}", found
