"""Source or compiler: the same source is run on Triton's interpreter, and compiled in other ways."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from mxassay.errors import MxassayError
from mxassay.triage.compilations import CHANGES, STAGES, Change, Compiled, compiled_by, first_difference
from mxassay.triage.diagnosis import Blame, XRay
from mxassay.triage.failure import Failure
from mxassay.triage.rerun import Run, again, fails

Elsewhere = Callable[[Failure], Failure]
"""Makes the call on Triton's interpreter, in a process of its own, and returns the failure with what came of it there.
Raises UnsupportedError where that can't be done."""

# Constants that take another branch of the source, not another way through the compiler.
_BRANCHES = ("USE_ASM=False", "ROUND_IN_INTEGERS=True")
_ASSEMBLY = "USE_ASM=False"


@dataclass(frozen=True)
class _Passing:
    """A compilation that passes, and where its text parts from the failing one's."""

    change: str
    stage: str
    difference: str


def blame(
    failure: Failure, run: Run, elsewhere: Elsewhere, xray: XRay | None = None, changes: Sequence[Change] = CHANGES
) -> Blame:
    """Whom to blame for a failing product of a Triton kernel on the emulated card.

    Wrong on the interpreter as well: the source. Right there: the compiler, inline assembly, a hazard, or source that
    the interpreter leaves out. To tell these apart the kernel is compiled in other ways; the passing one that parts
    from the failing one latest names the stage. Branches for other hardware pass where the branch for this one is
    wrong: then inline assembly is blamed only if `xray` finds its operands right and its results wrong.

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
    found = _compiled(failure, run, changes, xray)
    waits = [point for point in xray.checkpoints if point.what.startswith("wait states")] if xray else []
    if found.culprit == "compiler" and any(point.differing for point in waits):
        words = f"; {waits[0].differing} conversions are read sooner than the hardware allows, a hazard"
        return replace(found, statement=found.statement + words)
    return found


def _compiled(failure: Failure, run: Run, changes: Sequence[Change], xray: XRay | None) -> Blame:
    """Right on the interpreter: what other compilations say."""
    failing, passing, tried = _compilations(failure, run, changes)
    if not failing:
        return Blame("unknown", "the interpreter is right, but no Triton kernel was launched here to compare with")
    if not passing:
        return Blame(
            "compiler",
            f"right on Triton's interpreter, wrong as compiled, and in each of {tried} other compilations as well: the "
            "compiler, or source that only this device runs",
        )
    best = max(passing, key=lambda found: STAGES.index(found.stage))
    if best.change in _BRANCHES:
        return _branch(best, xray)
    others = len(passing) - 1
    also = f" (and {others} more)" if others else ""
    return Blame(
        "compiler",
        f"right on Triton's interpreter and when compiled with {best.change}{also}, wrong as compiled: the two "
        f"compilations part at {best.stage}",
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


def _compilations(failure: Failure, run: Run, changes: Sequence[Change]) -> tuple[list[Compiled], list[_Passing], int]:
    """The failing compilation, those that pass, and how many were tried."""
    with compiled_by() as failing:
        again(failure, run)
    passing, tried = [], 0
    for words, change in changes:
        with compiled_by(change) as kernels:
            outcome = again(failure, run)
        parts = first_difference(failing, kernels)
        if parts is None:
            continue  # the same code, or another course
        tried += 1
        if not fails(outcome):
            passing.append(_Passing(words, *parts))
    return failing, passing, tried


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
