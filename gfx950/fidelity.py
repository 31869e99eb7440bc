"""What a kernel's instructions are to the emulator, told without running it."""

from dataclasses import dataclass

from mxassay.gfx950.dispatch import Kernel
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.registry import Context, Fidelity, Mode, lookup, supported

__all__ = ["Surveyed", "survey"]


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One operation of a kernel: how often its code holds it, how sure we are of its bits, and where that is written.

    `fidelity` is None where some of them can't be run; `why` says why and `first` is the first such one, else the
    first of all.
    """

    op: str
    count: int
    fidelity: Fidelity | None
    source: str
    why: str | None
    first: Instruction


def survey(kernel: Kernel) -> tuple[Surveyed, ...]:
    """Every operation in the kernel's code, by name. Code that is never reached counts too.

    >>> [entry.op for entry in survey(Kernel(load_code_object(data))) if entry.why]  # doctest: +SKIP
    []
    """
    context = Context(kernel.code.name, Mode.of(kernel.code.descriptor))
    by_op: dict[str, list[Instruction]] = {}
    for inst in kernel.program.walk(kernel.code.entry, kernel.code.code_size):
        by_op.setdefault(inst.op, []).append(inst)
    return tuple(_surveyed(op, instances, context) for op, instances in sorted(by_op.items()))


def _surveyed(op: str, instances: list[Instruction], context: Context) -> Surveyed:
    known = lookup(op)
    for inst in instances:
        why = supported(inst, context)
        if why is not None:
            return Surveyed(op, len(instances), None, known.source if known else "", why, inst)
    assert known is not None
    return Surveyed(op, len(instances), known.fidelity, known.source, None, instances[0])
