"""The observer that gathers what the model of time needs, launch by launch."""

import math
from dataclasses import dataclass
from typing import Any

from mxassay.gfx950.checks import Checks
from mxassay.gfx950.checks.counts import KernelCounts
from mxassay.gfx950.checks.run import Check
from mxassay.gfx950.observe import Launch
from mxassay.gfx950.occupancy import Occupancy, occupancy_of
from mxassay.gfx950.timing.assumptions import CARD, Card
from mxassay.gfx950.timing.reuse import LinesCheck
from mxassay.gfx950.timing.timeline import TimelineCheck

__all__ = ["LaunchWork", "WorkObserver"]


@dataclass(frozen=True)
class LaunchWork:
    """What one launch did.

    Attributes:
        kernel, groups, waves_per_group: the launch.
        counts: instructions by class, in all and on the busiest wave; bytes by buffer.
        occupancy: how many workgroups a compute unit holds at once.
        longest: cycles of the slowest wave, alone on its SIMD, until its last store has arrived.
        issue, vector, matrix, scalar: cycles that all waves together keep issue and units busy.
        longest_issue: cycles that the busiest wave issues.
        trips, local_trips: waits for memory and for LDS that held up the wave that waited most often.
        lds_cycles, lds_ideal: of all accesses to LDS, and without bank conflicts.
        lines: lines of 128 bytes "requested" (by all instructions), those of the "busiest" workgroup, "loaded" and
            "stored" (each counted once a die), "loaded_once" and "stored_once".
        asked, needed: bytes loaded by all lanes, and different ones among them.
        spills, scratch: registers that the compiler spilled (None where it doesn't say), and bytes of scratch moved.
    """

    kernel: str
    groups: int
    waves_per_group: int
    counts: KernelCounts
    occupancy: Occupancy
    longest: int
    longest_issue: int
    issue: int
    vector: int
    matrix: int
    scalar: int
    trips: int
    local_trips: int
    lds_cycles: int
    lds_ideal: int
    lines: dict[str, int]
    asked: int
    needed: int
    spills: int | None
    scratch: int

    @property
    def vector_per_matrix(self) -> float:
        """Vector ALU instructions an MFMA; infinite without MFMA."""
        return self.counts.instructions["valu"] / self.counts.mfma if self.counts.mfma else math.inf


class WorkObserver(Checks):
    """An observer for `Options(observer=...)`; `work` gets a `LaunchWork` at the end of each launch.

    >>> with emulated(Options(observer=watch := WorkObserver())):  # doctest: +SKIP
    ...     kernel[grid](x, y)
    >>> print(watch.work[0].vector_per_matrix)  # doctest: +SKIP
    """

    def __init__(self, card: Card = CARD) -> None:
        self.work: list[LaunchWork] = []
        self._timeline, self._lines = TimelineCheck(card), LinesCheck(card)
        super().__init__("counts,bank-conflicts")

    def _made(self) -> list[Check]:
        return [*super()._made(), self._timeline, self._lines]

    def begin(self, launch: Launch) -> None:
        self._launch = launch
        self._places_before = len(self.places)
        super().begin(launch)

    def end(self, error: Exception | None) -> None:
        super().end(error)
        if error is None:
            self.work.append(self._gathered())

    def _gathered(self) -> LaunchWork:
        launch, timeline, counts = self._launch, self._timeline, self.counts[-1]
        metadata = launch.code.metadata
        items = math.prod(launch.block)
        places = self.places[self._places_before :]

        def total(check: str, what: str) -> int:
            return sum(getattr(place, what) for place in places if place.check == check)

        spills: Any = None
        if metadata is not None:
            spills = sum(filter(None, (metadata.vgpr_spill_count, metadata.sgpr_spill_count)))
        return LaunchWork(
            kernel=launch.code.name,
            groups=math.prod(launch.grid),
            waves_per_group=-(-items // 64),
            counts=counts,
            occupancy=occupancy_of(launch.code, items, launch.lds_bytes),
            longest=int(timeline.end_time.max(initial=0)),
            longest_issue=int(timeline.issued.max(initial=0)),
            issue=int(timeline.issued.sum()),
            vector=int(timeline.vector.sum()),
            matrix=int(timeline.matrix.sum()),
            scalar=int(timeline.scalar.sum()),
            trips=int(timeline.trips.max(initial=0)),
            local_trips=int(timeline.local_trips.max(initial=0)),
            lds_cycles=total("bank-conflicts", "cost"),
            lds_ideal=total("bank-conflicts", "ideal"),
            lines=self._lines.lines(),
            asked=self._lines.asked,
            needed=self._lines.needed,
            spills=spills,
            scratch=counts.scratch_read + counts.scratch_written,
        )
