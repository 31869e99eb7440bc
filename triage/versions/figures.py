"""Instruction figures of a call on the emulated card, and how those of two versions differ."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mxassay.gfx950 import Options, emulated
from mxassay.gfx950.checks import Checks
from mxassay.gfx950.checks.counts import KernelCounts
from mxassay.gfx950.observe import Launch
from mxassay.gfx950.static import report_of

Figures = dict[str, dict[str, int]]
"""By kernel, what its code needs and what its launches of one call executed, by name of the figure."""

_WORDS = {
    "vgprs": "VGPRs", "agprs": "AGPRs", "sgprs": "SGPRs", "vgpr_spills": "spilled VGPRs",
    "sgpr_spills": "spilled SGPRs", "scratch_bytes": "scratch bytes of a lane",
}  # fmt: skip


class _Counting(Checks):
    def __init__(self) -> None:
        super().__init__("counts,bank-conflicts,coalescing")
        self.launches: list[Launch] = []

    def begin(self, launch: Launch) -> None:
        self.launches.append(launch)
        super().begin(launch)


@contextmanager
def counting() -> Iterator[Figures]:
    """Run the block on an emulated card that counts; the figures are there once it has ended."""
    watched = _Counting()
    found: Figures = {}
    with emulated(Options(observer=watched)):
        yield found
    for launch, counts in zip(watched.launches, watched.counts, strict=False):
        name = launch.code.name
        if name not in found:
            places = [place for place in watched.places if place.kernel == name]
            costs = {
                "LDS conflict cycles": sum(place.extra for place in places if place.check == "bank-conflicts"),
                "memory lines beyond the least": sum(place.extra for place in places if place.check == "coalescing"),
            }
            found[name] = _static(launch) | costs
        for figure, value in _executed(counts).items():
            found[name][figure] = found[name].get(figure, 0) + value


def _static(launch: Launch) -> dict[str, int]:
    report = report_of(launch.code, workgroup_size=math.prod(launch.block), lds_bytes=launch.lds_bytes)
    found = {_WORDS[name]: getattr(report, name) or 0 for name in _WORDS}
    found |= {"LDS bytes of a workgroup": launch.lds_bytes, "waves a SIMD holds": report.occupancy.waves}
    return found | {f"code: {name}": count for name, count in {"all": report.instructions, **report.classes}.items()}


def _executed(counts: KernelCounts) -> dict[str, int]:
    return {
        "launches": 1,
        "waves": counts.waves,
        **{f"executed: {name}": count for name, count in counts.instructions.items() if count},
        "bytes loaded": sum(counts.loaded.values()),
        "bytes stored": sum(counts.stored.values()) + sum(counts.atomic.values()),
        "LDS bytes read": counts.lds_read,
        "LDS bytes written": counts.lds_written,
        "scratch bytes moved": counts.scratch_read + counts.scratch_written,
    }


@dataclass(frozen=True)
class Difference:
    """One figure of one kernel that is not what it was. `kernel` is "" where the two versions call it differently."""

    kernel: str
    figure: str
    before: int
    after: int

    def as_json(self) -> dict[str, Any]:
        """A dictionary of plain JSON types."""
        return {"kernel": self.kernel, "figure": self.figure, "before": self.before, "after": self.after}


def differences(before: Figures | None, after: Figures | None) -> list[Difference]:
    """What differs between two calls, in the order of the figures; nothing where one was not counted.

    Kernels of one name belong together. Where both calls launch one kernel each, these two do whatever they are called.
    """
    if not before or not after:
        return []
    if len(before) == len(after) == 1 and before.keys() != after.keys():
        (one,), (other,) = before.values(), after.values()
        before, after = {"": one}, {"": other}
    found = []
    for kernel in dict.fromkeys((*before, *after)):
        one, other = before.get(kernel, {}), after.get(kernel, {})
        for figure in dict.fromkeys((*one, *other)):
            if one.get(figure, 0) != other.get(figure, 0):
                found.append(Difference(kernel, figure, one.get(figure, 0), other.get(figure, 0)))
    return found
