"""A kernel as threaded code: blocks of ready-made steps by pc, built when first reached."""

from dataclasses import dataclass

from mxassay.gfx950.decode import Program, UndecodableError
from mxassay.gfx950.indexing import indexed, mode_after
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.moderegister import context_after
from mxassay.gfx950.registry import Context, End, Mode, Step, lookup
from mxassay.gfx950.wave import Cohort

__all__ = ["Block", "Steps", "Threaded"]

# By pc, the operands that are indexed there, and the modes that hold there.
Steps = dict[tuple[int, int, Mode], Step | End | None]


@dataclass(slots=True)
class Block:
    """Straight-line code. `instructions[i]` made `steps[i]`; `end` makes the next pc; `length` counts what runs,
    no-ops too.

    `last` is the instruction that ends the block, or None where the block just runs into the next.
    """

    pc: int
    instructions: tuple[Instruction, ...]
    steps: tuple[Step, ...]
    end: End
    last: Instruction | None
    length: int


def _falls_to(pc: int) -> End:
    return lambda cohort: pc


class Threaded:
    """The blocks of a kernel under one context. `leaders` are the pcs of direct branches' targets, where blocks begin
    too. `steps` keeps what was built; contexts that differ in the observer alone may share it."""

    def __init__(self, program: Program, entry: int, size: int, context: Context, steps: Steps | None = None) -> None:
        self.program, self.entry, self.context = program, entry, context
        self._steps: Steps = {} if steps is None else steps
        self._blocks: dict[int, Block] = {}
        self.leaders = {
            inst.target for inst in program.walk(entry, size) if inst.encoding == "SOPP" and "branch" in inst.op
        }

    def block(self, pc: int) -> Block:
        """The block that begins at `pc`. Raises `UnsupportedInstruction` for what nobody taught us."""
        found = self._blocks.get(pc)
        if found is None:
            found = self._blocks[pc] = self._build(pc)
        return found

    def _build(self, pc: int) -> Block:
        instructions: list[Instruction] = []
        steps: list[Step] = []
        length, at = 0, pc
        moving = 0  # which operands S_SET_GPR_IDX_ON shifts
        context = self.context  # as S_SETREG_IMM32_B32 changes it
        while True:
            try:
                inst = self.program.at(at)
            except UndecodableError as error:
                raise UndecodableError(f"{error} of {self.context.kernel}") from error
            known = lookup(inst.op)
            if known is None:
                self.context.refuse(inst, "no semantics")
            length += 1
            key = at, moving, context.mode
            if key in self._steps:
                made = self._steps[key]
            else:
                shifted = indexed(inst, moving, known.build, context) if moving else None
                made = self._steps[key] = shifted or known.build(inst, context)
            moving, context = mode_after(inst, moving), context_after(inst, context)
            if moving and (known.ends or inst.next_pc in self.leaders):
                self.context.refuse(inst, "register indexing that is on across a branch or its target")
            if context != self.context and (known.ends or inst.next_pc in self.leaders):
                self.context.refuse(inst, "a changed MODE that holds across a branch or its target")
            if known.ends:
                assert made is not None
                end: End = made  # type: ignore[assignment]
                return Block(pc, tuple(instructions), tuple(steps), self._watched_end(end, inst), inst, length)
            if made is not None or self.context.observer:
                instructions.append(inst)
                steps.append(self._watched(made, inst))  # type: ignore[arg-type]
            at = inst.next_pc
            if at in self.leaders:
                return Block(pc, tuple(instructions), tuple(steps), _falls_to(at), None, length)

    def _watched(self, step: Step | None, inst: Instruction) -> Step:
        observer = self.context.observer
        if observer is None:
            assert step is not None
            return step

        def watched(cohort: Cohort) -> None:
            observer.before(cohort, inst)
            if step is not None:
                step(cohort)
            observer.after(cohort, inst)

        return watched

    def _watched_end(self, end: End, inst: Instruction) -> End:
        observer = self.context.observer
        if observer is None:
            return end

        def watched(cohort: Cohort) -> object:
            observer.before(cohort, inst)
            outcome = end(cohort)
            observer.after(cohort, inst)
            return outcome

        return watched  # type: ignore[return-value]
