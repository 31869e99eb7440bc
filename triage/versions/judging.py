"""From the outputs of two versions to the one answer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from mxassay.properties.operands import Operands
from mxassay.reference import Expectation
from mxassay.triage.versions.cases import NOT_FINITE, Case, dialects_by_likeness, edge_of
from mxassay.triage.versions.change import SEVERITY, Change, Comparison, Row, Run


@dataclass(frozen=True, eq=False)
class Trial:
    """One case as both versions ran it.

    Attributes:
        base, candidate: each under its own plan.
        swapped: CANDIDATE under BASE's plan; None where the plans are the same, or where it can't be made.
    """

    case: Case
    base: Run
    candidate: Run
    swapped: Run | None = None


@dataclass(frozen=True)
class Reading:
    """What explains all outputs of a version: a dialect, but for rows that hold one of `apart`, whose policy is none of
    a known dialect.
    """

    dialect: str
    apart: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        return self.dialect + (f", but for {' and '.join(self.apart)}" if self.apart else "")

    def excused(self, case: Case, outputs: torch.Tensor) -> torch.Tensor:
        """bool like `outputs` (M, N): those that the dialect need not explain."""
        found = torch.zeros_like(outputs, dtype=torch.bool)
        if case.inputs == "edges":
            for row in range(len(found)):
                found[row] = edge_of(row) in self.apart
        return found


def compared(trials: Sequence[Trial], dialect: str) -> Comparison:
    """The answer for all cases together.

    `dialect`: what BASE is said to implement. Where it does not explain all of BASE's outputs and another one does,
    that one is BASE's dialect.
    """
    judge = _Judge()
    base = judge.reading([(trial.case, trial.base) for trial in trials], dialect)
    judged_by = base or Reading(dialect)
    candidate = judge.reading([(trial.case, trial.candidate) for trial in trials], judged_by.dialect)
    rows = tuple(judge.row(trial, judged_by, candidate) for trial in trials)
    told = [row for row in rows if row.change is not None]
    change = max((row.change for row in told if row.change), key=SEVERITY.index, default=Change.IDENTICAL)
    wrong = any(row.wrong for row in rows)
    names = [reading.words if reading else None for reading in (base, candidate)]
    return Comparison(change, _summary(change, told), wrong, rows, names[0], names[1])


def _summary(change: Change, rows: list[Row]) -> str:
    same = [row for row in rows if row.change is change]
    if change is Change.IDENTICAL:
        both = [row for row in same if row.base_wrong]
        wrong = f"; {len(both)} of them wrong in both, bit for bit alike" if both else ""
        return f"all {len(same)} cases give the same bits{wrong}"
    words = list(dict.fromkeys(row.words for row in same))
    more = f" (and {len(words) - 1} more)" if len(words) > 1 else ""
    return f"in {len(same)} of {len(rows)} cases: {words[0]}{more}"


class _Judge:
    """Judges runs; what must come out is computed once for each case and dialect."""

    def __init__(self) -> None:
        self._operands: dict[Case, Operands] = {}
        self._expectations: dict[tuple[Case, str], Expectation] = {}

    def _expected(self, case: Case, dialect: str) -> Expectation:
        if (case, dialect) not in self._expectations:
            if case not in self._operands:
                self._operands[case] = case.operands()
            self._expectations[case, dialect] = replace(self._operands[case], dialect=dialect).expectation
        return self._expectations[case, dialect]

    def wrong(self, case: Case, run: Run, reading: Reading, like: Run | None = None) -> torch.Tensor | None:
        """bool (M, N): which outputs are wrong; None where there is no output to look at. Outputs that the reading
        excuses are wrong where they differ from those of `like`.
        """
        expected = self._expected(case, reading.dialect)
        if run.error or run.out is None or _unlike(run.out, expected.exact):
            return None
        excused = reading.excused(case, run.out)
        if not excused.any():
            return expected.wrong(run.out)
        differing = excused & _differing(like, run, expected) if like else torch.zeros_like(excused)
        return torch.where(excused, differing, expected.wrong(run.out))

    def right(self, case: Case, run: Run, reading: Reading, like: Run | None = None) -> bool:
        wrong = self.wrong(case, run, reading, like)
        return wrong is not None and not wrong.any()

    def reading(self, runs: list[tuple[Case, Run]], first: str) -> Reading | None:
        """What explains every run that was not refused: the dialect `first` before those with its scale rule before all
        others; where none does, the same once more without rows that hold Inf or NaN.
        """
        runs = [(case, run) for case, run in runs if not run.refused and not run.planless]
        if not runs or any(run.error or run.out is None for _, run in runs):
            return None
        for apart in ((), NOT_FINITE):
            for dialect in dialects_by_likeness(first):
                if all(self.right(case, run, Reading(dialect, apart)) for case, run in runs):
                    return Reading(dialect, tuple(edge for edge in apart if self._apart(runs, dialect, edge)))
        return None

    def _apart(self, runs: list[tuple[Case, Run]], dialect: str, edge: str) -> bool:
        """Whether rows with `edge` break the dialect."""
        others = tuple(other for other in NOT_FINITE if other != edge)
        return not all(self.right(case, run, Reading(dialect, others)) for case, run in runs)

    def row(self, trial: Trial, reading: Reading, after: Reading | None) -> Row:
        case, base, candidate = trial.case, trial.base, trial.candidate
        row = Row(case, None, base.plan.words, candidate.plan.words)
        if base.planless or candidate.planless:
            return replace(row, words="one of the two has no such plan")
        if base.refused and candidate.refused:
            return replace(row, words=f"both refuse it: {base.error}")
        expected = self._expected(case, reading.dialect)
        base_wrong, candidate_wrong = self.wrong(case, base, reading), self.wrong(case, candidate, reading, base)
        row = replace(
            row,
            outputs=expected.exact.numel(),
            certified=int(expected.certified.sum()),
            base_wrong=_count(base_wrong, expected.exact.numel()),
            candidate_wrong=_count(candidate_wrong, expected.exact.numel()),
            differing=int(_differing(base, candidate, expected).sum()),
        )
        change, words, wrong = self._change(trial, reading, after, base_wrong, candidate_wrong)
        row = replace(row, change=change, words=words, wrong=wrong)
        if change is Change.IDENTICAL or base.out is None or candidate.out is None:
            return row
        telling = _differing(base, candidate, expected)
        if candidate_wrong is not None and (telling & candidate_wrong).any():
            telling &= candidate_wrong
        return replace(row, first=_first(telling, base, candidate, expected)) if telling.any() else row

    def _change(
        self,
        trial: Trial,
        reading: Reading,
        after: Reading | None,
        base_wrong: torch.Tensor | None,
        candidate_wrong: torch.Tensor | None,
    ) -> tuple[Change, str, bool]:
        """The change, why, and whether CANDIDATE is worse off."""
        case, base, candidate, swapped = trial.case, trial.base, trial.candidate, trial.swapped
        if (base.error and base.error == candidate.error) or _same_bits(base, candidate):
            return Change.IDENTICAL, "", False
        base_right = base_wrong is not None and not base_wrong.any()
        by_plan = swapped is not None and (_same_bits(base, swapped) or self.right(case, swapped, reading, base))
        plans = f"{candidate.plan.words}, where {base.plan.words} was taken"
        if candidate.refused:
            return Change.CONTRACT, f"CANDIDATE refuses what BASE took: {candidate.error}", True
        if candidate_wrong is not None and not candidate_wrong.any():
            if not base_right:
                how = f"BASE refuses it: {base.error}" if base.refused else "BASE is wrong and CANDIDATE is right"
                hidden = swapped is not None and not self.right(case, swapped, reading, base)
                return Change.FIXED, how + (f", but only under {candidate.plan.words}" if hidden else ""), False
            if swapped is not None and _same_bits(base, swapped):
                return Change.PLAN, f"other bits inside the bound under plan {plans}", False
            return Change.ORDER_ONLY, "other bits only where order decides, all inside the bound", False
        if after is not None and after.dialect != reading.dialect:
            words = f"CANDIDATE is right under dialect {after.words}, not under {reading.words}"
            return Change.CONTRACT, words, True
        if by_plan:
            how = candidate.error or "wrong outputs"
            return Change.PLAN, f"{how} under plan {plans}; right under that one", True
        if candidate_wrong is None:
            return Change.FAULT, candidate.error or "CANDIDATE gives no output of the right form", True
        if edges := _edges(case, candidate_wrong):
            policy = f"rows with {' and '.join(edges)} follow another policy, of no known dialect"
            return Change.CONTRACT, policy, True
        was = "" if base_right else "; BASE is wrong too, with other bits"
        given = f" under plan {candidate.plan.words}" if case.plan else ""
        return Change.FAULT, f"wrong outputs{given} in every dialect{was}", True


def _edges(case: Case, wrong: torch.Tensor) -> list[str]:
    """What the wrong rows hold, where every one of them holds something that is not finite; nothing otherwise.

    What becomes of Inf and NaN is a policy of each kernel; what becomes of finite numbers is not.
    """
    if case.inputs != "edges":
        return []
    found = {edge_of(row) for row in wrong.any(1).nonzero().flatten().tolist()}
    return [edge for edge in NOT_FINITE if edge in found] if found and found <= set(NOT_FINITE) else []


def _unlike(out: torch.Tensor, expected: torch.Tensor) -> bool:
    return out.shape != expected.shape or out.dtype != expected.dtype


def _count(wrong: torch.Tensor | None, outputs: int) -> int:
    return outputs if wrong is None else int(wrong.sum())


def _same_bits(one: Run, other: Run) -> bool:
    if one.error or other.error or one.out is None or other.out is None or _unlike(one.out, other.out):
        return False
    return not _bits_differ(one.out, other.out).any()


def _bits_differ(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Any NaN is like any other: payloads are nobody's contract."""
    if one.dtype != torch.bfloat16:
        return one != other
    return (one.view(torch.int16) != other.view(torch.int16)) & ~(one.isnan() & other.isnan())


def _differing(base: Run, candidate: Run, expected: Expectation) -> torch.Tensor:
    """bool (M, N); all of them where one has no output of the right form."""
    outs = [run.out for run in (base, candidate)]
    if outs[0] is None or outs[1] is None or any(out is not None and _unlike(out, expected.exact) for out in outs):
        return torch.ones_like(expected.certified)
    return _bits_differ(outs[0], outs[1])


def _shown(value: torch.Tensor) -> str:
    return f"{float(value):g} (0x{int(value.reshape(1).view(torch.int16)) & 0xFFFF:04X})"


def _first(telling: torch.Tensor, base: Run, candidate: Run, expected: Expectation) -> str:
    if base.out is None or candidate.out is None or _unlike(base.out, expected.exact):
        return ""
    if _unlike(candidate.out, expected.exact):
        return f"{str(candidate.out.dtype).removeprefix('torch.')} of shape {tuple(candidate.out.shape)}"
    i, j = (int(x) for x in telling.nonzero()[0])
    certified = bool(expected.certified[i, j])
    must = (
        _shown(expected.exact[i, j])
        if certified
        else f"within {_shown(expected.lower[i, j])} and {_shown(expected.upper[i, j])}"
    )
    return f"out[{i}, {j}]: {_shown(base.out[i, j])} became {_shown(candidate.out[i, j])}, must be {must}"
