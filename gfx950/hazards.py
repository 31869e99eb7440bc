"""A lint for missing wait states: pairs of instructions that neither the hardware nor the code keeps apart.

A compiler inserts these wait states itself, but not around inline assembly, and not in hand-written code.
"""

from collections import deque
from dataclasses import dataclass

from mxassay.gfx950.codeobject import CodeObject, KernelCode
from mxassay.gfx950.flow import Flow, flow_of
from mxassay.gfx950.footprint import Footprint, Registers, footprint_of, register_name
from mxassay.gfx950.hazardrules import PAIRS, ROLES, RULES, Rule

__all__ = ["Hazard", "Rule", "hazards_of"]

# (rule, register, producer's pc) -> wait states since then; a state of the analysis at one point of the code.
_State = dict[tuple[int, int, int], int]
# The entry of a state that counts the wait states until the matrix unit is free again.
_BUSY = (-1, 0, 0)


@dataclass(frozen=True, slots=True)
class Hazard:
    """On some path `consumer` (at `pc`) comes `found` wait states after `producer` (at `producer_pc`): too few.

    `register` names the first register that both touch; `line` is the consumer's source file and line, when known.
    """

    pc: int
    consumer: str
    producer_pc: int
    producer: str
    register: str
    found: int
    rule: Rule
    line: tuple[str, int] | None = None

    @property
    def required(self) -> int:
        return self.rule.wait_states

    def __str__(self) -> str:
        where = f" ({self.line[0]}:{self.line[1]})" if self.line else ""
        return (
            f"{self.pc:#x}{where}: {self.consumer}\n"
            f"  must come {self.required} wait states after {self.producer_pc:#x}: {self.producer}, not {self.found}\n"
            f"  ({self.register}: {self.rule.producer}, {self.rule.consumer}; {self.rule.source})"
        )


@dataclass(frozen=True, slots=True)
class _Step:
    """An instruction with the rules it takes part in: what it starts, what it must respect, what it overwrites."""

    footprint: Footprint
    starts: tuple[tuple[int, Registers], ...]
    respects: dict[int, Registers]
    writes: Registers


def hazards_of(
    kernel: KernelCode, code_object: CodeObject | None = None, *, disputed: bool = False
) -> tuple[Hazard, ...]:
    """Every pair of reachable instructions of `kernel` that lie closer together than a rule of `RULES` allows.

    Distances are the least over all paths of direct branches, in wait states: one for each instruction between, N + 1
    for S_NOP N, and for an MFMA between also what it waits for the one before it (a pass is a wait state). Where a pair
    breaks several rules, the one that misses most is named. `code_object` adds source lines; `disputed` adds the rules
    that may be stricter than the hardware (`Rule.disputed` says why).
    Not seen: what lies behind indirect jumps, hazards across kernels, hazards with the trap handler.
    """
    rules = {index for index, rule in enumerate(RULES) if disputed or not rule.disputed}
    return _Lint(flow_of(kernel), kernel.entry, rules).report(code_object)


class _Lint:
    def __init__(self, flow: Flow, entry: int, rules: set[int]) -> None:
        self.flow, self.entry = flow, entry
        self.steps = {pc: _step(footprint_of(inst), rules) for pc, inst in flow.instructions.items()}
        self.blocks = _blocks(flow, entry)
        # (producer's pc, consumer's pc) -> (missing wait states, rule, register)
        self.worst: dict[tuple[int, int], tuple[int, int, int]] = {}

    def report(self, code_object: CodeObject | None) -> tuple[Hazard, ...]:
        for leader, state in self._settle().items():
            self._run(leader, dict(state), note=True)
        return tuple(
            Hazard(
                pc=consumer,
                consumer=self.flow.instructions[consumer].text,
                producer_pc=producer,
                producer=self.flow.instructions[producer].text,
                register=register_name(register),
                found=RULES[rule].wait_states - missing,
                rule=RULES[rule],
                line=code_object.line_of(consumer) if code_object else None,
            )
            for (producer, consumer), (missing, rule, register) in sorted(
                self.worst.items(), key=lambda item: (item[0][1], item[0][0])
            )
        )

    def _settle(self) -> dict[int, _State]:
        """The state at the head of each block: the least distances over all paths that lead there."""
        heads: dict[int, _State] = {self.entry: {_BUSY: 0}}
        pending = deque(heads)
        while pending:
            leader = pending.popleft()
            state = self._run(leader, dict(heads[leader]), note=False)
            for following in self.flow.successors[self.blocks[leader][-1]]:
                if following not in self.blocks:
                    continue
                changed = _merge(state, heads.setdefault(following, {}))
                if changed and following not in pending:
                    pending.append(following)
        return heads

    def _run(self, leader: int, state: _State, note: bool) -> _State:
        for pc in self.blocks[leader]:
            step = self.steps[pc]
            if note:
                self._note(pc, step, state)
            state = _after(pc, step, state)
        return state

    def _note(self, pc: int, step: _Step, state: _State) -> None:
        for (rule, register, producer), age in state.items():
            if rule < 0 or register not in step.respects.get(rule, ()):
                continue
            if not PAIRS[RULES[rule].pair](self.steps[producer].footprint, step.footprint):
                continue
            missing = RULES[rule].wait_states - age
            found = self.worst.get((producer, pc))
            if found is None or (-missing, register) < (-found[0], found[2]):
                self.worst[producer, pc] = (missing, rule, register)


def _after(pc: int, step: _Step, state: _State) -> _State:
    """The state behind the instruction at `pc`."""
    matrix, waited, busy = step.footprint.matrix, step.footprint.wait_states, state[_BUSY]
    if matrix:
        waited += busy
    kept = {
        key: age + waited
        for key, age in state.items()
        if key[0] >= 0
        and age + waited < RULES[key[0]].wait_states
        and (RULES[key[0]].after_read or key[1] not in step.writes)
    }
    kept[_BUSY] = matrix.passes - 1 if matrix else max(0, busy - waited)
    return kept | {(rule, register, pc): 0 for rule, registers in step.starts for register in registers}


def _step(footprint: Footprint, rules: set[int]) -> _Step:
    did = {name: role(footprint) for name, role in ROLES.items()}
    return _Step(
        footprint,
        tuple((index, did[RULES[index].producer]) for index in sorted(rules) if did[RULES[index].producer]),
        {index: did[RULES[index].consumer] for index in sorted(rules) if did[RULES[index].consumer]},
        footprint.vector_writes | footprint.scalar_writes | footprint.mode_write,
    )


def _blocks(flow: Flow, entry: int) -> dict[int, list[int]]:
    """Basic blocks by their first pc."""
    leaders = set(flow.leaders(entry))
    blocks: dict[int, list[int]] = {}
    for leader in sorted(leaders):
        block, pc = [leader], leader
        while flow.successors[pc] == (flow.instructions[pc].next_pc,):
            pc = flow.instructions[pc].next_pc
            if pc in leaders or pc not in flow.instructions:
                break
            block.append(pc)
        blocks[leader] = block
    return blocks


def _merge(state: _State, into: _State) -> bool:
    changed = False
    for key, age in state.items():
        if age < into.get(key, age + 1):
            into[key] = age
            changed = True
    return changed
