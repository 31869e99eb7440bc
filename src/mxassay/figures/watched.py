"""One GEMM on the emulated card with everything about it counted."""

import math
from dataclasses import dataclass
from typing import Any

from mxassay.cases import Case, build
from mxassay.figures.rivals import Call
from mxassay.gfx950.timing import CARD, Card, LaunchTime, LaunchWork, WorkObserver, modelled
from mxassay.kernels import Shape

__all__ = ["Watched", "watch"]


@dataclass(frozen=True)
class Watched:
    """What a call launched on one shape, its modelled times, and how many outputs are wrong."""

    shape: Shape
    work: tuple[LaunchWork, ...]
    times: tuple[LaunchTime, ...]
    wrong: int

    @property
    def vector_per_matrix(self) -> float:
        """Vector ALU instructions an MFMA, over all launches of the call."""
        matrix = sum(each.counts.mfma for each in self.work)
        vector = sum(each.counts.instructions["valu"] for each in self.work)
        return vector / matrix if matrix else math.inf

    @property
    def seconds(self) -> float:
        """Modelled, over all launches."""
        return sum(time.seconds for time in self.times)

    @property
    def busy(self) -> float:
        """Modelled, without what the launches themselves cost."""
        return sum(time.seconds - time.launch for time in self.times)

    @property
    def limit(self) -> str:
        """What bounds each launch."""
        return "limited by " + ", ".join(time.limit for time in self.times)

    def rows(self, kernel: str) -> list[dict[str, Any]]:
        """A row for each launch, of plain JSON types."""
        return [_row(self.shape, kernel, work, time) for work, time in zip(self.work, self.times, strict=True)]


def watch(call: Call, shape: Shape, *, card: Card = CARD, seed: int = 0) -> Watched:
    """Run `call` on the inputs of a case, watched."""
    from mxassay.gfx950 import Options, emulated

    problem = build(Case(shape, seed), "cpu")
    observer = WorkObserver(card)
    with emulated(Options(observer=observer)):
        out = call(problem.arguments)
    work = tuple(observer.work)
    wrong = int(problem.expectation.wrong(out).sum())
    return Watched(shape, work, tuple(modelled(each, card) for each in work), wrong)


def _row(shape: Shape, kernel: str, work: LaunchWork, time: LaunchTime) -> dict[str, Any]:
    counts = work.counts
    return {
        "shape": list(shape),
        "kernel": kernel,
        "launch": work.kernel,
        "groups": work.groups,
        "waves": counts.waves,
        "waves_per_simd": work.occupancy.waves,
        "groups_per_cu": work.occupancy.groups,
        "instructions": counts.instructions,
        "longest_wave": counts.busiest_wave,
        "vector_per_matrix": None if math.isinf(work.vector_per_matrix) else round(work.vector_per_matrix, 2),
        "longest_cycles": work.longest,
        "simd_issue_cycles": time.simd_issue,
        "trips": work.trips,
        "lds_trips": work.local_trips,
        "loaded_per_needed": round(work.asked / work.needed, 2) if work.needed else None,
        "lds_cycles": work.lds_cycles,
        "lds_conflicts": work.lds_cycles - work.lds_ideal,
        "spills": work.spills,
        "scratch_bytes": work.scratch,
        "modelled_us": round(time.seconds * 1e6, 3),
        "limit": time.limit,
        "bounds_us": {name: round(seconds * 1e6, 3) for name, seconds in time.bounds.items()},
        "rounds": time.rounds,
    }
