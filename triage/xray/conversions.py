"""Watcher of the conversions to FP4, where the kernel uses the instruction: what goes in, and what comes out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mxassay.gfx950.hazards import hazards_of
from mxassay.reference import cvt_scalef32_pk_fp4_bf16
from mxassay.triage.diagnosis import Checkpoint
from mxassay.triage.xray.points import point
from mxassay.triage.xray.probes import BLOCK
from mxassay.triage.xray.recorder import Conversion, Record
from mxassay.triage.xray.session import Session
from mxassay.triage.xray.trace import nibbles


@dataclass
class _Found:
    """The conversions of one instruction by the waves that ran it together, and the comparisons of it: for (waves, 64),
    where something is compared and where it is wrong."""

    conversion: Conversion
    index: NDArray[np.int64]
    live: NDArray[np.bool_]
    operands: NDArray[np.bool_]
    flushed: NDArray[np.bool_]
    apart: NDArray[np.bool_]
    scales: NDArray[np.bool_]
    codes: NDArray[np.bool_]


def watch_conversions(session: Session) -> Iterator[Checkpoint]:
    """Operands, their pairing, scales, codes. No rows where the kernel packs by other means."""
    record = session.product
    if record is None or not session.pairs or not record.conversions[0].inst.op.endswith("_bf16"):
        return
    found = [_compared(session, *both) for both in zip(record.conversions, session.pairs, strict=True)]
    bits = session.failure.operands.a.contiguous().view(torch.int16).numpy().reshape(-1).astype(np.int64) & 0xFFFF
    flushed = all((f.flushed | ~f.operands).all() for f in found)
    k = session.failure.operands.shape[2]

    def element(f: _Found, at: tuple[int, int]) -> tuple[str, str]:
        return tuple(f"0x{bits[i]:04X} (row {i // k}, k {i % k})" for i in f.index[at])  # type: ignore[return-value]

    def operand(f: _Found, at: tuple[int, int]) -> tuple[str, str]:
        return " and ".join(element(f, at)), f"0x{f.conversion.pair[at]:08X}, the first in the lower half"

    def pairing(f: _Found, at: tuple[int, int]) -> tuple[str, str]:
        low, high = (int(i) % k for i in f.index[at])
        return "elements k and k + 1, k even", f"k {low} in the lower half and k {high} in the upper"

    def scale(f: _Found, at: tuple[int, int]) -> tuple[str, str]:
        due = int(_scales(session)[int(f.index[at][0]) // BLOCK])
        seen = int(f.conversion.scale[at]) >> 23 & 0xFF
        return f"{due} (0x{due:02X})", f"{seen} (0x{seen:02X}) in the exponent"

    def code(f: _Found, at: tuple[int, int]) -> tuple[str, str]:
        low, high = nibbles(np.array([f.conversion.byte[at]]))
        return "nearest even", f"codes {low} and {high}"

    yield _row(
        record, found, "activations" if flushed else "quantizer.element", "operands of the conversions to FP4",
        [f.operands for f in found], operand, k, "src0",
    )  # fmt: skip
    yield _row(record, found, "pack", "pairs that the conversions make", [f.apart for f in found], pairing, k, "src0")
    # A scale that is wrong wherever it goes is the quantizer's; one that is wrong here alone the conversion's.
    everywhere = any(f.scales.any() for f in found) and _wrong_at_the_matrix(session)
    stage = "quantizer.scale" if everywhere else "quantizer.element"
    yield _row(record, found, stage, "scales of the conversions", [f.scales for f in found], scale, k, "src1")
    yield _row(
        record, found, "quantizer.element", "codes that the conversions give", [f.codes for f in found], code, k, "vdst"
    )


def _scales(session: Session) -> NDArray[np.uint8]:
    return session.failure.operands.quantized.scales.numpy().reshape(-1)


def _compared(session: Session, conversion: Conversion, index: NDArray[np.int64]) -> _Found:
    elements = session.failure.operands.a.contiguous().view(torch.int16).numpy().reshape(-1)
    live = conversion.mask & (index >= 0).all(axis=-1)
    known = np.where(live[..., None], index, 0)
    due = elements[known].astype(np.int64) & 0xFFFF
    seen = np.stack((conversion.pair & np.uint32(0xFFFF), conversion.pair >> np.uint32(16)), axis=-1).astype(np.int64)
    wrong = due != seen
    flushed = (~wrong | (((due & 0x7F80) == 0) & (seen & 0x7FFF == 0))).all(axis=-1)
    # Elements of two blocks were loaded from the wrong place.
    live &= known[..., 0] // BLOCK == known[..., 1] // BLOCK
    apart = (known[..., 1] != known[..., 0] + 1) | (known[..., 0] % 2 != 0)
    scales = _scales(session)[known[..., 0] // BLOCK]
    field = conversion.scale >> np.uint32(23) & np.uint32(0xFF)
    byte = cvt_scalef32_pk_fp4_bf16(
        torch.from_numpy(conversion.pair.astype(np.int64)), torch.from_numpy(conversion.scale.astype(np.int64)), 0
    ).numpy()
    return _Found(
        conversion, known, live, live & wrong.any(axis=-1), flushed, live & apart, live & (field != scales),
        live & (byte != conversion.byte),
    )  # fmt: skip


def _wrong_at_the_matrix(session: Session) -> bool:
    trace, frame = session.trace, session.frame
    if trace is None or frame is None:
        return True
    right = frame.expected(trace, "a")
    live = (right >= 0) & (trace.a.scale == right)
    return bool((live & (trace.a.scales != _scales(session)[np.maximum(right, 0)])).any())


def watch_waits(session: Session) -> Iterator[Checkpoint]:
    """Conversions whose result is read too soon. The emulated card gives the right value all the same: a real one may
    not."""
    record = session.product
    if record is None or not record.conversions:
        return
    code = record.launch.code
    early = [
        hazard for hazard in hazards_of(code, record.launch.code_object) if hazard.producer.startswith("v_cvt_scalef32")
    ]
    what, count = "wait states behind the conversions", len({c.inst.pc for c in record.conversions})
    if not early:
        yield point("quantizer.element", what, count)
        return
    first = early[0]
    inst = next(c.inst for c in record.conversions if c.inst.pc == first.producer_pc)
    yield point(
        "quantizer.element", what, count, len({hazard.producer_pc for hazard in early}), record=record, inst=inst,
        index=(f"read by pc {first.pc - code.entry:#x}: {first.consumer}",), expected=f"{first.required} wait states",
        found=str(first.found), place=first.register,
    )  # fmt: skip


Words = Callable[[_Found, tuple[int, int]], tuple[str, str]]
"""Of a wave and a lane: expected, found."""


def _row(
    record: Record, found: list[_Found], stage: str, what: str, wrong: list[NDArray[np.bool_]], words: Words, k: int,
    role: str,
) -> Checkpoint:  # fmt: skip
    compared = sum(int(f.live.sum()) for f in found)
    differing = sum(int(hit.sum()) for hit in wrong)
    for f, hit in zip(found, wrong, strict=True):
        if hit.any():
            wave, lane = (int(axis) for axis in np.unravel_index(int(hit.argmax()), hit.shape))
            expected, seen = words(f, (wave, lane))
            first = int(f.index[wave, lane, 0])
            return point(
                stage, what, compared, differing, record=record, inst=f.conversion.inst,
                index=(f"row {first // k}", f"k {first % k}"), expected=expected, found=seen,
                wave=int(f.conversion.wave[wave]), lane=lane, place=str(f.conversion.inst.operand(role) or ""),
            )  # fmt: skip
    return point(stage, what, compared)
