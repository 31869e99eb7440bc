"""Running a failing call again, as it was or changed."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from mxassay.errors import ContractError
from mxassay.triage.budget import TimeUp
from mxassay.triage.failure import Failure

if TYPE_CHECKING:
    from mxassay.properties.kernel import KernelUnderTest

Run = Callable[[Failure], torch.Tensor]
"""Makes the call of a failure on some kernel and returns bfloat16 (M, N) on the CPU. Raises what the kernel raises, and
PropertyError where bytes were written that nobody may write."""


def on(kernel: "KernelUnderTest") -> Run:
    """Calls on an open kernel, every buffer among poison. Shapes that it does not take are refused, not tried."""

    def run(failure: Failure) -> torch.Tensor:
        shape, takes = failure.operands.shape, kernel.contract
        if not takes.admits(shape):
            raise ContractError(f"M, N and K must be multiples of {takes.multiples}, not {shape}")
        return kernel.run(failure.operands, failure.launch, failure.placement).out

    return run


def again(failure: Failure, run: Run) -> Failure:
    """The same call, with what came of it now: an output, or in `error` why there is none."""
    try:
        return replace(failure, out=run(failure), error="")
    except (KeyboardInterrupt, TimeUp):
        raise
    except BaseException as error:  # a kernel that exits has failed too
        return replace(failure, out=None, error=sentence(error))


def sentence(error: BaseException) -> str:
    """What is wrong, without the facts around it: one line."""
    facts = getattr(error, "facts", None)
    text = facts["wrong"] if facts else f"{type(error).__name__}: {error}"
    return str(text).strip().splitlines()[0] if str(text).strip() else type(error).__name__


def fails(failure: Failure) -> bool:
    """Whether the call went wrong: no output, one of another form, or a wrong value."""
    return failure.out is None or malformed(failure) or bool(wrong_outputs(failure).any())


def malformed(failure: Failure) -> bool:
    """Whether the output is no bfloat16 (M, N)."""
    exact = failure.operands.expectation.exact
    return failure.out is not None and (failure.out.dtype != torch.bfloat16 or failure.out.shape != exact.shape)


def wrong_outputs(failure: Failure) -> torch.Tensor:
    """bool (M, N). The output must be there and well-formed."""
    assert failure.out is not None
    return failure.operands.expectation.wrong(failure.out)


def kind(failure: Failure) -> str:
    """In which way the call fails, in a word or by the beginning of its error; "" where it does not.

    Two failures of one kind are taken for the same fault while a case is shrunk. Outputs are told apart by what is
    wrong: NaN where none is due, a number where NaN is due, a certified output, or one outside its bound.
    """
    if failure.out is None:
        return f"error: {_head(failure.error)}"
    if malformed(failure):
        return "form"
    wrong = wrong_outputs(failure)
    if not wrong.any():
        return ""
    expectation, out = failure.operands.expectation, failure.out
    if bool((wrong & ~out.isnan() & expectation.exact.isnan()).any()):
        return "number for NaN"
    finite = wrong & ~out.isnan()
    if not finite.any():
        return "NaN"
    return "certified" if bool((finite & expectation.certified).any()) else "bound"


def _head(error: str) -> str:
    """The first words of an error, up to the first number or name of a tensor."""
    words = []
    for word in error.split():
        if any(character.isdigit() for character in word):
            break
        words.append(word)
    return " ".join(words[:8])
