"""An exam: a stage looked at by itself, and what is known once it gives the wrong answer."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mxassay.errors import MxassayError

if TYPE_CHECKING:
    from mxassay.properties.kernel import KernelUnderTest


@dataclass(frozen=True)
class Seen:
    """What an exam saw that must not be.

    Attributes:
        class_: a key of `mxassay.properties.faults.CLASSES`. stage: one of `mxassay.properties.faults.STAGES`.
        statement: what was seen, in one sentence.
        suspect: id of the suspect that gives the very bits that were seen, or "".
    """

    class_: str
    stage: str
    statement: str
    suspect: str = ""


@dataclass(frozen=True)
class Exam:
    """One look.

    Attributes:
        id: words with hyphens.
        statement: what a right kernel does.
        look: at the open kernel; None where all is right.
        properties: ids of the catalogue whose failure makes this exam worth the time first.
        needs: keys of `mxassay.properties.catalogue.NEEDS`.
        launches: whether it runs kernels, which takes a second where they are not compiled yet.
    """

    id: str
    statement: str
    look: "Callable[[KernelUnderTest], Seen | None]"
    properties: tuple[str, ...] = ()
    needs: tuple[str, ...] = ("own",)
    launches: bool = True

    def fits(self, kernel: "KernelUnderTest") -> bool:
        """Whether the kernel and its device can be looked at in this way."""
        offers = {"own": kernel.own, "emulated": kernel.device == "emulated"}
        return all(offers.get(need, False) for need in self.needs)


def look(
    exams: Iterable[Exam], kernel: "KernelUnderTest", told: Callable[[str], None] = lambda words: None
) -> Iterator[tuple[Exam, Seen]]:
    """What the exams see, one after the other; those that don't fit the kernel are left out.

    An exam whose own call raises sees that too: the stage refuses or breaks. `told` hears of exams that broke in
    another way.
    """
    for exam in exams:
        if not exam.fits(kernel):
            continue
        try:
            seen = exam.look(kernel)
        except MxassayError as error:
            seen = refused(str(error))
            if seen is None:
                told(f"{exam.id} could not be looked at: {error}")
        except Exception as error:
            told(f"{exam.id} could not be looked at: {type(error).__name__}: {error}")
            continue
        if seen is not None:
            yield exam, seen


def refused(words: str) -> Seen | None:
    """What a refusal of a legal call tells: by the name that it gives to what it refuses."""
    if "Plan." in words:
        return Seen("plan-lookup", "plan", f"a legal call was refused: {words}")
    if " must " in words and "must stay inside" not in words:
        return Seen("dtype-contract", "contract", f"a legal call was refused: {words}")
    return None
