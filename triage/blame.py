"""Source or compiler: the same source is run on Triton's interpreter, and compiled in other ways."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from mxassay.errors import MxassayError
from mxassay.triage.budget import TimeUp
from mxassay.triage.compilations import CHANGES, STAGES, Change, Compiled, compiled_by, first_difference
from mxassay.triage.diagnosis import Blame, XRay
from mxassay.triage.failure import Failure
from mxassay.triage.rerun import Run, again, fails

Elsewhere = Callable[[Failure], Failure]
"""Makes the call on Triton's interpreter, in a process of its own, and returns the failure with what came of it there.
Raises UnsupportedError where that can't be done."""

Other = Callable[[Failure], tuple[str, Failure, list[Compiled]]]
"""Makes the call with kernels that another Triton compiles: its version, what came of the call, and what it made of
each kernel. Raises UnsupportedError where that can't be done."""

# Constants that take another branch of the source, not another way through the compiler.
_DIRECT = "direct=False"
_BRANCHES = ("USE_ASM=False", "ROUND_IN_INTEGERS=True", _DIRECT)
_ASSEMBLY = "USE_ASM=False"
_TRITON = "Triton "


@dataclass(frozen=True)
class _Passing:
    """A compilation that passes, and where its text parts from the failing one's."""

    change: str
    stage: str
    difference: str


@dataclass
class _Tried:
    """The failing compilation, those that pass, how many differ from it, and what could not be tried."""

    failing: list[Compiled]
    passing: list[_Passing] = field(default_factory=list)
    count: int = 0
    also_wrong: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, words: str, outcome: Failure, kernels: list[Compiled]) -> None:
        """Another compilation, and what came of it."""
        parts = first_difference(self.failing, kernels)
        if parts is None and words == _DIRECT:
            parts = STAGES[0], ""  # another kernel altogether
        if parts is None:
            return  # the same code, or another course
        self.count += 1
        if not fails(outcome):
            self.passing.append(_Passing(words, *parts))
        elif words.startswith(_TRITON):
            self.also_wrong.append(words)

    @property
    def best(self) -> _Passing | None:
        """The one that passes and parts latest, the first of several."""
        return max(self.passing, key=lambda found: STAGES.index(found.stage), default=None)

    @property
    def remark(self) -> str:
        """What else a reader must know, as the end of a sentence."""
        wrong = f"; wrong with {' and '.join(self.also_wrong)} too" if self.also_wrong else ""
        tritons = [one for one in self.passing if one.change.startswith(_TRITON) and one is not self.best]
        wrong += "".join(f"; right with {one.change}, which parts at {one.stage}" for one in tritons)
        return wrong + (f"; not tried: {', '.join(self.left_out)}" if self.left_out else "")


def blame(
    failure: Failure,
    run: Run,
    elsewhere: Elsewhere,
    xray: XRay | None = None,
    changes: Sequence[Change] = CHANGES,
    others: Sequence[Other] = (),
) -> Blame:
    """Whom to blame for a failing product of a Triton kernel on the emulated card.

    Wrong on the interpreter as well: the source. Right there: the compiler, inline assembly, a hazard, or source that
    the interpreter leaves out. To tell these apart the kernel is compiled in other ways; the passing one that parts
    from the failing one latest names the stage. In turn: other options (`changes`), other plans where none of those
    passes, other Tritons (`others`). Branches for other hardware pass where the branch for this one is wrong: then
    inline assembly is blamed only if `xray` finds its operands right and its results wrong. What a TimeUp leaves
    untried is said.

    Small failures, please: the interpreter takes a tenth of a second for each tile.
    """
    if failure.out is None:
        return Blame("unknown", "the kernel raised, so there are no outputs to compare")
    if not fails(failure):
        return Blame("unknown", "the case does not fail here")
    try:
        there = elsewhere(failure)
    except MxassayError as error:
        return Blame("unknown", f"Triton's interpreter cannot run the case: {str(error).splitlines()[0]}")
    if there.out is None:
        return Blame("unknown", f"Triton's interpreter does not finish the case: {there.error}")
    if fails(there):
        return _both_wrong(failure, there)
    found = _compiled(failure, run, changes, xray, others)
    waits = [point for point in xray.checkpoints if point.what.startswith("wait states")] if xray else []
    if found.culprit == "compiler" and any(point.differing for point in waits):
        words = f"; {waits[0].differing} conversions are read sooner than the hardware allows, a hazard"
        return replace(found, statement=found.statement + words)
    return found


def _compiled(
    failure: Failure, run: Run, changes: Sequence[Change], xray: XRay | None, others: Sequence[Other]
) -> Blame:
    """Right on the interpreter: what other compilations say."""
    tried = _compilations(failure, run, changes, others)
    if not tried.failing:
        return Blame("unknown", "the interpreter is right, but no Triton kernel was launched here to compare with")
    best = tried.best
    if best is None:
        return Blame(
            "compiler",
            f"right on Triton's interpreter, wrong as compiled, and in each of {tried.count} other compilations as "
            f"well: the compiler, or source that only this device runs{tried.remark}",
        )
    if best.change in _BRANCHES:
        found = _branch(best, xray)
        return replace(found, statement=found.statement + tried.remark)
    others_pass = len(tried.passing) - 1
    also = f" (and {others_pass} more)" if others_pass else ""
    return Blame(
        "compiler",
        f"right on Triton's interpreter and when compiled with {best.change}{also}, wrong as compiled: the two "
        f"compilations part at {best.stage}{tried.remark}",
        best.stage,
        best.change,
        best.difference,
    )


def _both_wrong(failure: Failure, there: Failure) -> Blame:
    assert failure.out is not None
    assert there.out is not None
    same = torch.equal(failure.out.view(torch.int16), there.out.view(torch.int16))
    if same:
        return Blame("source", "wrong on Triton's interpreter as well, in the same bits: the source says so")
    if _out_of_range(failure):
        return Blame(
            "unknown",
            "wrong on Triton's interpreter too, but otherwise, and the case has scales that only a scaled MFMA takes",
        )
    return Blame("source", "wrong on Triton's interpreter as well, though in other bits")


def _out_of_range(failure: Failure) -> bool:
    """Whether code times scale may leave bfloat16, to which the interpreter widens."""
    operands = failure.operands
    return any(bool(((scales > 252) | (scales == 0)).any()) for scales in (operands.scales, operands.quantized.scales))


def _compilations(failure: Failure, run: Run, changes: Sequence[Change], others: Sequence[Other]) -> _Tried:
    """Compile the kernels again and again, and make the call with each."""
    with compiled_by() as failing:
        again(failure, run)
    tried = _Tried(failing)
    todo = [(words, failure, change) for words, change in changes]
    plans: list[tuple[str, Failure, Mapping[str, Any]]] = [(words, call, {}) for words, call in other_plans(failure)]
    if plans and plans[0][0] == _DIRECT:
        # Decisive, and of the options that kernel takes one alone.
        todo = [plans.pop(0), *(entry for entry in todo if entry[0].startswith("waves_per_eu"))]
    left: list[str] = []
    try:
        for group in (todo, plans):
            left = [words for words, _, _ in group]
            if group is plans and tried.passing:
                break
            for words, call, change in group:
                with compiled_by(change) as kernels:
                    outcome = again(call, run)
                tried.add(words, outcome, kernels)
                left.remove(words)
    except TimeUp:
        tried.left_out.append(f"{', '.join(left)} (the time was up)")
    for other in others if failing else ():
        try:
            version, outcome, kernels = other(failure)
        except MxassayError as error:
            tried.left_out.append(f"another Triton ({error})")
        else:
            tried.add(f"{_TRITON}{version}", outcome, kernels)
    return tried


def other_plans(failure: Failure) -> Iterator[tuple[str, Failure]]:
    """The same product by the usual kernel where the direct one was asked for, then under plans that differ in one tile
    size; none where the kernel plans for itself."""
    plan = failure.launch.plan
    if plan is None:
        return
    if plan.direct:
        yield _DIRECT, replace(failure, launch=replace(failure.launch, plan=replace(plan, direct=False)))
    for name in ("tile_k", "tile_n", "tile_m"):
        for size in (getattr(plan, name) // 2, getattr(plan, name) * 2):
            try:
                changed = replace(plan, **{name: size})
            except MxassayError:  # such a plan is not legal
                continue
            yield f"{name}={size}", replace(failure, launch=replace(failure.launch, plan=changed))


def _branch(best: _Passing, xray: XRay | None) -> Blame:
    """The branch of the source for this hardware is wrong: its own text, or the inline assembly in it."""
    words = f"right on Triton's interpreter and with {best.change}, which take another branch of the source"
    if best.change != _ASSEMBLY:
        return Blame(
            "source", f"{words}: the branch for this device is wrong", best.stage, best.change, best.difference
        )
    if _assembly_wrong(xray):
        return Blame(
            "compiler", f"{words}: the inline assembly gets the right operands and gives wrong results", best.stage,
            best.change, best.difference,
        )  # fmt: skip
    return Blame(
        "source", f"{words}: what the branch with inline assembly gives it, or makes of its results, is wrong",
        best.stage, best.change, best.difference,
    )  # fmt: skip


def _assembly_wrong(xray: XRay | None) -> bool:
    """Whether the conversions' operands are right, and the first wrong thing is a code."""
    if xray is None:
        return False
    inputs = [point for point in xray.checkpoints if point.what.startswith("operands of the conversions")]
    if any(point.differing for point in inputs):
        return False
    first = xray.first_divergence
    return first is not None and first.stage == "quantizer.element"
