"""What a kernel's instructions are to the emulator: told without running it, or of a run."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from mxassay.gfx950.dispatch import Kernel
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.machine import Counts
from mxassay.gfx950.registry import Context, Fidelity, Mode, lookup, supported

__all__ = ["Executed", "Operation", "Surveyed", "survey"]


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


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a run: `waves`, how many waves executed it in all, how sure we are of its bits, and where that
    is written."""

    op: str
    waves: int
    fidelity: Fidelity
    source: str


@dataclass(frozen=True, slots=True)
class Executed:
    """What a launch, or several, executed.

    `operations`: the most frequent first. `matrix_results` and `differing`: how many results matrix instructions gave
    where `Options.compare_accumulation` asked, and how many of them depend on the order of adding, which no public
    source fixes; None where nobody asked.
    """

    kernels: tuple[str, ...]
    operations: tuple[Operation, ...]
    matrix_results: int | None = None
    differing: int | None = None

    @staticmethod
    def of(kernel: Kernel, counts: Counts) -> "Executed":
        """What `counts`, that a launch of `kernel` returned, stands for. A block that a fault cut short doesn't count.

        >>> print(Executed.of(kernel, kernel.run(memory, grid, block, kernarg)).text())  # doctest: +SKIP
        """
        waves: Counter[str] = Counter()
        for (pc, length), count in counts.waves_at.items():
            for _ in range(length):
                inst = kernel.program.at(pc)
                waves[inst.op] += count
                pc = inst.next_pc
        found = Executed((kernel.code.name,), _operations(waves))
        compared = counts.matrix_results
        if compared is None:
            return found
        return replace(found, matrix_results=compared.results, differing=compared.differing)

    @staticmethod
    def total(runs: "Iterable[Executed]") -> "Executed":
        """All of them together."""
        waves: Counter[str] = Counter()
        kernels: dict[str, None] = {}
        results, differing, compared = 0, 0, False
        for run in runs:
            kernels.update(dict.fromkeys(run.kernels))
            waves.update({entry.op: entry.waves for entry in run.operations})
            compared |= run.matrix_results is not None
            results += run.matrix_results or 0
            differing += run.differing or 0
        return Executed(
            tuple(kernels), _operations(waves), results if compared else None, differing if compared else None
        )

    @property
    def wave_instructions(self) -> int:
        return sum(entry.waves for entry in self.operations)

    def of_fidelity(self, fidelity: Fidelity) -> tuple[Operation, ...]:
        """The operations that we are so sure of."""
        return tuple(entry for entry in self.operations if entry.fidelity is fidelity)

    def text(self, every: bool = False) -> str:
        """For people: how much of the run is certain, and each operation that is not (`every`: or all of them)."""
        total = self.wave_instructions
        lines = [f"{total:,} wave instructions of {len(self.operations)} operations"]
        for fidelity in Fidelity:
            found = self.of_fidelity(fidelity)
            share = sum(entry.waves for entry in found)
            if found:
                lines.append(f"  {fidelity.value:<9}{share / total:7.2%}  {len(found)} operations")
            if every or fidelity is not Fidelity.CERTAIN:
                lines += [f"    {entry.op:<34}{entry.waves:>14,}  {entry.source}" for entry in found]
        if self.matrix_results is not None:
            lines.append(
                f"  {self.differing:,} of {self.matrix_results:,} matrix results depend on the order of adding"
                + (": another card may give other bits" if self.differing else "")
            )
        return "\n".join(lines)


def _operations(waves: Counter[str]) -> tuple[Operation, ...]:
    found = []
    for op, count in sorted(waves.items(), key=lambda item: (-item[1], item[0])):
        known = lookup(op)
        assert known is not None
        found.append(Operation(op, count, known.fidelity, known.source))
    return tuple(found)
