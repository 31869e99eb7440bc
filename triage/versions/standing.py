"""What a history says about a property: how it stands, when it last passed, since when it does not, what moved."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mxassay.triage.versions.history import CAMPAIGN, Entry


@dataclass(frozen=True)
class Moved:
    """Two versions of a kernel that ran the same case one after the other, with other counts."""

    before: Entry
    after: Entry

    @property
    def plans(self) -> tuple[str, str] | None:
        """The plan before and after, where another one was taken."""
        before, after = self.before.plan, self.after.plan
        return (before, after) if before != after else None

    @property
    def counts(self) -> dict[str, tuple[int, int]]:
        """Before and after, of each class that moved."""
        names = [*self.before.counts, *(name for name in self.after.counts if name not in self.before.counts)]
        pairs = {name: (self.before.counts.get(name, 0), self.after.counts.get(name, 0)) for name in names}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def as_json(self) -> dict[str, Any]:
        """A dictionary of plain JSON types."""
        return {
            "from": {"revision": self.before.revision, "kernel_hash": self.before.kernel_hash, "at": self.before.at},
            "to": {"revision": self.after.revision, "kernel_hash": self.after.kernel_hash, "at": self.after.at},
            "counts": {name: list(pair) for name, pair in self.counts.items()},
            "plans": self.plans and list(self.plans),
        }


@dataclass(frozen=True)
class Standing:
    """One property of one kernel on one device: of one case where it has a shape, else in one profile.

    Attributes:
        last: the latest verdict.
        last_passed: the latest PASS, or that a planted fault was killed or named; None where it never passed.
        failing_since: the first verdict after that; None while it passes.
        verdicts: how many there are.
        moved: the latest first.
    """

    last: Entry
    last_passed: Entry | None
    failing_since: Entry | None
    verdicts: int
    moved: tuple[Moved, ...]

    def as_json(self) -> dict[str, Any]:
        """A dictionary of plain JSON types."""
        return {
            "kernel": self.last.kernel,
            "property": self.last.property,
            "device": self.last.device,
            "shape": self.last.shape,
            "plan": self.last.plan,
            "dialect": self.last.dialect,
            "profile": self.last.profile,
            "result": self.last.result,
            "verdicts": self.verdicts,
            "last": self.last.as_json(),
            "last_passed": self.last_passed and self.last_passed.as_json(),
            "failing_since": self.failing_since and self.failing_since.as_json(),
            "moved": [moved.as_json() for moved in self.moved],
        }


ABOUT_PROPERTIES = ("check", "pytest", "faults")
"""Commands whose verdicts say how something stands; the answers of others are changes between versions, and causes."""

_GOOD = ("PASS", "killed", "equivalent", "right")
"""What is as it must be: of a property, of a planted fault, of the diagnosis of one."""


def standings(entries: Iterable[Entry]) -> list[Standing]:
    """By place, kernel, property, device, shape and dialect, in the order of their first verdicts; planted faults too,
    whose properties are called `fault:ID` and `triage:ID`.

    Nothing that passes hides what fails beside it: verdicts of a campaign are also told apart by plan and seed, and
    those on properties by profile, since few examples passing say little of many. A kernel's own plan tells nothing
    apart: another version may take another one for the same shape.

    `entries` are in the order of their times. What compared two versions, or looked for a cause, says nothing of a
    property, and is left out.
    """
    groups: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        if entry.command in ABOUT_PROPERTIES:
            groups.setdefault(_key(entry), []).append(entry)
    return [_standing(group) for group in groups.values()]


def _key(entry: Entry) -> tuple[str, ...]:
    key = (entry.place, entry.kernel, entry.property, entry.device, entry.shape, entry.dialect)
    if entry.command == "faults":
        return key
    if not entry.shape:
        return (*key, entry.profile)
    return (*key, entry.plan, entry.profile) if entry.profile.startswith(CAMPAIGN) else key


def _standing(entries: list[Entry]) -> Standing:
    passes = [index for index, entry in enumerate(entries) if entry.result in _GOOD]
    latest = passes[-1] if passes else None
    after = entries if latest is None else entries[latest + 1 :]
    counted = [entry for entry in entries if entry.counts]
    moved = [Moved(*pair) for pair in pairwise(counted)]
    return Standing(
        last=entries[-1],
        last_passed=None if latest is None else entries[latest],
        failing_since=after[0] if after else None,
        verdicts=len(entries),
        moved=tuple(pair for pair in reversed(moved) if pair.counts),
    )
