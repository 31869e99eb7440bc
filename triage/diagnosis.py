"""What triage finds out about a failure, as records: the suspects, the x-ray, and whom to blame."""

from dataclasses import dataclass, field

from mxassay.triage.failure import Failure


@dataclass(frozen=True)
class Explanation:
    """What one suspect, a wrong rule, makes of the failing case.

    Attributes:
        suspect: its id.
        class_: a key of `mxassay.properties.faults.CLASSES`.
        stage: one of `mxassay.properties.faults.STAGES`.
        statement: the wrong rule, in one sentence.
        reproduced: of the wrong outputs, how many have the bits that this rule gives.
        wrong: how many outputs are wrong.
        spoiled: of the right outputs, how many this rule would have made wrong.
        open: of the wrong outputs, how many this rule allows and does not settle: its own bound for them is wide.
    """

    suspect: str
    class_: str
    stage: str
    statement: str
    reproduced: int
    wrong: int
    spoiled: int
    open: int = 0

    @property
    def exact(self) -> bool:
        """Whether the rule gives every output bit for bit that it settles, and those are most of the wrong ones."""
        return self.spoiled == 0 and self.reproduced > self.open and self.reproduced + self.open == self.wrong


@dataclass(frozen=True)
class Checkpoint:
    """One row of an x-ray: a point in the data's way, and whether what was seen there is what must be.

    Attributes:
        stage: one of `mxassay.properties.faults.STAGES`.
        what: what was looked at, such as "scales of W as the MFMA reads them".
        compared, differing: how many values were compared, and how many are wrong.
        index: of the first wrong value, in the tensor's own axes, such as ("row 3", "block 7").
        expected, found: that value, for people (hex and decimal).
        kernel, pc, instruction: the instruction that made or used it; pc in bytes from the kernel's start.
        source: file name and line, where debug information has them.
        wave, lane: within the launch and the wave; None where no single one can be named.
        place: register or address, such as "v17" or "LDS 0x1a0".
    """

    stage: str
    what: str
    compared: int
    differing: int
    index: tuple[str, ...] = ()
    expected: str = ""
    found: str = ""
    kernel: str = ""
    pc: int | None = None
    instruction: str = ""
    source: tuple[str, int] | None = None
    wave: int | None = None
    lane: int | None = None
    place: str = ""


@dataclass(frozen=True)
class XRay:
    """The checkpoints in the data's order; `notes` says what could not be looked at, and why."""

    checkpoints: tuple[Checkpoint, ...]
    notes: tuple[str, ...] = ()

    @property
    def first_divergence(self) -> Checkpoint | None:
        """The first checkpoint with a wrong value."""
        return next((checkpoint for checkpoint in self.checkpoints if checkpoint.differing), None)


@dataclass(frozen=True)
class Blame:
    """Source or compiler.

    Attributes:
        culprit: "source", "compiler" (also inline assembly and hazards) or "unknown".
        statement: why, in one sentence.
        compiler_stage: the first of ttir, ttgir, llir, amdgcn whose text differs from a passing compilation's.
        passing: what was changed to get the passing compilation, such as "num_stages=1".
        difference: the first differing lines of that stage, as a unified diff.
    """

    culprit: str
    statement: str
    compiler_stage: str | None = None
    passing: str = ""
    difference: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All that was found, most telling first.

    Attributes:
        failure: as it came. shrunk: the smallest that still fails in the same way.
        class_, stage: what is ranked first, or None where nothing points anywhere.
        explanations: suspects, best first; only those that reproduce something.
        xray, blame: None where they don't apply; `notes` says why.
        seconds: by step.
        statement: what a stage looked at by itself does wrong, in one sentence; "" where none was found wrong.
    """

    failure: Failure
    shrunk: Failure
    class_: str | None
    stage: str | None
    explanations: tuple[Explanation, ...] = ()
    xray: XRay | None = None
    blame: Blame | None = None
    notes: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    statement: str = ""
