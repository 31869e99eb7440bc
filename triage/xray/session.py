"""Run the failing case and its probes under one recorder, and gather what the watchers look at."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mxassay.gfx950.dispatch import card_options, set_card_options
from mxassay.properties.kernel import Placement
from mxassay.triage.budget import TimeUp
from mxassay.triage.failure import Failure
from mxassay.triage.rerun import Run, sentence
from mxassay.triage.suspects.scene import right_cut
from mxassay.triage.xray.frame import Frame, frame_of
from mxassay.triage.xray.probes import Probes
from mxassay.triage.xray.recorder import Record, Recorder
from mxassay.triage.xray.roles import Role, Unprepared, roles_of, unprepared
from mxassay.triage.xray.stores import Origins, Stores, destination, origins_of, stores_of
from mxassay.triage.xray.trace import Trace, same_course, sizes, trace_of


@dataclass
class Session:
    """What was seen.

    records: the launches of the failing case. product: the one that multiplies. trace, stores, origins, frame: of it;
    None where `notes` say why. roles: what its buffers hold. astray: those that hold what they must not. pairs:
    for each conversion of the product launch the indices m * K + k of its elements, (waves, 64, 2). later: launches
    behind it. step: elements of K in one step of the plan, None where the plan is not known.
    """

    failure: Failure
    records: list[Record]
    probes: Probes
    product: Record | None = None
    trace: Trace | None = None
    stores: Stores | None = None
    origins: Origins | None = None
    frame: Frame | None = None
    roles: list[Role] = field(default_factory=list)
    astray: list[Unprepared] = field(default_factory=list)
    pairs: list[NDArray[np.int64]] = field(default_factory=list)
    later: list[Record] = field(default_factory=list)
    step: int | None = None
    out: torch.Tensor | None = None
    notes: list[str] = field(default_factory=list)


@contextmanager
def watched(recorder: Recorder) -> Iterator[None]:
    """Every launch on the emulated card is told to `recorder`: through Triton's driver, and of prebuilt kernels."""
    import triton

    driver: Any = getattr(triton.runtime.driver, "_active", None)
    options = getattr(driver, "options", None)
    before = card_options()
    if options is not None:
        driver.options = replace(options, observer=recorder)
    set_card_options(replace(before, observer=recorder))
    try:
        yield
    finally:
        if options is not None:
            driver.options = options
        set_card_options(before)


def session_of(failure: Failure, run: Run) -> Session:
    """Run the case and, where its launches can be seen, the probes."""
    recorder = Recorder()
    records, out, error = _observed(failure, run, recorder)
    session = Session(failure, records, Probes(failure.operands), out=out, step=_step_of(failure))
    if error:
        session.notes.append(f"the run ended with {error}")
    if not records:
        session.notes.append("no launch was seen on the emulated card: the kernel ran elsewhere, or in another process")
        return session
    products = [index for index, record in enumerate(records) if record.matrices]
    if not products:
        others = sum(record.others for record in records)
        session.notes.append(
            "the product used no FP4 matrix instruction, but others" if others else "no matrix instruction ran at all"
        )
        return session
    index = products[-1]
    session.product, session.later = records[index], records[index + 1 :]
    if len(sizes(session.product)) > 1:
        session.notes.append("the product mixes matrix instructions of two sizes, which the x-ray does not follow")
        return session
    recorder.loads = False
    probed: dict[str, list[Record]] = {}
    for kind, _, operands in session.probes.operands():
        # Padding of the scale table is poison, but 1 where sums must stay finite.
        placement = Placement(0x7F if kind == "sums" else 0xFF, failure.placement.view)
        seen, _, _ = _observed(replace(failure, operands=operands, placement=placement), run, recorder)
        if len(seen) <= index or not same_course([session.product, seen[index]]):
            session.notes.append("the kernel's course depends on its data, so probes tell nothing about the case")
            return session
        probed.setdefault(kind, []).append(seen[index])
        if kind == "codes" and len(probed[kind]) == 1:
            session.roles = roles_of(seen[index], operands)
            if _is_prepared(failure):
                session.astray = unprepared(seen[index], operands, session.roles)
    session.trace = trace_of(session.product, probed, session.probes)
    ours, seen_by_run = session.product.conversions, [record.conversions for record in probed["codes"]]
    if all(len(found) == len(ours) for found in seen_by_run):
        session.pairs = [
            session.probes.read_pairs(np.stack([found[index].pair for found in seen_by_run]))
            for index in range(len(ours))
        ]
    _follow_stores(session, probed["sums"])
    session.frame = frame_of(session.trace, session.stores, session.origins)
    return session


def _observed(failure: Failure, run: Run, recorder: Recorder) -> tuple[list[Record], torch.Tensor | None, str]:
    recorder.records = []
    out, error = None, ""
    with watched(recorder):
        try:
            out = run(failure)
        except (KeyboardInterrupt, TimeUp):
            raise
        except BaseException as raised:  # a kernel that faults has run up to there, and that much can be looked at
            error = sentence(raised)
    return recorder.records, out, error


def _follow_stores(session: Session, sums: list[Record]) -> None:
    assert session.product is not None
    assert session.trace is not None
    m, n, _ = session.failure.operands.shape
    view = destination(session.product, m, n)
    if view is None:
        session.notes.append("the product's launch stores to no (M, N) buffer that the x-ray can follow")
        return
    session.stores = stores_of(session.product, view, m)
    probed = []
    for record in sums:
        place = destination(record, m, n)
        if place is None:
            return
        probed.append(stores_of(record, place, m))
    if all(np.array_equal(found.lane, session.stores.lane) for found in probed):
        session.origins = origins_of(session.trace, probed)


def _is_prepared(failure: Failure) -> bool:
    """Whether the launch takes weights that our own host code has brought into row-major order."""
    linear = failure.launch.entry == "matmul_prepared" or bool(getattr(failure.launch.plan, "linear", False))
    return failure.subject.spec is None and linear


def _step_of(failure: Failure) -> int | None:
    if failure.subject.spec is not None:
        return None
    from mxassay.optimized import plan_for

    m, n, k = failure.operands.shape
    plan = failure.launch.plan or plan_for(m, n, k)
    return right_cut(k, plan.tile_k, plan.splits).tile_k
