"""From a failing call to what is wrong: judges first, then the smallest case, suspects, stages, the x-ray."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from mxassay.properties.faults import STAGES
from mxassay.triage.budget import Clock, TimeUp, within
from mxassay.triage.circumstances import Circumstance, circumstance
from mxassay.triage.diagnosis import Blame, Checkpoint, Diagnosis, Explanation, XRay
from mxassay.triage.discriminating import tell_apart
from mxassay.triage.exams import JUDGES, Seen, exams_for, look
from mxassay.triage.failure import Failure
from mxassay.triage.prior import OF_FAULTS, OF_STAGES, likely
from mxassay.triage.rerun import Run, again, fails, malformed
from mxassay.triage.shrink import shrink
from mxassay.triage.suspects import SUSPECTS, exact, explanations
from mxassay.triage.suspects.suspect import Suspect

if TYPE_CHECKING:
    from mxassay.properties.kernel import KernelUnderTest

XRays = Callable[[Failure], XRay]
Blames = Callable[[Failure], Blame]

_Answer = TypeVar("_Answer")


@dataclass
class _Findings:
    """What is known so far."""

    failure: Failure
    shrunk: Failure
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    explanations: tuple[Explanation, ...] = ()
    seen: Seen | None = None
    xray: XRay | None = None
    blame: Blame | None = None
    circumstance: Circumstance | None = None

    @contextmanager
    def step(self, name: str, seconds: float) -> Iterator[None]:
        """Time a step, and break it off after so many seconds of processor time."""
        started = time.perf_counter()
        try:
            with within(seconds):
                yield
        except TimeUp:
            self.notes.append(f"{name}: not finished within its {seconds:.1f} s of processor time, and broken off")
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + round(time.perf_counter() - started, 3)


def diagnose(
    failure: Failure,
    run: Run,
    *,
    kernel: "KernelUnderTest | None" = None,
    xray: XRays | None = None,
    blame: Blames | None = None,
    seconds: float = 10.0,
) -> Diagnosis:
    """Find out what is wrong.

    Args:
        failure: a call that failed, or with `out` None and `error` what else a property found wrong.
        run: makes a call on the kernel, again and again.
        kernel: the open kernel, so that stages can be looked at by themselves; judged by outputs alone without it.
        xray, blame: how to look into the code object, and whom to blame; asked where they are given, the x-ray of the
            shrunk case. An error of theirs becomes a note.
        seconds: of processor time, what shrinking, suspects and stages may take together. Judges, x-ray and blame may
            take as much again each; what other processes do for `blame` is for it to limit. Each step is broken off
            when its time is up.

    In turn: judges (a broken judge makes every kernel look broken); the case made small; suspects on the small case,
    those that explain it bit for bit also on the case as it came; where several are left, other calls for which they
    foresee different outputs; where none is left, each stage by itself, beginning with those that the failing property
    is about; the x-ray; and at last what the property alone suggests. What was not found, and what was not tried for
    lack of time, is said in `notes`.
    """
    found = _Findings(failure, failure)
    if kernel is not None:
        with found.step("judges", seconds):
            _judge(found, kernel)
        if found.seen is not None:
            return _diagnosis(found)
    clock = Clock(seconds)
    if failure.out is None and failure.operands.a.any():
        # The property that failed may have said no more than that something is wrong with the call.
        came = failure
        with found.step("shrink", 0.4 * seconds):
            came = again(failure, run)
        if came.out is not None and fails(came):
            found.failure = found.shrunk = failure = came
    product = failure.out is not None and not malformed(failure)
    if failure.operands.a.any():
        with found.step("shrink", 0.6 * seconds):
            found.shrunk = shrink(failure, run, seconds=0.4 * seconds)
        if found.shrunk is failure and fails(failure):
            found.notes.append("the call did not fail again in the same way, so it was not made smaller")
    left: list[Explanation] = []
    if product:
        with found.step("suspects", clock.left):
            left = _suspects(found, run, clock)
    if xray is not None and (product or _faulted(failure)):
        with found.step("x-ray", seconds):
            found.xray = _asked("x-ray", xray, found)
        left = _by_divergence(found, left)
    if not _settled(left) and (kernel is not None or (product and not left)):
        with found.step("stages", clock.left):
            if product and not left:
                _contiguous(found, run)
            if kernel is not None and found.seen is None:
                _stages(found, kernel, left, clock)
            if product and not left and found.seen is None:
                _circumstance(found, run, clock)
    if blame is not None and product:
        with found.step("blame", seconds):
            found.blame = _asked("blame", blame, found)
    return _diagnosis(found)


def _judge(found: _Findings, kernel: "KernelUnderTest") -> None:
    """Whether a judge gives a wrong answer; the emulated card is one where it runs the kernel."""
    every = JUDGES if kernel.device == "emulated" else [exam for exam in JUDGES if exam.id != "card"]
    for exam, seen in look(every, kernel, found.notes.append):
        found.seen = seen
        found.notes.append(f"the judge is wrong, not the kernel ({exam.id}): {seen.statement}")
        return


def _settled(left: Sequence[Explanation]) -> bool:
    return len({(one.class_, one.stage) for one in left}) == 1


def _suspects(found: _Findings, run: Run, clock: Clock) -> list[Explanation]:
    """Find all explanations, of the case as it came or of the small one; return those exact in every call that was
    made."""

    def held(failure: Failure, among: Sequence[Suspect] | None = None) -> tuple[Explanation, ...]:
        return explanations(failure, among, until=lambda: clock.up, told=found.notes.append)

    small = held(found.shrunk) if found.shrunk is not found.failure else ()
    found.explanations = small
    likely_ones = [SUSPECTS[one.suspect] for one in exact(small)]
    if clock.up:
        if likely_ones:
            found.notes.append("the rules were held against the small case alone, not the whole one: the time was up")
        return exact(small)
    whole = held(found.failure, likely_ones or None)
    if not exact(whole) and likely_ones and not clock.up:
        whole = held(found.failure)
    left = exact(whole)
    found.explanations = whole or small
    if not left:
        if likely_ones:
            found.notes.append("rules that explain the small case do not explain the whole one")
        return []
    if not _settled(left) and not clock.up:
        suspects = [SUSPECTS[one.suspect] for one in left]
        kept, words = tell_apart(suspects, found.failure, run, until=lambda: clock.up)
        found.notes += words
        ids = {suspect.id for suspect in kept}
        left = [one for one in left if one.suspect in ids]
    first = {one.suspect for one in left}
    found.explanations = (*left, *(one for one in whole if one.suspect not in first))
    return left


def _contiguous(found: _Findings, run: Run) -> None:
    """Whether a contiguous copy of A gives the right product where a view of it does not."""
    failure = found.failure
    if failure.placement.view == "contiguous":
        return
    plain = again(replace(failure, placement=replace(failure.placement, view="contiguous")), run)
    if not fails(plain):
        words = f"a contiguous copy of A gives the right product, {failure.placement.view} do not"
        found.notes.append(words)
        divergence = found.xray.first_divergence if found.xray else None
        # Other strides are other code, whose registers may be at fault, not what they hold.
        if divergence is None or divergence.stage == "activations":
            found.seen = Seen("strides", "activations", words)


def _circumstance(found: _Findings, run: Run, clock: Clock) -> None:
    """What the small case needs in order to fail."""
    found.circumstance = circumstance(found.shrunk, run, lambda: clock.up)
    if found.circumstance is not None:
        found.notes.append(f"the small case fails only where {found.circumstance.words}")


def _faulted(failure: Failure) -> bool:
    """Whether the kernel reached outside of every buffer, which an x-ray follows up to there."""
    return failure.out is None and "MemoryFault" in failure.error


def _by_divergence(found: _Findings, left: list[Explanation]) -> list[Explanation]:
    """Of several rules that explain everything, those of the stage where the x-ray first sees a wrong value."""
    divergence = found.xray.first_divergence if found.xray else None
    chosen = [one for one in left if divergence is not None and one.stage == divergence.stage]
    if _settled(left) or not chosen:
        return left
    found.notes.append(f"the x-ray's first divergence, at {chosen[0].stage}, chooses among rules that explain as much")
    ids = {one.suspect for one in chosen}
    found.explanations = (*chosen, *(one for one in found.explanations if one.suspect not in ids))
    return chosen


def _stages(found: _Findings, kernel: "KernelUnderTest", left: list[Explanation], clock: Clock) -> None:
    """Look at stages by themselves until one is wrong. Where suspects are left, only a stage of theirs settles it."""
    theirs = {(one.class_, one.stage) for one in left}
    stray = "written, though nobody may" in found.failure.error
    plan = found.failure.launch.plan
    joined = plan is not None and plan.joined and plan.splits > 1
    exams = exams_for("surroundings" if stray else found.failure.property, found.failure.out is not None, joined)
    looked = 0
    try:
        for exam in exams:
            if clock.up:
                raise TimeUp
            for _, seen in look([exam], kernel, found.notes.append):
                if _seen_right(found, seen.stage):
                    found.notes.append(
                        f"{exam.id} is left aside, since the x-ray sees {seen.stage} right: {seen.statement}"
                    )
                elif not theirs or (seen.class_, seen.stage) in theirs:
                    found.seen = seen
                    found.notes.append(f"looked at by itself ({exam.id}): {seen.statement}")
                    return
            looked += 1
    except TimeUp:
        left_out = f"{len(exams) - looked} of {len(exams)} looks at a stage by itself were left out"
        found.notes.append(f"{left_out}: the time was up")


def _seen_right(found: _Findings, stage: str) -> bool:
    """Whether the x-ray of the failing call looked at this stage, and first sees something wrong behind it."""
    divergence = found.xray.first_divergence if found.xray else None
    if found.xray is None or divergence is None or stage not in STAGES or divergence.stage not in STAGES:
        return False
    looked = [point for point in found.xray.checkpoints if point.stage == stage and point.compared]
    behind = STAGES.index(divergence.stage) > STAGES.index(stage)
    return behind and bool(looked) and not any(point.differing for point in looked)


def _asked(what: str, ask: Callable[[Failure], _Answer], found: _Findings) -> _Answer | None:
    try:
        return ask(found.shrunk)
    except KeyboardInterrupt:
        raise
    except Exception as error:
        found.notes.append(f"no {what}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        return None


def _diagnosis(found: _Findings) -> Diagnosis:
    class_, stage = None, None
    left = exact(found.explanations)
    divergence = found.xray.first_divergence if found.xray else None
    if found.seen is not None:
        class_, stage = found.seen.class_, found.seen.stage
    elif left:
        class_, stage = left[0].class_, left[0].stage
    else:
        class_, stage = _guessed(found, divergence)
    if not left and found.failure.out is not None and found.seen is None:
        found.notes.append(f"none of {len(SUSPECTS)} wrong rules gives the wrong outputs bit for bit")
    return Diagnosis(
        found.failure,
        found.shrunk,
        class_,
        stage,
        _chosen_first(found),
        found.xray,
        found.blame,
        tuple(dict.fromkeys(found.notes)),
        found.seconds,
        found.seen.statement if found.seen else "",
    )


def _guessed(found: _Findings, divergence: Checkpoint | None) -> tuple[str | None, str | None]:
    """Class and stage where no rule and no look at a stage by itself tells them: the notes say from what."""
    guess = likely(found.failure)
    needed = found.circumstance.class_ if found.circumstance is not None else None
    stage = divergence.stage if divergence is not None else guess.stage
    class_ = needed or guess.class_
    if divergence is not None and _faulted(found.failure):
        class_ = OF_FAULTS.get(divergence.stage, class_)
    if class_ is None and stage is not None:
        class_ = OF_STAGES[stage]
        found.notes.append(f"the class is a guess: what goes wrong at stage {stage} most often is {class_}")
    elif class_ is None:
        found.notes.append("nothing points anywhere: no rule, no stage and no property")
    elif needed is None and divergence is None:
        found.notes.append(f"no rule and no stage explains it; {guess.statement}")
    return class_, stage


def _chosen_first(found: _Findings) -> tuple[Explanation, ...]:
    """Explanations, those of the stage that was found wrong first."""
    seen = found.seen
    if seen is None:
        return found.explanations
    return tuple(
        sorted(
            found.explanations,
            key=lambda one: (
                not one.exact,
                one.suspect != seen.suspect,
                (one.class_, one.stage) != (seen.class_, seen.stage),
            ),
        )
    )
