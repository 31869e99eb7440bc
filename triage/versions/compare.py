"""Two versions of a kernel on the same cases, and the one thing that became of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mxassay.errors import MxassayError
from mxassay.triage.versions.cases import Case
from mxassay.triage.versions.change import Comparison, Examination, Job, Run
from mxassay.triage.versions.figures import Difference, differences
from mxassay.triage.versions.judging import Trial, compared
from mxassay.triage.versions.version import Version

Examine = Callable[[Version, Sequence[Job]], Examination]
"""Runs jobs on a version in a process of its own (`mxassay.hosting.versions.Examiner.examine`)."""


class UntestableError(MxassayError):
    """A version that can't be tried: it does not import, or refuses every case."""


@dataclass(frozen=True)
class Counted:
    """The figures that differ on one shape."""

    case: Case
    differences: tuple[Difference, ...]


@dataclass(frozen=True, eq=False)
class Compared:
    """A comparison and what stands beside it.

    Attributes:
        base_hash, candidate_hash: the kernel hashes.
        counted: for each shape that both versions ran and that was counted.
    """

    base: Version
    candidate: Version
    comparison: Comparison
    base_hash: str
    candidate_hash: str
    counted: tuple[Counted, ...]


@dataclass
class _Tried:
    """One kernel that was tried: its digest, what it read elsewhere, and what it made of the cases."""

    base: str
    elsewhere: dict[str, str]
    examination: Examination


@dataclass(eq=False)
class Bench:
    """Runs versions on the same cases, each kernel once: another version with an equal kernel gets the same outputs.

    ready: puts a version's files where it says (`mxassay.triage.versions.version.Versions.ready`).
    """

    cases: Sequence[Case]
    examine: Examine
    ready: Callable[[Version], Version] = lambda version: version
    _tried: list[_Tried] = field(default_factory=list)

    def known(self, version: Version) -> bool:
        """Whether a version with the same kernel was tried already."""
        return self._find(version) is not None

    def _find(self, version: Version) -> Examination | None:
        for tried in self._tried:
            if tried.base == version.base and version.holds(tried.elsewhere):
                return tried.examination
        return None

    def examined(self, version: Version) -> Examination:
        """`version` on the cases, under its own plans; the first case of each shape is counted.

        Raises UntestableError.
        """
        found = self._find(version)
        if found is None:
            jobs = [Job(case, counted=case.inputs == "certified" and case.plan is None) for case in self.cases]
            found = self.examine(self.ready(version), jobs)
            self._tried.append(_Tried(version.base, version.elsewhere(found.read), found))
        if found.unopened:
            raise UntestableError(f"{version.words} must open, but: {found.unopened}")
        if all(run.refused for run in found.runs):
            raise UntestableError(f"{version.words} must take one of the cases, but: {found.runs[0].error}")
        return found

    def compared(self, base: Version, candidate: Version) -> Compared:
        """Run both and say what changed. Where the two take different plans for a case, CANDIDATE runs it under BASE's
        plan too.

        Raises UntestableError.
        """
        before, after = self.examined(base), self.examined(candidate)
        pairs = list(zip(self.cases, before.runs, after.runs, strict=True))
        swapped = self._swapped(candidate, pairs)
        trials = [Trial(case, one, other, swapped.get(number)) for number, (case, one, other) in enumerate(pairs)]
        counted = tuple(
            Counted(case, tuple(differences(one.figures, other.figures)))
            for case, one, other in pairs
            if one.figures and other.figures
        )
        figures = tuple(
            {"shape": list(entry.case.shape), "differences": [found.as_json() for found in entry.differences]}
            for entry in counted
        )
        comparison = replace(compared(trials, self.cases[0].dialect), figures=figures)
        hashes = base.digest(before.read), candidate.digest(after.read)
        return Compared(base, candidate, comparison, *hashes, counted)

    def _swapped(self, candidate: Version, pairs: list[tuple[Case, Run, Run]]) -> dict[int, Run]:
        """CANDIDATE under BASE's plans, by the case's number; a plan that CANDIDATE does not have says nothing."""
        planned = {
            number: Job(case, one.plan.fields)
            for number, (case, one, other) in enumerate(pairs)
            if case.plan is None
            and one.plan.fields is not None
            and other.plan.fields is not None
            and one.plan.fields != other.plan.fields
        }
        if not planned:
            return {}
        found = self.examine(self.ready(candidate), list(planned.values()))
        return {number: run for number, run in zip(planned, found.runs, strict=True) if not run.planless}
