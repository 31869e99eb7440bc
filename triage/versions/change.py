"""What can become of a kernel between two versions, as records."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch

from mxassay.triage.versions.cases import Case


class Change(Enum):
    """The closed set of answers, the mildest first."""

    IDENTICAL = "identical"
    ORDER_ONLY = "order-only"
    """Other bits only where the certificate does not hold, all of them inside the bound."""
    FIXED = "fixed"
    PLAN = "plan change"
    """Other bits, right or wrong, only because another plan is taken."""
    CONTRACT = "contract change"
    """The rules of another dialect, another policy at the edges, or a refusal of what was taken before."""
    FAULT = "fault"


SEVERITY = tuple(Change)


@dataclass(frozen=True)
class Planned:
    """A plan in words, and its fields where the plan can be made again from them."""

    words: str = "own"
    fields: dict[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class Run:
    """What one version made of one case under one plan.

    Attributes:
        out: what it returned; None where it returned nothing that could be an output.
        plan: what it was launched with.
        error: what it raised, or else did that nobody may; "" otherwise.
        refused: whether `error` says that the case is outside its contract.
        planless: whether `error` says that the version has no such plan as it should be launched with.
        figures: what was launched and executed, where that was counted (`mxassay.triage.versions.figures`).
    """

    out: torch.Tensor | None
    plan: Planned = Planned()
    error: str = ""
    refused: bool = False
    planless: bool = False
    seconds: float = 0.0
    figures: dict[str, Any] | None = None


@dataclass(frozen=True)
class Job:
    """A case for one version to run. `plan`: fields of the plan to launch with instead of the case's."""

    case: Case
    plan: dict[str, Any] | None = None
    counted: bool = False


@dataclass(frozen=True, eq=False)
class Examination:
    """What one version made of its jobs.

    Attributes:
        runs: one for each job.
        read: files of the version's tree that it read, by path inside it.
        unopened: why the version can't be tried; "" where it can.
    """

    runs: tuple[Run, ...]
    read: tuple[str, ...] = ()
    unopened: str = ""


@dataclass(frozen=True)
class Row:
    """One case of a comparison: what changed, and the evidence.

    Attributes:
        outputs, certified: how many there are. differing: between the two. base_wrong, candidate_wrong: under the
            dialect of BASE.
        first: the first output that tells, in words.
        wrong: whether CANDIDATE is worse off: it would fail a check.
    """

    case: Case
    change: Change | None
    base_plan: str
    candidate_plan: str
    words: str = ""
    wrong: bool = False
    outputs: int = 0
    certified: int = 0
    differing: int = 0
    base_wrong: int = 0
    candidate_wrong: int = 0
    first: str = ""

    def as_json(self) -> dict[str, Any]:
        """A dictionary of plain JSON types."""
        return {
            "shape": list(self.case.shape),
            "inputs": self.case.inputs,
            "change": self.change and self.change.value,
            "wrong": self.wrong,
            "words": self.words,
            "base_plan": self.base_plan,
            "candidate_plan": self.candidate_plan,
            "outputs": self.outputs,
            "certified": self.certified,
            "differing": self.differing,
            "base_wrong": self.base_wrong,
            "candidate_wrong": self.candidate_wrong,
            "first": self.first,
        }


@dataclass(frozen=True)
class Comparison:
    """The one answer, and the evidence case by case.

    Attributes:
        change: the most severe of the rows'. words: why, in one sentence.
        wrong: whether CANDIDATE is worse than BASE.
        base_dialect, candidate_dialect: what explains all outputs; None where nothing does.
    """

    change: Change
    words: str
    wrong: bool
    rows: tuple[Row, ...]
    base_dialect: str | None
    candidate_dialect: str | None
    figures: tuple[dict[str, Any], ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """A dictionary of plain JSON types."""
        return {
            "change": self.change.value,
            "words": self.words,
            "worse": self.wrong,
            "base_dialect": self.base_dialect,
            "candidate_dialect": self.candidate_dialect,
            "cases": [row.as_json() for row in self.rows],
            "figures": list(self.figures),
        }
